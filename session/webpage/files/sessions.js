// The list of sessions, with search and filters.

import { at, call } from "./api.js";
import { h, onFrame, swap } from "./dom.js";
import { ago, endOf, plural, short } from "./format.js";
import { Texts } from "./texts.js";
import { VirtualList } from "./virtual.js";

const EVERY = 2000; // ms between looks at what changed
const OVERLAP = 5000; // the directory is about a second late, and clocks differ
const PAGE = 1000;
const MOST = 20_000; // rows that are kept
const AT_ONCE = 3; // questions about last turns
const ENDS = 2000; // answers that are kept
const LOOKED = 500; // sessions whose last turns are asked for, to find those that failed

// FILTERS are tests of rows. The one of failed ones also gets the end of the last turn, as far as it is known.
const FILTERS = [
  ["all", "All", () => true],
  ["ask", "Asking", (r) => r.approvals > 0],
  ["run", "Running", (r) => Boolean(r.running) && !r.approvals],
  ["wait", "Waiting", (r) => r.queued > 0 || r.tasks > 0],
  ["fail", "Failed", (r, end) => end?.tone === "bad", "Sessions whose last turn failed"],
  ["open", "Open", (r) => r.status === "open"],
  ["closed", "Closed", (r) => r.status === "closed"],
];

