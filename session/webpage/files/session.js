// One session: it follows the commits, and shows them at one sequence in several forms.

import { at, call, follow, Problem, viewAt } from "./api.js";
import { Compare } from "./compare.js";
import { Conversation } from "./conversation.js";
import { clean, h, onFrame, say, swap } from "./dom.js";
import { EventList } from "./events.js";
import { duration, endOf } from "./format.js";
import { Graph } from "./graph.js";
import { History } from "./history.js";
import { Inspector } from "./inspector.js";
import { Proofs } from "./proof.js";
import { Scrubber } from "./scrubber.js";
import { facts, failures, headline, signed } from "./summary.js";
import { Talk } from "./talk.js";
import { Timeline } from "./timeline.js";

// KEPT is the number of events in memory: of a longer session the page has the last ones, and the conversation before them, of
// which it has the last MESSAGES.
const KEPT = 20_000;
const MESSAGES = 5_000;
const FIRST = 12_000; // commits that are read at first
const MOST_DELTA = 200_000; // characters of a live reply

// NARROW is where the inspector is above the rest, as in app.css.
const NARROW = "(max-width: 1100px)";

const TABS = [["talk", "Conversation"], ["time", "Timeline"], ["graph", "Graph"], ["events", "Events"], ["compare", "Compare"]];

export class SessionPage {
  constructor(app, id, tab) {
    Object.assign(this, { app, id, deltas: new Map(), cursor: null, link: "opening", kept: KEPT, messages: MESSAGES });
    this.history = new History(id);
    this.views = new Map([["talk", new Conversation(this)], ["time", new Timeline(this)], ["graph", new Graph(this)], ["events", new EventList(this)], ["compare", new Compare(this)]]);
    this.inspector = new Inspector(this);
    this.scrubber = new Scrubber(this);
    this.proofs = new Proofs(id, () => this.draw());
    this.talk = app.settings.read_only ? null : new Talk(this);
    this.draw = onFrame(() => this.#draw());
    this.node = this.#build();
    this.tab(tab);
    this.ended = new AbortController();
    this.agents = []; // open questions of the session's agents, which have histories of their own
    this.clock = setInterval(() => {
      if (this.history.running && this.cursor === null) this.#head();
      this.#agents().catch(() => {}); // it is read again soon
    }, 1000);
    this.#open();
  }

  stop() {
    this.ended.abort();
    clearInterval(this.clock);
  }

  focus() { this.title.focus(); }

  #build() {
    this.title = h("h1", { tabindex: "-1" }, this.id);
    this.head = h("p", { class: "headline", role: "status" });
    this.since = h("span", { class: "detail", "aria-live": "off" }); // it changes each second: nobody wants to hear it
    this.facts = h("dl", { class: "facts" });
    this.linkNote = h("span", { class: "link" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Forms of the session", keydown: (e) => this.#tabKey(e) });
    for (const [name, text] of TABS) {
      const tab = h("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": "panel", click: () => this.tab(name) }, text);
      tab.dataset.tab = name;
      this.tabs.append(tab);
    }
    this.panel = h("div", { class: "panel", role: "tabpanel", id: "panel" });
    this.note = h("p", { class: "notice", role: "alert", hidden: true });
    const node = h("main", { class: "session-page", id: "main" },
      h("header", { class: "session-head" },
        h("div", { class: "title-line" }, h("a", { class: "back", href: "#/", "aria-label": "Back to all sessions" }, "\u2190"), this.title, h("button", { class: "quiet", type: "button", title: "Find in the conversation (f)", click: () => this.find() }, "Find"), this.linkNote),
        this.head, this.facts, this.tabs),
      this.note,
      h("div", { class: "middle" }, h("div", { class: "column" }, this.panel, this.talk?.node), this.inspector.node),
      this.scrubber.node);
    node.page = this; // for tests, and for people who look at the page with the tools of their browser
    return node;
  }

  // tab shows one of the forms.
  tab(name) {
    this.shown = this.views.has(name) ? name : "talk";
    for (const t of this.tabs.children) {
      const on = t.dataset.tab === this.shown;
      t.setAttribute("aria-selected", String(on));
      t.tabIndex = on ? 0 : -1;
    }
    this.panel.setAttribute("aria-labelledby", `tab-${this.shown}`);
    this.panel.replaceChildren(this.views.get(this.shown).node);
    if (matchMedia(NARROW).matches) this.inspector.hide(); // it would hide the tab
    if (this.talk) this.talk.shown = this.shown === "talk";
    this.draw();
    history.replaceState(null, "", `#/s/${encodeURIComponent(this.id)}${this.shown === "talk" ? "" : `/${this.shown}`}`);
  }

  #tabKey(e) {
    const to = (e.key === "ArrowRight") - (e.key === "ArrowLeft");
    if (!to) return;
    e.preventDefault();
    const names = TABS.map(([name]) => name);
    this.tab(names[(names.indexOf(this.shown) + to + names.length) % names.length]);
    this.tabs.querySelector("[aria-selected=true]").focus();
  }

