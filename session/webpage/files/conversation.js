// A session as a conversation: the active branch at a sequence.

import { h } from "./dom.js";
import { cancelled, clock, count, duration, endOf, moment, person, plural, redactedBy, said, short, takeovers } from "./format.js";
import { Find } from "./find.js";
import { History } from "./history.js";
import { approvalCard } from "./inbox.js";
import { body, long, prose, value } from "./parts.js";
import { money, ofTurn } from "./prices.js";
import { VirtualList } from "./virtual.js";

const WORDS = new Map([["success", "done"], ["failure", "failed"], ["cancelled", "cancelled"], ["lost", "lost"], ["running", "runs"], ["asking", "asks"], ["outside", "waits outside"]]);
const TONES = new Map([["success", "good"], ["failure", "bad"], ["lost", "bad"], ["cancelled", "warn"], ["asking", "ask"], ["running", "run"], ["outside", "wait"]]);
export const words = () => WORDS.values();
export const wordOf = (state) => WORDS.get(state) ?? state ?? "";
export const toneOf = (state) => TONES.get(state) ?? "";

// SPOKEN are the kinds of events that the conversation shows.
const SPOKEN = new Set(["turn.requested", "turn.scheduled", "model.replied", "tool.returned", "input.injected", "graph.appended", "frame.opened", "tool.approval_asked", "tool.approval_given"]);
const missingOf = (event) => ({ key: `gone:${event.seq}.${event.pos}`, version: 0, high: 70, type: "redacted", event, inspects: { event } });

export class Conversation {
  constructor(page) {
    this.page = page;
    this.open = new Set(); // calls whose details are shown
    this.list = new VirtualList({
      label: "Conversation", className: "conversation", render: (it) => this.#row(it), estimate: (it) => it.high, onSelect: (it, enter) => page.inspect(it.inspects, enter === true),
    });
    this.find = new Find(this);
    this.list.onDrawn = () => this.find.mark();
    this.node = h("div", { class: "talk-view" }, this.find.node, this.list.node);
  }

  update(look, deltas) {
    const items = this.#items(look, deltas);
    this.list.set(items, { follow: look.live });
    this.find.update(items);
  }

  shown() { this.list.draw(); }

  #items(look, deltas) {
    const items = [], asks = look.pending();
    let frame = 0, before = null, gone = 0;
    const redacted = look.history.redacted;
    const missing = (seq) => {
      for (; gone < redacted.length && redacted[gone].seq <= seq; gone++) if (SPOKEN.has(redacted[gone].kind)) items.push(missingOf(redacted[gone]));
    };
    if (look.history.left) items.push({ key: "left", version: look.history.left, high: 40, type: "left", count: look.history.left, inspects: null });
    for (const n of look.path()) {
      missing(n.seq);
      if (before?.turn && before.turn !== n.turn) this.#end(items, look, before.turn);
      if (n.frame !== frame) {
        frame = n.frame;
        const f = look.history.frames[frame];
        items.push({ key: `frame:${frame}`, version: 0, high: 40, type: "frame", frame: f, inspects: { seq: f.seq } });
      }
      const others = otherBranches(n, look);
      if (others.length) items.push({ key: `fork:${n.id}`, version: others.length, high: 40 * others.length, type: "fork", node: n, others, inspects: { seq: n.seq, node: n } });
      if (!n.results || n.parts.some((p) => p.kind !== "tool_result")) items.push(this.#message(n, look));
      before = n;
    }
    if (before?.turn) this.#end(items, look, before.turn);
    missing(look.seq);
    for (const t of look.turns()) {
      const status = look.statusOf(t);
      if (status === "waiting" || status === "scheduled") items.push({ key: `wait:${t.id}`, version: status, high: 70, type: "queued", turn: t, status, inspects: { seq: t.requestedSeq } });
    }
    for (const i of look.history.inputs.values()) {
      if (i.seq <= look.seq && !(i.doneSeq && i.doneSeq <= look.seq)) items.push({ key: `input:${i.id}`, version: 0, high: 70, type: "input", input: i, inspects: { seq: i.seq } });
    }
    for (const a of asks) items.push({ key: `ask:${a.call}`, version: look.live, high: 160, type: "ask", ask: a, live: look.live, inspects: { seq: a.seq } });
    if (look.live) for (const a of this.page.agents) items.push({ key: `ask:${a.session} ${a.call}`, version: 0, high: 160, type: "ask", ask: { ...a, listed: true }, live: true, inspects: null });
    if (look.live && deltas.size) for (const d of deltas.values()) items.push({ key: `delta:${d.key}`, version: d.version, high: 60, type: "delta", delta: d, inspects: null });
    return items;
  }

