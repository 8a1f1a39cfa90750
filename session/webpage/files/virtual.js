// A long list of which only the rows near the viewport are in the document.

import { h, onFrame, swap } from "./dom.js";

const OVERSCAN = 600; // pixels above and below
const NEAR = 48; // pixels from the end that count as the end

// VirtualList shows items, which have a key and a version: a row is made again when its version changes.
export class VirtualList {
  constructor({ label, role = "list", itemRole = "listitem", render, estimate, onSelect, className = "" }) {
    this.render = render;
    this.estimate = estimate;
    this.onSelect = onSelect;
    this.itemRole = itemRole;
    this.items = [];
    this.count = 0;
    this.laid = 0; // items whose offsets are known
    this.heights = new Map();
    this.offsets = new Float64Array(1);
    this.rows = new Map();
    this.selected = null;
    this.sizer = h("div", { class: "sizer", role });
    this.sizer.setAttribute("aria-label", label);
    this.node = h("div", { class: `scroller ${className}`, tabindex: "0", scroll: () => this.#scrolled(), keydown: (e) => this.#key(e) }, this.sizer);
    this.node.setAttribute("aria-label", label);
    this.node.setAttribute("role", "region");
    this.draw = onFrame(() => this.#draw());
    this.sizes = new ResizeObserver((list) => this.#measured(list));
    this.sizes.observe(this.node);
    this.stuck = true;
    this.before = 0;
  }

  // set shows the first items of a list. A list at its end stays there, unless follow is false. The same array with more
  // items costs only those.
  set(items, { follow = true, count = items.length } = {}) {
    if (items !== this.items) this.laid = 0;
    this.items = items;
    this.count = count;
    this.follow = follow;
    this.#layout();
    this.draw();
  }

  // select marks a row and shows it.
  select(key, { show = true } = {}) {
    this.selected = key;
    const i = this.items.findIndex((it) => it.key === key);
    if (show && i >= 0) this.#show(i);
    this.draw();
  }

  toEnd() {
    this.stuck = true;
    this.node.scrollTop = this.node.scrollHeight;
  }

  // #height is the measured height of an item, or the estimated one.
  #height(item) { return item.height ?? (item.height = this.heights.get(item.key)) ?? this.estimate?.(item) ?? 32; }

  #layout() {
    const n = this.count;
    if (this.offsets.length < n + 1) {
      const more = new Float64Array(Math.ceil((n + 1) * 1.5));
      more.set(this.offsets);
      this.offsets = more;
    }
    let y = this.laid ? this.offsets[this.laid] : 0;
    for (let i = this.laid; i < n; i++) {
      this.offsets[i] = y;
      y += this.#height(this.items[i]);
      this.offsets[i + 1] = y;
    }
    this.laid = Math.max(this.laid, n);
    const high = n ? this.offsets[n] : 0;
    if (high !== this.high) this.sizer.style.height = `${high}px`;
    this.high = high;
    if (this.heights.size > 4 * this.items.length + 2000) { // forget rows that are gone
      const keys = new Set(this.items.map((it) => it.key));
      for (const key of this.heights.keys()) if (!keys.has(key)) this.heights.delete(key);
    }
  }

  // #index is the item at a height.
  #index(y) {
    let low = 0, high = this.count - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (this.offsets[mid] <= y) low = mid;
      else high = mid - 1;
    }
    return Math.max(low, 0);
  }

  #draw() {
    if (!this.node.isConnected || this.node.clientHeight === 0) return;
    if (this.stuck && this.follow) this.node.scrollTop = this.node.scrollHeight;
    const top = this.node.scrollTop, bottom = top + this.node.clientHeight;
    const keep = new Set();
    if (this.count) {
      const last = this.#index(bottom + OVERSCAN);
      for (let i = this.#index(Math.max(top - OVERSCAN, 0)); i <= last; i++) keep.add(this.#place(i));
    }
    for (const [key, row] of this.rows) {
      if (keep.has(key)) continue;
      this.sizes.unobserve(row.node);
      row.node.remove();
      this.rows.delete(key);
    }
    this.onDrawn?.();
  }

  #place(i) {
    const item = this.items[i];
    let row = this.rows.get(item.key);
    if (!row) {
      row = { node: h("div", { class: "row", role: this.itemRole, click: () => this.#click(item.key) }), version: undefined };
      row.node.dataset.key = item.key;
      this.rows.set(item.key, row);
      this.sizer.append(row.node);
      this.sizes.observe(row.node);
    }
    row.item = item;
    if (row.version !== item.version) {
      row.version = item.version;
      swap(row.node, this.render(item));
    }
    if (row.y !== this.offsets[i]) {
      row.y = this.offsets[i];
      row.node.style.transform = `translateY(${row.y}px)`;
    }
    row.node.setAttribute("aria-posinset", i + 1);
    row.node.setAttribute("aria-setsize", this.count);
    row.node.classList.toggle("selected", item.key === this.selected);
    return item.key;
  }

  #measured(list) {
    let changed = false, above = 0;
    const top = this.node.scrollTop;
    for (const entry of list) {
      if (entry.target === this.node) { changed = true; continue; }
      const key = entry.target.dataset.key, height = entry.borderBoxSize[0].blockSize;
      const row = this.rows.get(key);
      if (!row || height === 0) continue;
      const before = this.#height(row.item);
      if (before === height) continue;
      if (!this.stuck && row.y < top) above += height - before;
      row.item.height = height;
      this.heights.set(key, height);
      this.laid = 0;
      changed = true;
    }
    if (!changed) return;
    this.#layout();
    if (above) this.node.scrollTop = top + above;
    this.draw();
  }

  // #scrolled leaves the end only where the reader moves up: rows that turn out higher move the end as well.
  #scrolled() {
    const top = this.node.scrollTop, up = top < this.before - 1;
    this.before = top;
    if (top + this.node.clientHeight >= this.node.scrollHeight - NEAR) this.stuck = true;
    else if (up) this.stuck = false;
    this.draw();
  }

  #show(i) {
    const top = this.offsets[i], bottom = this.offsets[i + 1];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (bottom > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = bottom - this.node.clientHeight;
    this.stuck = i === this.count - 1;
  }

  #click(key) {
    if (!this.onSelect || getSelection()?.toString()) return;
    this.select(key, { show: false });
    const item = this.items.find((it) => it.key === key);
    if (item) this.onSelect(item);
  }

  #key(e) {
    if (e.target !== this.node || e.ctrlKey || e.metaKey || e.altKey || !this.count) return;
    const now = this.items.findIndex((it) => it.key === this.selected), end = this.count - 1;
    const to = { ArrowDown: now + 1, j: now + 1, ArrowUp: now < 0 ? end : now - 1, k: now < 0 ? end : now - 1, Home: 0, End: end }[e.key];
    if (to === undefined) {
      if (e.key === "Enter" && now >= 0) this.onSelect?.(this.items[now], true);
      return;
    }
    e.preventDefault();
    const item = this.items[Math.max(0, Math.min(to, end))];
    this.select(item.key);
    this.onSelect?.(item);
  }
}
