// A session as a timeline: turns with their model calls and tool calls, their durations and costs.

import { h } from "./dom.js";
import { cancelled, clock, count, duration, endOf, moment, person, plural, said, short, takeovers, total } from "./format.js";
import { money, ofTurn, ofUsage } from "./prices.js";
import { toneOf, wordOf, words } from "./conversation.js";
import { VirtualList } from "./virtual.js";

const WORDS_OF_ENDS = new Set(words());

export class Timeline {
  constructor(page) {
    this.page = page;
    this.common = false; // one scale for all turns
    this.longest = 1; // ms of the longest turn
    this.list = new VirtualList({ label: "Timeline", className: "timeline", render: (it) => this[it.type](it), estimate: (it) => (it.type === "turn" || it.type === "outside" ? 54 : 30), onSelect: (it) => page.inspect(it.inspects) });
    this.toggle = h("button", { type: "button", class: "chip", "aria-pressed": "false", title: "Show how long turns are, compared with each other", click: () => this.#scale(!this.common) }, "One scale for all turns");
    this.ruler = h("span", { class: "faint", role: "status" });
    this.node = h("div", { class: "time-view" }, h("div", { class: "time-head" }, this.toggle, this.ruler), this.list.node);
  }

  // #scale chooses between lanes of which each is one turn, and lanes that are all as long as the longest turn.
  #scale(common) {
    this.common = common;
    this.toggle.setAttribute("aria-pressed", String(common));
    this.#redraw();
  }

  #redraw() {
    this.ruler.textContent = this.common ? `Each lane is ${duration(this.longest)}, as long as the longest turn` : "Each lane is as long as its turn";
    for (const row of this.list.rows.values()) row.version = null; // the bars of all rows change
    this.list.draw();
  }

  update(look) {
    let longest = 1;
    const items = [], outside = look.history.outside.filter((o) => o.seq <= look.seq);
    let next = 0;
    const before = (seq) => { for (; outside[next]?.seq < seq; next++) items.push({ key: `o:${outside[next].seq}:${next}`, type: "outside", of: outside[next], version: 0, inspects: { seq: outside[next].seq } }); };
    for (const t of look.turns()) {
      before(t.requestedSeq || t.startedSeq);
      const status = look.statusOf(t), end = t.endedSeq && t.endedSeq <= look.seq ? t.endedAt : Math.max(look.event?.at ?? 0, t.startedAt);
      if (t.startedAt) longest = Math.max(longest, end - t.startedAt);
      if (status === "ended" && t.rows) {
        items.push(...t.rows);
        continue;
      }
      const first = items.length;
      const span = { from: t.startedAt || t.requestedAt, to: Math.max(end, (t.startedAt || t.requestedAt) + 1) };
      items.push({ key: `t:${t.id}`, type: "turn", turn: t, status, end, seq: look.seq, version: `${status} ${end} ${t.modelCalls.length} ${t.toolCalls.length} ${t.attempts.length}`, inspects: { seq: t.endedSeq && t.endedSeq <= look.seq ? t.endedSeq : t.startedSeq || t.requestedSeq } });
      for (const e of rows(t, look)) items.push({ ...e, span, version: `${e.state} ${span.to}` });
      if (status === "ended") t.rows = items.slice(first);
    }
    before(Infinity);
    const changed = longest !== this.longest && this.common;
    this.longest = longest;
    if (changed || !this.ruler.textContent) this.#redraw();
    this.list.set(items, { follow: look.live });
  }

  outside({ of }) {
    const { tokens, price } = ofUsage(of.usage);
    return h("div", { class: "turn-row" }, h("h2", null, h("span", { class: "faint" }, "outside of turns "), of.what),
      h("p", null, h("time", { title: moment(of.at) }, clock(of.at)), h("span", { class: "numbers" }, [of.millis > 0 && duration(of.millis), tokens > 0 && `${count(tokens)} tokens`, price.dollars > 0 && money(price)].filter(Boolean).join(" \u00b7 "))));
  }

  turn({ turn: t, status, end, seq }) {
    const [text, tone] = status === "ended" ? endOf(t.end) : [status, { running: "run", asking: "ask", waiting: "wait", scheduled: "wait" }[status]];
    const { tokens, price } = ofTurn(t.modelCalls.filter((c) => c.seq <= seq)), taken = takeovers(t), why = status === "ended" && (cancelled(t) || [t.issue?.code || t.issue?.kind, t.issue?.message].filter(Boolean).join(": "));
    return h("div", { class: "turn-row" }, h("h2", null, h("span", { class: "faint" }, `${t.index + 1}`), " ", h("span", { dir: "auto" }, said(t.input?.parts, 140) || t.id)),
      h("p", null, h("span", { class: `tag ${tone}` }, text), t.actor && h("span", null, `asked by ${person(t.actor)}`), h("time", { title: moment(t.startedAt || t.requestedAt) }, clock(t.startedAt || t.requestedAt)),
        h("span", { class: "numbers" }, [t.startedAt && duration(end - t.startedAt), t.startedAt && t.startedAt - t.requestedAt > 50 && `waited ${duration(t.startedAt - t.requestedAt)}`, tokens > 0 && `${count(tokens)} tokens`, price.dollars > 0 && money(price), taken > 0 && plural(taken, "takeover")].filter(Boolean).join(" \u00b7 ")), why && h("span", { class: "why", dir: "auto" }, short(why, 300))));
  }

