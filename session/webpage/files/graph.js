// The graph of a session as a picture: one row a node, branches as lanes, frames as bands. Only rows near the viewport
// are drawn.

import { h, onFrame, s } from "./dom.js";
import { said, short } from "./format.js";
import { History } from "./history.js";

const ROW = 26, LANE = 18, LEFT = 20, DOT = 5, OVERSCAN = 12, LANES = 24;

export class Graph {
  constructor(page) {
    this.page = page;
    this.draw = onFrame(() => this.#draw());
    this.picture = s("svg", { class: "picture", role: "img", "aria-label": "Graph of the session" });
    this.sizer = h("div", { class: "sizer" }, this.picture);
    this.node = h("div", { class: "scroller graph-view", tabindex: "0", role: "region", "aria-label": "Graph", scroll: () => this.draw(), keydown: (e) => this.#key(e) }, this.sizer);
    this.sizes = new ResizeObserver(() => this.draw());
    this.sizes.observe(this.node);
    this.chosen = -1;
    this.stuck = true;
  }

  update(look) {
    this.look = look;
    const { order } = look.history;
    if (this.of !== look.history || this.laid !== order.length) this.#lay(look.history);
    this.count = History.last(order, look.seq) + 1;
    this.mark = (this.mark ?? 0) + 1;
    for (let n = look.leaf; n; n = n.parent) n.mark = this.mark;
    this.sizer.style.height = `${this.count * ROW + 20}px`;
    if (look.live && this.stuck) this.node.scrollTop = this.node.scrollHeight;
    this.draw();
  }

  // #lay gives each node a lane: the first child keeps that of its parent, each other one opens a new lane.
  #lay(history) {
    if (this.of !== history) Object.assign(this, { of: history, laid: 0, lanes: [], used: new Map(), next: 0, long: [] });
    for (let i = this.laid; i < history.order.length; i++) {
      const n = history.order[i];
      const first = n.parent && !this.used.has(n.parent);
      this.lanes[i] = first ? this.lanes[n.parent.index] : this.next++;
      if (n.parent) this.used.set(n.parent, true);
      if (n.parent && n.index - n.parent.index > 1) this.long.push(n);
    }
    this.laid = history.order.length;
  }

  #x(i) { return LEFT + Math.min(this.lanes[i], LANES) * LANE; }

  #draw() {
    if (!this.look || !this.node.isConnected) return;
    const top = this.node.scrollTop, high = this.node.clientHeight, { order, frames } = this.look.history;
    const from = Math.max(Math.floor(top / ROW) - OVERSCAN, 0), to = Math.min(Math.ceil((top + high) / ROW) + OVERSCAN, this.count);
    const wide = Math.max(this.node.clientWidth - 16, 200), text = LEFT + (Math.min(Math.max(...this.lanes.slice(from, to), 0), LANES) + 1) * LANE + 8;
    this.picture.setAttribute("width", wide);
    this.picture.setAttribute("height", Math.max((to - from) * ROW, 1));
    this.picture.setAttribute("viewBox", `0 ${from * ROW} ${wide} ${Math.max((to - from) * ROW, 1)}`);
    this.picture.style.transform = `translateY(${from * ROW}px)`;
    const bands = [], edges = [], dots = [];
    for (const n of this.long) if (n.index < this.count && n.parent.index < to && n.index >= from && (n.parent.index < from || n.index >= to)) edges.push(this.#edge(n));
    for (let i = from; i < to; i++) {
      const n = order[i];
      if (n.frame % 2) bands.push(s("rect", { class: "band", x: 0, y: i * ROW, width: wide, height: ROW }));
      if (i > 0 && n.frame !== order[i - 1].frame) bands.push(s("text", { class: "frame-name", x: wide - 8, y: i * ROW + 17, "text-anchor": "end" }, short(frames[n.frame]?.reason ?? "", 30)));
      if (n.parent) edges.push(this.#edge(n));
      dots.push(this.#dot(n, i, text));
    }
    this.picture.replaceChildren(...bands, ...edges, ...dots);
  }

  #edge(n) {
    const x = this.#x(n.index), y = n.index * ROW + ROW / 2, px = this.#x(n.parent.index), py = n.parent.index * ROW + ROW / 2;
    const on = n.mark === this.mark && n.parent.mark === this.mark;
    return s("path", { class: on ? "edge on" : "edge", d: x === px ? `M${px} ${py}V${y}` : `M${px} ${py}C${px} ${py + ROW} ${x} ${py} ${x} ${py + ROW}V${y}` });
  }

  #dot(n, i, x) {
    const kind = n.kind !== "message" ? n.kind : n.results ? "tool" : n.role;
    const words = n.kind !== "message" ? `${n.kind} ${n.type ?? ""}` : said(n.parts, Math.max(Math.min(Math.floor((this.node.clientWidth - x - 100) / 7), 110), 12));
    const mark = [n.mark === this.mark && "on", n === this.look.leaf && "leaf", i === this.chosen && "chosen"].filter(Boolean).join(" ");
    return s("g", { class: `node ${kind} ${mark}`, click: () => this.#choose(i) },
      s("rect", { class: "hit", x: 0, y: i * ROW, width: Math.max(this.node.clientWidth - 16, 200), height: ROW }),
      s("circle", { cx: this.#x(i), cy: i * ROW + ROW / 2, r: n === this.look.leaf ? DOT + 2 : DOT }),
      s("text", { x, y: i * ROW + 17 }, s("tspan", { class: "who" }, kind), s("tspan", { dx: 8 }, words)));
  }

  #choose(i) {
    this.chosen = i;
    const n = this.look.history.order[i];
    const y = i * ROW;
    if (y < this.node.scrollTop) this.node.scrollTop = y;
    else if (y + ROW > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = y + ROW - this.node.clientHeight;
    this.page.inspect({ seq: n.seq, node: n });
    this.draw();
  }

  #key(e) {
    const to = { ArrowDown: this.chosen + 1, j: this.chosen + 1, ArrowUp: this.chosen - 1, k: this.chosen - 1, Home: 0, End: this.count - 1 }[e.key];
    if (to === undefined || !this.count || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    this.#choose(Math.max(0, Math.min(to, this.count - 1)));
  }
}