  async #open() {
    const { signal } = this.ended;
    try {
      this.state = await call("GET", at(this.id), { signal });
      if (this.state.forked_from) await this.#seed(1);
      else if (this.state.seq > FIRST) await this.#seed(this.state.seq - FIRST);
      this.draw();
      await follow(this.id, { cursor: this.history.seq, signal, onBatch: (list) => this.#take(list), onLink: (state, detail) => this.#linked(state, detail) });
    } catch (error) {
      if (!signal.aborted) this.#failed(error);
    }
  }

  // agents reads what agents ask, while the running turn waits for a result from outside, such as that of an agent.
  async #agents() {
    if (document.hidden || this.reading) return;
    const waits = this.cursor === null && [...this.history.turns.values()].some((t) => t.startedSeq && !t.endedSeq && t.calls.some((c) => c?.pendedSeq && !c.endedSeq));
    let list = [];
    if (waits) {
      this.reading = true;
      try {
        list = (await call("GET", at(this.id, "/approvals"), { signal: this.ended.signal })).approvals.filter((a) => a.session !== this.id);
      } finally { this.reading = false; }
    }
    const keys = (of) => of.map((a) => `${a.session} ${a.call}`).join();
    if (keys(list) === keys(this.agents)) return;
    if (list.length > this.agents.length) say(`${list.at(-1).tool} of an agent asks for an approval.`);
    this.agents = list;
    this.draw();
  }