  model(it) { return this.#bar(it, it.call.kind === "reply" ? "model" : `model ${it.call.kind}`, it.call.model || it.call.provider || "", [duration(it.call.millis), total(it.call.usage) > 0 && `${count(total(it.call.usage))} tokens`, it.call.attempts > 1 && `${it.call.attempts} tries`]); }

  tool(it) { return this.#bar(it, it.call.tool, short(it.call.args, 60), [it.to ? duration(it.to - it.from) : it.state, it.to && it.state !== "success" && wordOf(it.state)]); }

  wait(it) { return this.#bar(it, "approval", it.ask.givenSeq && it.to ? `${it.ask.granted ? "allowed" : "refused"} by ${it.ask.by}${it.ask.reason ? `: ${it.ask.reason}` : ""}` : "waits for an answer", [it.to ? duration(it.to - it.from) : ""]); }

  takeover(it) { return this.#bar(it, it.attempt.answered ? "continues" : "takeover", `${it.attempt.answered ? "after the answer, on" : `attempt ${it.attempt.n}, by`} ${it.attempt.worker}`, []); }

  // #extent is the part of a lane that its turn takes.
  #extent(part) {
    const extent = h("i", { class: "extent" });
    extent.style.width = `${Math.max(part, 0.004) * 100}%`;
    return extent;
  }

  #bar(it, name, what, numbers) {
    const bar = h("i", { class: `bar ${it.type} ${it.tone}` }), own = it.span.to - it.span.from, length = this.common ? Math.max(this.longest, own) : own;
    const left = Math.min(Math.max((it.from - it.span.from) / length, 0), 0.995), width = Math.max((((it.to || it.span.to) - it.from) / length), 0.004);
    bar.style.left = `${left * 100}%`;
    bar.style.width = `${Math.min(width, 1 - left) * 100}%`;
    return h("div", { class: "bar-row" }, h("span", { class: "name" }, name), h("span", { class: "what", dir: "auto", title: what }, what), h("span", { class: "lane" }, this.common && this.#extent(own / length), bar), h("span", { class: "numbers" }, numbers[0] ?? "", numbers.slice(1).filter(Boolean).map((n) => h("span", { class: WORDS_OF_ENDS.has(n) ? "" : "more" }, ` \u00b7 ${n}`))));
  }
}

// rows are the calls of a turn up to a sequence, in the order in which they began.
function rows(t, look) {
  const list = [];
  for (const c of t.modelCalls) {
    if (c.seq <= look.seq) list.push({ key: `m:${t.id}/${c.iteration}/${c.seq}`, type: "model", call: c, from: c.at - c.millis, to: c.at, state: c.kind, tone: c.kind === "reply" ? "" : "bad", inspects: { seq: c.seq, prompt: c } });
  }
  for (const c of t.toolCalls) {
    if (c.seq > look.seq) continue;
    const state = look.callState(c), ended = c.endedSeq && c.endedSeq <= look.seq;
    const from = ended && c.millis ? c.endedAt - c.millis : c.begunAt && c.begunSeq <= look.seq ? c.begunAt : c.at;
    list.push({ key: `c:${c.id}`, type: "tool", call: c, from, to: ended ? c.endedAt : 0, state, tone: toneOf(state), inspects: { seq: ended ? c.endedSeq : c.seq } });
    const ask = look.history.approvals.get(c.id);
    if (ask && ask.seq <= look.seq) list.push({ key: `w:${c.id}`, type: "wait", ask, from: ask.at, to: ask.givenSeq && ask.givenSeq <= look.seq ? ask.givenAt : 0, state: ask.givenSeq <= look.seq && ask.givenSeq ? "given" : "asks", tone: "ask", inspects: { seq: ask.givenSeq && ask.givenSeq <= look.seq ? ask.givenSeq : ask.seq } });
  }
  for (const a of t.attempts.slice(1)) if (a.seq <= look.seq) list.push({ key: `a:${t.id}:${a.seq}`, type: "takeover", attempt: a, from: a.at, to: a.at, state: "", tone: a.answered ? "" : "warn", inspects: { seq: a.seq } });
  return list.sort((a, b) => a.from - b.from || (a.type === "model" ? -1 : 1));
}
