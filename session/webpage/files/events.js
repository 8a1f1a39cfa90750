// The events of a session, one a row.

import { h } from "./dom.js";
import { clock, moment, redactedBy, short } from "./format.js";
import { History } from "./history.js";
import { VirtualList } from "./virtual.js";

export class EventList {
  constructor(page) {
    this.page = page;
    this.filter = h("input", { type: "search", placeholder: "Kind, turn or actor", "aria-label": "Filter events", input: () => page.draw() });
    this.list = new VirtualList({ label: "Events", className: "events", render: (it) => this.#row(it.event), estimate: () => 28, onSelect: (it) => page.inspect({ event: it.event }) });
    this.node = h("div", { class: "events-view" }, this.filter, this.list.node);
  }

  update(look) {
    const { history } = look, words = this.filter.value.toLowerCase(), list = words.split(/\s+/).filter(Boolean);
    if (this.of !== history || this.words !== words) Object.assign(this, { of: history, words, items: [], seen: 0 });
    for (; this.seen < history.events.length; this.seen++) {
      const event = history.events[this.seen];
      if (list.length && !list.every((w) => `${event.kind} ${event.turn ?? ""} ${event.actor}`.toLowerCase().includes(w))) continue;
      this.items.push({ key: `${event.seq}.${event.pos}`, seq: event.seq, version: 0, event });
    }
    this.list.set(this.items, { count: History.last(this.items, look.seq) + 1, follow: look.live });
  }

  #row(e) {
    const [family] = e.kind.split(".");
    return h("div", { class: `event ${family}` }, h("span", { class: "seq" }, `${e.seq}.${e.pos}`), h("time", { title: moment(e.at) }, clock(e.at)), h("span", { class: "kind" }, e.kind), h("span", { class: "turn" }, e.turn ?? ""), h("span", { class: "what", dir: "auto" }, short(said(e), 160)));
  }
}

// said is what an event says, on one line.
export function said(e) {
  if (e.redacted) return `${redactedBy(e)}; its digest is ${e.redacted}`;
  const p = e.payload ?? {};
  switch (e.kind) {
    case "turn.requested": case "turn.scheduled": return text(p.input?.parts);
    case "turn.started": return `attempt ${p.attempt} by ${p.worker}`;
    case "turn.completed": case "turn.diverted": return [p.end, p.issue?.code, p.issue?.message].filter(Boolean).join(": ");
    case "model.replied": return `${p.model ?? ""} ${p.stop} ${text(p.parts)}`;
    case "model.failed": return `${p.error} ${p.message ?? ""}`;
    case "tool.returned": return (p.results ?? []).map((r) => `#${r.call} ${r.outcome} ${r.text ?? ""}`).join(" ");
    case "tool.approval_asked": return `${p.tool}: ${p.question}`;
    case "tool.approval_given": return `${p.effect} ${p.granted ? "allowed" : "refused"} by ${p.by ?? e.actor} ${p.reason ?? ""}`;
    case "tool.state_applied": return `generation ${p.generation}, ${(p.tools ?? []).length} tools`;
    case "graph.appended": return (p.nodes ?? []).map((n) => `${n.id} ${n.message ? text(n.message.parts) : n.type ?? ""}`).join(" ");
    case "audit.head_signed": return `covers commits up to ${e.seq}`;
    default: return e.payload === undefined ? "of a kind that this server does not know" : JSON.stringify(p).slice(0, 400);
  }
}

const text = (parts) => (parts ?? []).map((p) => p.text || (p.tool ? `${p.tool}(${JSON.stringify(p.args ?? "").slice(0, 200)})` : p.kind)).join(" ").slice(0, 400);