  #end(items, look, id) {
    const t = look.history.turns.get(id);
    if (t?.endedSeq && t.endedSeq <= look.seq && t.startedSeq) items.push({ key: `end:${id}`, version: 0, high: 32, type: "end", turn: t, inspects: { seq: t.endedSeq } });
  }

  // #message is the row of a message. It stays the same once all calls have ended, while nothing of them is opened.
  #message(n, look) {
    const done = !n.calls || n.calls.every((c) => c.endedSeq > 0 && c.endedSeq <= look.seq && !this.open.has(c.id));
    if (!done) return this.#makeMessage(n, look);
    n.row ??= this.#makeMessage(n, look);
    n.row.look = look;
    return n.row;
  }

  #makeMessage(n, look) {
    const states = n.calls?.map((c) => look.callState(c)) ?? [];
    const size = n.parts?.reduce((sum, p) => sum + Math.min(p.text?.length ?? 200, 6000), 0) ?? 60;
    return {
      key: `n:${n.id}:${n.index}`, version: states.join() + n.calls?.map((c) => this.open.has(c.id)).join(), high: 44 + (size / 80) * 22, type: "message", node: n, states, look,
      inspects: { seq: n.seq, node: n },
    };
  }

  #row(it) {
    switch (it.type) {
      case "frame": return h("div", { class: "divider" }, h("span", null, it.frame.reason === "compaction" ? "Summarised here: the model sees what follows, and the messages that were kept" : `New frame: ${it.frame.reason}. The model does not see what is above`));
      case "fork": return this.#fork(it);
      case "redacted": return h("article", { class: "message faint redacted" }, h("header", null, h("b", null, it.event.kind), h("time", { title: moment(it.event.at) }, clock(it.event.at)), h("span", { class: "tag warn" }, "redacted")), h("p", { dir: "auto" }, redactedBy(it.event)));
      case "left": return h("div", { class: "divider" }, h("span", null, `${it.count.toLocaleString("en")} older messages are left out. Compare shows the session at any point`));
      case "end": return this.#endRow(it.turn);
      case "queued": return h("article", { class: "message user faint" }, h("header", null, h("b", null, "user"), h("span", { class: "tag wait" }, it.status === "scheduled" ? `starts ${moment(it.turn.dueAt)}` : "waits for the turns before it")), this.#parts(it.turn.input?.parts ?? []));
      case "input": return h("article", { class: "message user faint" }, h("header", null, h("b", null, it.input.role), h("span", { class: "tag wait" }, "joins the turn at its next step")), this.#parts(it.input.parts));
      case "ask": return approvalCard({ session: this.page.id, ...it.ask }, { link: it.ask.listed, readOnly: this.page.app.settings.read_only || !it.live });
      case "delta": return this.#delta(it.delta);
      default: return this.#messageRow(it);
    }
  }

  #endRow(t) {
    const [text, tone] = endOf(t.end);
    const { tokens, price } = ofTurn(t.modelCalls), taken = takeovers(t), why = cancelled(t), cut = cutText(t);
    return h("div", { class: `turn-end ${tone}` },
      cut && h("details", { click: (e) => e.stopPropagation() }, h("summary", null, "what the model had written"), long(cut)),
      h("span", { class: `tag ${tone}` }, text),
      why && h("span", { class: "why", dir: "auto" }, short(why, 300)),
      t.issue && h("span", { class: "why", dir: "auto" }, short([t.issue.code || t.issue.kind, t.issue.message].filter(Boolean).join(": "), 300)),
      h("span", { class: "numbers" }, [duration(t.endedAt - t.startedAt), t.modelCalls.length > 0 && `${t.modelCalls.length} model`, t.toolCalls.length > 0 && `${t.toolCalls.length} tool`, tokens > 0 && `${count(tokens)} tokens`, price.dollars > 0 && money(price), taken > 0 && plural(taken, "takeover")].filter(Boolean).join(" \u00b7 ")));
  }

  #messageRow({ node: n, states, look }) {
    if (n.kind !== "message") return h("div", { class: "divider" }, h("span", null, `${n.kind} ${n.type}`));
    const results = n.results ? n.parts.filter((p) => p.kind !== "tool_result") : n.parts;
    let index = 0;
    const who = n.role === "assistant" ? n.reply?.model || "assistant" : n.origin ? `${n.role}, ${n.origin}` : n.role;
    return h("article", { class: `message ${n.role}` },
      h("header", null, h("b", null, who), n.by && h("span", null, person(n.by)), h("time", { title: moment(n.at) }, clock(n.at)), n.reply?.millis > 0 && h("span", null, duration(n.reply.millis)),
        n.stop && h("span", { class: "tag warn" }, n.stop.replaceAll("_", " ")), this.#actions(n)),
      n.shown?.length ? this.#parts(n.shown) : this.#parts(results.filter((p) => p.kind !== "tool_call"), n.role),
      results.filter((p) => p.kind === "tool_call").map((p) => (n.calls ? this.#call(n.calls[index], states[index++], look) : this.#oldCall(p))));
  }

  // #fork says which messages are not on the branch that is shown, and shows them as they were.
  #fork({ node, others }) {
    const show = (o) => (e) => { e.stopPropagation(); this.page.moveTo(lastOn(this.page.history, o, node.seq)); };
    return h("div", { class: "forks" }, others.map((o) => h("div", { class: "divider" }, h("span", null, `Another branch begins here: ${o.role ?? o.kind}, \u201c${said(o.parts, 60)}\u201d`),
      o.seq < node.seq && h("button", { class: "quiet", type: "button", title: "Show the session as it was before it left that branch", click: show(o) }, "show it"))));
  }

  #actions(n) {
    const details = h("button", { class: "quiet", type: "button", title: "Show its events, its prompt and its proof", click: (e) => { e.stopPropagation(); this.page.inspect({ seq: n.seq, node: n }); } }, "details");
    if (this.page.app.settings.read_only) return h("span", { class: "actions" }, details);
    return h("span", { class: "actions" }, details,
      h("button", { class: "quiet", type: "button", title: "Make this the end of the conversation; the next turn continues here", click: (e) => { e.stopPropagation(); this.page.branch(n); } }, "branch"),
      h("button", { class: "quiet", type: "button", title: "Copy the session up to here into a new one", click: (e) => { e.stopPropagation(); this.page.fork(n); } }, "fork"));
  }

  #parts(list, role) {
    return (list ?? []).map((p) => {
      if (p.blob?.digest && p.kind !== "attachment") return body(this.page.id, p.blob);
      switch (p.kind) {
        case "text": return role === "assistant" ? prose(p.text) : long(p.text);
        case "reasoning": return h("details", { class: "reasoning", click: (e) => e.stopPropagation() }, h("summary", null, "reasoning"), long(p.text));
        case "tool_result": return h("div", { class: "result" }, h("span", { class: `tag ${toneOf(p.outcome)}` }, `${p.tool ?? ""} ${wordOf(p.outcome)}`), long(p.text));
        case "attachment": return this.#attachment(p);
        default: return value(p);
      }
    });
  }

  #attachment(p) {
    const image = /^image\/(png|jpeg|gif|webp)$/.test(p.media_type ?? "") && /^[A-Za-z0-9+/=]+$/.test(p.text ?? "");
    if (image) return h("img", { class: "attachment", alt: `attachment, ${p.media_type}`, src: `data:${p.media_type};base64,${p.text}` });
    return h("p", { class: "faint" }, `attachment, ${p.media_type ?? "no type"}${p.text ? `: ${short(p.text, 80)}` : ""}`, p.blob?.digest ? body(this.page.id, p.blob) : null);
  }

  #call(c, state, look) {
    const open = this.open.has(c.id), approval = look.history.approvals.get(c.id);
    const ended = c.endedSeq > 0 && c.endedSeq <= look.seq;
    return h("div", { class: `call ${toneOf(state)}` },
      h("button", { class: "call-line", type: "button", "aria-expanded": String(open), click: (e) => { e.stopPropagation(); this.#toggle(c.id); } },
        h("span", { class: "tool" }, c.tool), h("span", { class: "args", dir: "auto" }, short(c.args, 140)),
        h("span", { class: `tag ${toneOf(state)}` }, wordOf(state)), ended && c.millis > 0 && h("span", { class: "numbers" }, duration(c.millis))),
      approval?.givenSeq > 0 && approval.givenSeq <= look.seq ? h("p", { class: "answered" }, `${approval.granted ? "allowed" : "refused"} by ${approval.by}${approval.reason ? `: ${approval.reason}` : ""}`) : null,
      open && h("div", { class: "call-body" },
        h("h4", null, "Arguments"), c.blob?.digest ? body(this.page.id, c.blob) : value(c.args),
        ended && [h("h4", null, "Result"), c.result.blob?.digest ? body(this.page.id, c.result.blob) : long(c.result.text),
          (c.result.full || c.result.full_blob?.digest) && h("p", { class: "faint" }, "The model read a shortened text.")]),
      !open && ended && state !== "success" && h("p", { class: "why", dir: "auto" }, short(c.result.text, 240)));
  }

  #oldCall(p) {
    return h("div", { class: "call" }, h("div", { class: "call-line" }, h("span", { class: "tool" }, p.tool), h("span", { class: "args", dir: "auto" }, short(p.args, 140))));
  }

  #toggle(id) {
    if (!this.open.delete(id)) this.open.add(id);
    this.page.draw();
  }

  #delta(d) {
    return h("article", { class: "message assistant live" }, h("header", null, h("b", null, d.title), h("span", { class: "tag run" }, d.tag)),
      d.reasoning && h("p", { class: "faint reasoning-live", dir: "auto" }, d.reasoning.slice(-400)), d.text && long(d.text), d.note && h("p", { class: "why" }, d.note));
  }
}

// otherBranches are the first messages of branches that begin where a node begins.
function otherBranches(n, look) {
  const all = n.parent ? n.parent.children : look.history.roots;
  return all.length < 2 ? [] : all.filter((o) => o !== n && o.seq <= look.seq);
}

// lastOn is the last sequence before another one at which the conversation was on the branch that begins with a node.
function lastOn({ leaves }, node, before) {
  for (let i = History.last(leaves, before - 1); i >= 0; i--) {
    let n = leaves[i].leaf;
    while (n && n.depth > node.depth) n = n.parent;
    if (n === node) return leaves[i + 1].seq - 1;
  }
  return node.seq;
}

// cutText is the begin of a reply that was interrupted at the end of a turn. It is no message: later prompts do not have it.
function cutText(t) {
  const last = t.modelCalls.at(-1);
  return last?.kind === "interrupted" ? (last.parts ?? []).map((p) => p.text ?? "").join("") : "";
}