  async #seed(seq) {
    const view = await viewAt(this.id, seq, this.ended.signal);
    this.history = new History(this.id);
    this.history.seed(view);
  }

  #failed(error) {
    this.note.hidden = false;
    this.note.textContent = error instanceof Problem && error.status === 404 ? "There is no such session, or you may not read it." : clean(error.message);
  }

  #linked(state, detail) {
    const was = this.link;
    if (state === "over" && was !== "opening") return this.app.again();
    if (state === "over") state = "lost";
    this.link = state;
    swap(this.linkNote, h("span", { class: `dot ${{ live: "run", waiting: "wait", lost: "bad" }[state] ?? ""}` }), { live: "live", waiting: "connecting again\u2026", lost: "not connected" }[state] ?? "");
    if (state === "lost") this.#failed(detail);
    if (was === "live" && state === "waiting") say("The connection was lost. The page connects again.");
    if (was === "waiting" && state === "live") say("Connected again.");
    return undefined;
  }

  #take(list) {
    const before = this.history.seq;
    for (const m of list) {
      if (m.name === "commit") this.#commit(m.data);
      else if (m.name === "delta") this.#delta(m.data);
      else if (m.name === "gap") this.#gap(m.data);
    }
    if (this.history.seq >= (this.state?.seq ?? 0) && before < (this.state?.seq ?? 0)) this.caughtUp = true;
    if (this.history.events.length > this.kept * 1.25 && this.cursor === null && !this.trimming) this.#trim();
    this.draw();
  }

  #commit(commit) {
    if (!this.history.apply(commit)) return;
    for (const e of commit.events) {
      if (["model.replied", "model.failed", "model.interrupted", "turn.completed"].includes(e.kind)) for (const [key, d] of this.deltas) if (d.turn === e.turn && (!d.output || e.kind === "turn.completed")) this.deltas.delete(key);
      if (e.kind === "tool.returned" || e.kind === "tool.lost") for (const [key, d] of this.deltas) if (d.turn === e.turn && d.output) this.deltas.delete(key);
      if (!this.caughtUp) continue;
      if (e.kind === "turn.completed") say(`The turn ${endOf(e.payload.end)[0]}.`);
      if (e.kind === "tool.approval_asked") say(`${e.payload.tool} asks for an approval.`);
    }
  }

  // trim forgets the older events: the view of the server takes their place. More may come meanwhile.
  async #trim() {
    this.trimming = true;
    try {
      while (this.history.events.length > this.kept * 1.25) {
        const seq = this.history.events.at(-Math.floor(this.kept / 2)).seq, view = await viewAt(this.id, seq, this.ended.signal);
        const next = new History(this.id);
        next.seed(view, this.messages);
        for (const commit of commitsAfter(this.history.events, seq)) next.apply(commit);
        this.history = next;
        this.draw();
      }
    } catch {
      // a later commit tries again
    }
    this.trimming = false;
  }

  #delta(d) {
    const key = d.output ? `out:${d.output.call}` : d.message ? `say:${d.turn}` : `${d.turn}:${d.iteration}`;
    let live = this.deltas.get(key);
    const edition = `${d.call}:${d.attempt}`;
    if (!live || (live.edition !== edition && !d.retry)) {
      live = { key, turn: d.turn, edition, text: "", reasoning: "", note: "", version: 0, output: Boolean(d.output), title: d.output ? `output of ${d.output.call}` : "assistant", tag: d.output ? d.output.stream : "writes" };
      this.deltas.set(key, live);
    }
    if (d.retry) live.note = `The model failed (${d.retry.reason}); it is tried again in ${duration(d.retry.wait_ms)}.`;
    else if (d.output) live.text = (live.text + d.output.text).slice(-MOST_DELTA);
    else if (d.message) live.text = (live.text + d.message.text).slice(-MOST_DELTA);
    else if (d.kind === "reasoning") live.reasoning = (live.reasoning + (d.text ?? "")).slice(-MOST_DELTA);
    else live.text = (live.text + (d.text ?? "")).slice(-MOST_DELTA);
    live.version++;
    if (this.deltas.size > 64) this.deltas.delete(this.deltas.keys().next().value);
  }

  #gap(g) {
    const live = this.deltas.get(`${g.turn}:${g.iteration}`);
    if (live) Object.assign(live, { note: "Some text is missing here; the whole reply follows.", version: live.version + 1 });
  }

  // look is the session at the sequence that the page shows.
  look() { return this.history.at(this.cursor ?? this.history.seq); }

  // moveTo shows the session as it was at a sequence, once the history that it had at first is here; null: as it is.
  moveTo(seq) {
    if (seq !== null && !(this.history.seq >= this.state?.seq)) return;
    this.cursor = seq === null || seq >= this.history.seq ? null : Math.max(seq, this.history.base || 1);
    this.node.classList.toggle("past", this.cursor !== null);
    this.draw();
  }

  live() {
    this.moveTo(null);
    this.views.get("talk").list.toEnd();
  }

  // inspect shows details; without open only where the inspector is open already.
  inspect(what, open = true) {
    if (what && (open || !this.inspector.node.hidden)) this.inspector.show(what);
  }

  // jump shows the message of a commit that has a text, once the history is there.
  jump(goal) {
    this.goal = goal;
    this.draw();
  }

  // #reach shows a goal: in the conversation as it is, or as it was then. What no conversation shows is in the inspector.
  #reach({ seq, text }) {
    const talk = this.views.get("talk"), turn = this.history.events.find((e) => e.seq === seq)?.turn;
    this.tab("talk");
    for (const past of [false, true]) {
      this.moveTo(past ? seq : null);
      talk.update(this.look(), this.deltas);
      if (talk.find.at(text, seq, turn)) return;
    }
    this.moveTo(null);
    talk.find.close();
    this.inspect({ seq });
  }

  #draw() {
    if (this.goal && this.state && this.history.seq >= Math.max(this.state.seq, this.goal.seq)) {
      const { goal } = this;
      this.goal = null;
      this.#reach(goal);
    }
    const look = this.look();
    this.#head(look);
    this.views.get(this.shown).update(look, this.deltas);
    this.scrubber.update(look);
    this.talk?.update(look);
    this.inspector.update();
    if (this.caughtUp || this.history.seq >= (this.state?.seq ?? 0)) this.proofs.update(this.history.heads);
  }

  #head(look = this.look()) {
    const head = headline(look), line = `${head.tone}|${head.text}|${head.detail}`;
    this.since.textContent = head.since ?? "";
    if (line !== this.headLine) {
      this.headLine = line;
      swap(this.head, h("span", { class: `tag big ${head.tone}` }, head.text), head.detail && h("span", { class: "detail", dir: "auto" }, head.detail), this.since);
      document.title = `${head.tone === "ask" ? "(!) " : ""}${clean(this.id)} \u2013 lash`;
    }
    const list = [...facts(look), ...signed(look, this.proofs)], text = JSON.stringify(list);
    if (text === this.factText) return;
    this.factText = text;
    swap(this.facts, list.map(([name, value, about, go, tone]) => h("div", { title: about }, h("dt", null, name), h("dd", null, go ? h("button", { class: `quiet fact ${tone ?? ""}`, type: "button", click: () => this[go]() }, value) : value))));
  }

  // failure shows the next failed or lost call in the timeline, and after the last one the first.
  failure() {
    const list = failures(this.look()), next = list[list.findIndex((f) => f.key === this.failed) + 1] ?? list[0];
    if (!next) return say("No call failed.");
    this.failed = next.key;
    this.tab("time");
    this.views.get("time").update(this.look());
    this.views.get("time").list.select(next.key);
    this.inspect({ event: next.event });
    return undefined;
  }

  // lastHead shows the newest signed head, or the first that is wrong.
  lastHead() { this.inspect({ seq: this.proofs.wrong || this.look().head.seq, head: true }); }

  find() {
    this.tab("talk");
    this.views.get("talk").update(this.look(), this.deltas);
    this.views.get("talk").find.open();
  }

  // findInstead opens the search instead of the browser's own, which does not see all of a conversation. Pressed again it does not.
  findInstead() {
    const { find } = this.views.get("talk");
    if (this.shown !== "talk" || document.activeElement === find.input) return false;
    this.find();
    return true;
  }

  async branch(node) {
    try {
      await call("POST", at(this.id, "/branch"), { body: { node: node.id } });
      this.live();
      this.talk.focus();
      say("The next turn continues from there.");
    } catch (error) {
      this.talk.note.textContent = error.message;
    }
  }

  async fork(node) {
    try {
      const made = await call("POST", at(this.id, "/fork"), { body: {} });
      if (node) await call("POST", at(made.id, "/branch"), { body: { node: node.id } });
      this.app.go(`#/s/${encodeURIComponent(made.id)}`);
    } catch (error) {
      this.talk.note.textContent = error.message;
    }
  }

  // #toApproval moves the focus to an approval, and keeps it there: the end of the list moves while rows are measured, and a row
  // that is drawn again loses the focus.
  #toApproval(frames = 60, of = null) {
    const button = this.node.querySelector(".approval button"), row = button?.closest(".row")?.dataset.key;
    if (!button) this.views.get("talk").list.toEnd();
    else if (of === null || (row === of && document.activeElement === document.body)) button.focus();
    else if (document.activeElement !== button) return;
    if (frames > 0) requestAnimationFrame(() => this.#toApproval(frames - 1, row ?? of));
  }

  // key handles a key of the page; true: it did.
  key(e) {
    const h0 = this.history, seq = this.cursor ?? h0.seq;
    switch (e.key) {
      case "1": case "2": case "3": case "4": case "5": this.tab(TABS[Number(e.key) - 1][0]); return true;
      case "[": this.moveTo(seq - 1); return true;
      case "]": this.moveTo(seq + 1); return true;
      case "{": this.scrubber.turn(-1); return true;
      case "}": this.scrubber.turn(1); return true;
      case "l": this.live(); return true;
      case "e": this.failure(); return true;
      case "f": this.find(); return true;
      case "r": if (this.talk) { this.tab("talk"); this.talk.update(this.look()); this.talk.focus(); } return Boolean(this.talk);
      case "a": this.tab("talk"); this.#toApproval(); return true;
      case "Escape": this.inspector.hide(); return true;
    }
    return false;
  }
}

// commitsAfter makes commits from events in memory.
function* commitsAfter(list, seq) {
  for (let i = History.last(list, seq) + 1; i < list.length;) {
    const commit = { seq: list[i].seq, events: [] };
    for (; i < list.length && list[i].seq === commit.seq; i++) commit.events.push({ ...list[i], time: new Date(list[i].at).toISOString() });
    yield commit;
  }
}
