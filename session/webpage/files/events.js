// The events of a session, one a row.

import { h } from "./dom.js";
import { clock, moment, short } from "./format.js";
import { VirtualList } from "./virtual.js";

export class EventList {
  constructor(page) {
    this.page = page;
    this.filter = h("input", { type: "search", placeholder: "Kind, turn or actor", "aria-label": "Filter events", input: () => page.draw() });
    this.list = new VirtualList({ label: "Events", className: "events", render: (it) => this.#row(it.event), estimate: () => 28, onSelect: (it) => page.inspect({ event: it.event }) });
    this.node = h("div", { class: "events-view" }, this.filter, this.list.node);
  }

  update(look) {
    const { events } = look.history, words = this.filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const items = [];
    for (const event of events) {
      if (event.seq > look.seq) break;
      if (words.length && !words.every((w) => `${event.kind} ${event.turn ?? ""} ${event.actor}`.toLowerCase().includes(w))) continue;
      event.item ??= { key: `${event.seq}.${event.pos}`, version: 0, event };
      items.push(event.item);
    }
    this.list.set(items);
  }

  #row(e) {
    const [family] = e.kind.split(".");
    return h("div", { class: `event ${family}` }, h("span", { class: "seq" }, `${e.seq}.${e.pos}`), h("time", { title: moment(e.at) }, clock(e.at)), h("span", { class: "kind" }, e.kind), h("span", { class: "turn" }, e.turn ?? ""), h("span", { class: "what", dir: "auto" }, short(said(e), 160)));
  }
}

// said is what an event says, on one line.
export function said(e) {
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
