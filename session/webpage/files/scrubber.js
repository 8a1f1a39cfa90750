// The scrubber moves the whole page through the time of a session.

import { h, s, swap } from "./dom.js";
import { moment } from "./format.js";

const STEP = 60; // ms between commits while it plays
const MARKS = 200;

const ICONS = { play: "M4 2.5v11l9-5.5z", pause: "M4 3h3v10H4zM9 3h3v10H9z", back: "M10.5 3 5.5 8l5 5 1-1-4-4 4-4z", forth: "M5.5 3l5 5-5 5-1-1 4-4-4-4z", first: "M3 3h1.6v10H3zM12.5 3l-5 5 5 5 1-1-4-4 4-4z", last: "M11.4 3H13v10h-1.6zM3.5 3l5 5-5 5-1-1 4-4-4-4z" };

const icon = (name) => s("svg", { class: "icon", viewBox: "0 0 16 16", "aria-hidden": "true" }, s("path", { d: ICONS[name] }));

export class Scrubber {
  constructor(page) {
    this.page = page;
    this.range = h("input", { type: "range", min: "1", max: "1", step: "1", value: "1", "aria-label": "Sequence", input: () => { this.#pause(); page.moveTo(Number(this.range.value)); } });
    this.where = h("output", { class: "where" });
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.play = h("button", { type: "button", "aria-label": "Play", click: () => this.#toggle() }, icon("play"));
    this.now = h("button", { type: "button", class: "now", title: "Follow the session (l)", click: () => { this.#pause(); page.live(); } }, "Live");
    const button = (picture, name, by) => h("button", { type: "button", "aria-label": name, title: name, click: () => by() }, icon(picture));
    this.node = h("section", { class: "scrubber", "aria-label": "Time" },
      button("first", "Previous turn ({)", () => this.turn(-1)), button("back", "Previous commit ([)", () => this.step(-1)), this.play, button("forth", "Next commit (])", () => this.step(1)), button("last", "Next turn (})", () => this.turn(1)),
      h("div", { class: "track" }, this.marks, this.range), this.where, this.now);
  }

  update(look) {
    const { history } = look;
    this.range.min = String(Math.max(history.base, 1));
    this.range.max = String(Math.max(history.seq, 1));
    this.range.value = String(look.seq);
    const e = look.event;
    const text = `${look.seq} of ${history.seq}${e ? ` \u00b7 ${moment(e.at)} \u00b7 ${e.kind}` : ""}`;
    this.where.textContent = text;
    this.range.setAttribute("aria-valuetext", text);
    this.now.setAttribute("aria-pressed", String(this.page.cursor === null));
    const marks = `${history.base} ${history.seq} ${history.turns.size} ${history.approvals.size}`;
    if (marks === this.marked) return;
    this.marked = marks;
    this.#mark(history);
  }

  #mark(history) {
    const from = Math.max(history.base, 1), span = Math.max(history.seq - from, 1);
    const list = [...history.turns.values()].filter((t) => t.startedSeq).map((t) => [t.startedSeq, t.end && !["finished", "tool_value", "submitted_value", "frame_switch"].includes(t.end) ? "bad" : ""]);
    for (const a of history.approvals.values()) list.push([a.seq, "ask"]);
    const every = Math.ceil(list.length / MARKS);
    swap(this.marks, list.filter((_, i) => i % every === 0).map(([seq, tone]) => {
      const mark = h("i", { class: tone });
      mark.style.left = `${((seq - from) / span) * 100}%`;
      return mark;
    }));
  }

  step(by) {
    this.#pause();
    this.page.moveTo((this.page.cursor ?? this.page.history.seq) + by);
  }

  // turn moves to the begin of the turn before or after.
  turn(by) {
    this.#pause();
    const seq = this.page.cursor ?? this.page.history.seq;
    const starts = [...this.page.history.turns.values()].map((t) => t.endedSeq || t.startedSeq).filter(Boolean).sort((a, b) => a - b);
    const to = by > 0 ? starts.find((s) => s > seq) : starts.findLast((s) => s < seq);
    this.page.moveTo(to ?? (by > 0 ? null : 1));
  }

  #toggle() {
    if (this.timer) return this.#pause();
    if (this.page.cursor === null) this.page.moveTo(Math.max(this.page.history.base, 1));
    swap(this.play, icon("pause"));
    this.play.setAttribute("aria-label", "Pause");
    this.timer = setInterval(() => {
      if (this.page.cursor === null || !this.node.isConnected) return this.#pause();
      this.page.moveTo(this.page.cursor + 1);
    }, STEP);
  }

  #pause() {
    clearInterval(this.timer);
    this.timer = 0;
    swap(this.play, icon("play"));
    this.play.setAttribute("aria-label", "Play");
  }
}