export class Sessions {
  constructor(app) {
    this.app = app;
    this.rows = new Map();
    this.ends = new Map(); // how the last turns ended
    this.asked = [];
    this.asking = 0;
    this.filter = "all";
    this.search = h("input", { type: "search", id: "search", placeholder: "Search id, label, text", title: "Ids, labels and owners of sessions, and what was said in them. \"Several words\" are one text", "aria-label": "Search sessions and texts", maxlength: "400", autocomplete: "off", spellcheck: "false", input: () => { this.texts.look(this.search.value); this.#draw(); }, keydown: (e) => this.#key(e) });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Filter" });
    this.texts = new Texts(() => this.#draw());
    this.list = new VirtualList({ label: "Sessions", className: "sessions", render: (it) => (it.row ? this.#row(it.row) : this.texts.row(it)), estimate: (it) => it.high ?? 58, onSelect: (it) => this.#go(it) });
    this.note = h("p", { class: "empty", role: "status" }, "Reading the sessions\u2026");
    this.node = h("nav", { class: "side", "aria-label": "Sessions" },
      h("div", { class: "side-head" }, this.search, app.settings.read_only ? null : h("button", { type: "button", title: "New session (n)", click: () => this.create() }, "New")),
      this.chips, this.note, this.list.node);
    this.ended = new AbortController();
    this.redraw = onFrame(() => this.#draw());
    this.#run();
  }

  stop() {
    this.ended.abort();
    this.texts.stop();
  }

  #go(it) {
    if (it.row) this.app.go(`#/s/${encodeURIComponent(it.row.id)}`);
    else if (it.type === "match") this.app.go(this.texts.href(it));
    else if (it.type === "more") this.texts.more();
  }

  focus() { this.search.focus(); }

  select(id) { this.list.select(id); }

  async create() {
    try {
      const made = await call("POST", "/v1/sessions", { body: {} });
      this.app.go(`#/s/${encodeURIComponent(made.id)}`);
    } catch (error) {
      this.note.hidden = false;
      this.note.textContent = error.status === 403 ? "Your token may not create sessions: it needs the right write." : error.message;
    }
  }

  async #run() {
    const { signal } = this.ended;
    for (let first = true; !signal.aborted;) {
      try {
        if (first) await this.#all();
        else if (!document.hidden) await this.#changed();
        first = false;
        this.failed = "";
      } catch (error) {
        if (signal.aborted) return;
        this.failed = error.message;
      }
      this.#draw();
      await new Promise((done) => setTimeout(done, EVERY));
    }
  }

  async #all() {
    for (let cursor = ""; this.rows.size < MOST;) {
      const page = await call("GET", "/v1/sessions", { query: { limit: PAGE, cursor }, signal: this.ended.signal });
      this.#take(page.sessions);
      this.#draw();
      cursor = page.next;
      if (!cursor) return;
    }
  }

  async #changed() {
    let since = 1;
    for (const r of this.rows.values()) if (r.updated_at_ms > since) since = r.updated_at_ms;
    const page = await call("GET", "/v1/sessions", { query: { limit: PAGE, updated_from_ms: Math.max(since - OVERLAP, 1) }, signal: this.ended.signal });
    this.#take(page.sessions);
  }

  #take(list) {
    for (const r of list) {
      const was = this.rows.get(r.id);
      if (!was || was.seq <= r.seq) this.rows.set(r.id, r);
    }
    while (this.rows.size > MOST) this.rows.delete(this.rows.keys().next().value);
  }

  #draw() {
    const words = this.search.value.toLowerCase().replaceAll('"', "").split(/\s+/).filter(Boolean);
    const found = [...this.rows.values()].filter((r) => {
      const text = `${r.id} ${r.owner ?? ""} ${r.parent ?? ""} ${Object.entries(r.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(" ")}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    const test = FILTERS.find(([name]) => name === this.filter)[2];
    const newest = found.sort((a, b) => b.updated_at_ms - a.updated_at_ms || (a.id < b.id ? -1 : 1));
    const list = newest.filter((r) => test(r, this.#known(r))), texts = this.texts.items();
    this.#drawChips(found);
    const looking = this.filter === "fail" ? this.#lookForFailures(newest) : "";
    this.note.hidden = list.length + texts.length > 0 && !this.failed && !looking;
    this.note.textContent = this.failed || looking || (this.rows.size ? "No session matches." : "There is no session yet.");
    const tick = Math.floor(Date.now() / 10_000); // ages are shown anew
    this.list.set([...list.map((row) => ({ key: row.id, row, version: `${row.seq} ${row.status} ${row.approvals} ${row.running ?? ""} ${row.queued}  ${tick} ${this.ends.get(row.id)?.seq}` })), ...texts], { follow: false });
    this.app.asks([...this.rows.values()].reduce((sum, r) => sum + r.approvals, 0));
  }

  #drawChips(found) {
    const counts = new Map(FILTERS.map(([name, , test]) => [name, found.filter((r) => test(r, this.#known(r))).length]));
    const state = `${this.filter} ${[...counts.values()].join()}`;
    if (state === this.chipState) return;
    const focused = document.activeElement?.dataset?.filter;
    this.chipState = state;
    swap(this.chips, FILTERS.map(([name, text, , title]) => {
      const n = counts.get(name);
      const chip = h("button", { type: "button", class: "chip", title, "aria-pressed": String(name === this.filter), click: () => { this.filter = name; this.#draw(); } }, text, h("span", { class: "n" }, String(n)));
      chip.dataset.filter = name;
      return n || name === "all" || name === this.filter || (name === "fail" && found.some((r) => r.turns)) ? chip : null;
    }));
    if (focused) this.chips.querySelector(`[data-filter="${CSS.escape(focused)}"]`)?.focus();
  }

  #row(r) {
    const [tone, text] = r.approvals ? ["ask", r.approvals === 1 ? "asks" : `asks ${r.approvals}`] : r.running ? ["run", "runs"] : r.queued ? ["wait", `${r.queued} waiting`] : r.status === "open" ? ["", ""] : ["idle", r.status];
    const end = text || !r.turns ? null : this.#endOf(r);
    const labels = Object.entries(r.labels ?? {}).slice(0, 3).map(([k, v]) => `${k}=${v}`).join(" ");
    return h("a", { class: "session", href: `#/s/${encodeURIComponent(r.id)}`, tabindex: "-1" },
      h("span", { class: `dot ${end?.tone ?? tone}`, title: end?.tone === "good" ? "last turn finished" : null }), h("span", { class: "name" }, r.id, end?.tone === "good" && h("span", { class: "hidden" }, ", last turn finished")), text && h("span", { class: `tag ${tone}` }, text),
      end?.tag && h("span", { class: `tag ${end.tone}`, title: end.why }, end.tag),
      h("span", { class: "meta" }, [ago(r.updated_at_ms), r.turns ? `${r.turns} turn${r.turns === 1 ? "" : "s"}` : "", r.owner, labels].filter(Boolean).join(" \u00b7 ")));
  }

  // #known is how the last turn of a session ended, where that is known of its last commit and nothing runs.
  #known(r) {
    const known = this.ends.get(r.id);
    return known?.seq === r.seq && !r.running && !r.queued ? known : undefined;
  }

  // #endOf is the last known end of a turn, maybe of an earlier commit. It asks for the end as of the row's commit where that is not known.
  #endOf(r) {
    const known = this.ends.get(r.id);
    if (known?.seq === r.seq) return known;
    if (!this.asked.some((other) => other.id === r.id)) this.asked.push(r);
    if (this.asked.length > 60) this.asked.shift();
    this.#askEnds();
    return known;
  }

  // #lookForFailures asks for the last turns of sessions, a few at a time, the newest first. It says how far it is, and what it does
  // not look at.
  #lookForFailures(newest) {
    const all = newest.filter((r) => r.turns && !r.running && !r.queued), some = all.slice(0, LOOKED), missing = some.filter((r) => this.ends.get(r.id)?.seq !== r.seq);
    if (this.asked.length < AT_ONCE) for (const r of missing.slice(0, AT_ONCE)) this.#endOf(r);
    if (missing.length) return `Looking at the last turns: ${plural(missing.length, "session")} to go\u2026`;
    return all.length > LOOKED ? `Of the ${LOOKED} sessions that moved last.` : "";
  }

  async #askEnds() {
    if (this.asking >= AT_ONCE) return;
    const r = this.asked.pop();
    if (!r) return;
    this.asking++;
    let end = { seq: r.seq, tone: "", tag: "", why: "" };
    try {
      const page = await call("GET", at(r.id, "/turns"), { query: { limit: 1 }, signal: this.ended.signal });
      const turn = page.turns[0];
      if (turn?.status === "ended") {
        const [tag, tone] = endOf(turn.end);
        end = { seq: r.seq, tone, tag: tone === "good" ? "" : tag, why: short([turn.issue?.code, turn.issue?.message].filter(Boolean).join(": "), 300) };
      }
    } catch {
      // the row shows less
    }
    this.asking--;
    if (this.ended.signal.aborted) return;
    this.ends.set(r.id, end);
    if (this.ends.size > ENDS) this.ends.delete(this.ends.keys().next().value);
    this.redraw();
    this.#askEnds();
  }

  #key(e) {
    if (e.key === "ArrowDown") {
      e.preventDefault();
      this.list.node.focus();
    } else if (e.key === "Enter") {
      this.texts.again();
    } else if (e.key === "Escape") {
      this.search.value = "";
      this.texts.look("");
      this.#draw();
    }
  }
}
