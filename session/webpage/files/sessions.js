// The list of sessions, with search and filters.

import { at, call } from "./api.js";
import { h, onFrame, swap } from "./dom.js";
import { ago, endOf, short } from "./format.js";
import { VirtualList } from "./virtual.js";

const EVERY = 2000; // ms between looks at what changed
const OVERLAP = 5000; // the directory is about a second late, and clocks differ
const PAGE = 1000;
const MOST = 20_000; // rows that are kept
const AT_ONCE = 3; // questions about last turns
const ENDS = 2000; // answers that are kept

const FILTERS = [
  ["all", "All", () => true],
  ["ask", "Asking", (r) => r.approvals > 0],
  ["run", "Running", (r) => Boolean(r.running) && !r.approvals],
  ["wait", "Waiting", (r) => r.queued > 0 || r.tasks > 0],
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
    this.search = h("input", { type: "search", id: "search", placeholder: "Search id, label, owner", "aria-label": "Search sessions", autocomplete: "off", spellcheck: "false", input: () => this.#draw(), keydown: (e) => this.#key(e) });
    this.chips = h("div", { class: "chips", role: "group", "aria-label": "Filter" });
    this.list = new VirtualList({ label: "Sessions", className: "sessions", render: (it) => this.#row(it.row), estimate: () => 58, onSelect: (it) => app.go(`#/s/${encodeURIComponent(it.row.id)}`) });
    this.note = h("p", { class: "empty", role: "status" }, "Reading the sessions\u2026");
    this.node = h("nav", { class: "side", "aria-label": "Sessions" },
      h("div", { class: "side-head" }, this.search, app.settings.read_only ? null : h("button", { type: "button", title: "New session (n)", click: () => this.create() }, "New")),
      this.chips, this.note, this.list.node);
    this.ended = new AbortController();
    this.redraw = onFrame(() => this.#draw());
    this.#run();
  }

  stop() { this.ended.abort(); }

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
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = [...this.rows.values()].filter((r) => {
      const text = `${r.id} ${r.owner ?? ""} ${r.parent ?? ""} ${Object.entries(r.labels ?? {}).map(([k, v]) => `${k}=${v}`).join(" ")}`.toLowerCase();
      return words.every((w) => text.includes(w));
    });
    const test = FILTERS.find(([name]) => name === this.filter)[2];
    const list = found.filter(test).sort((a, b) => b.updated_at_ms - a.updated_at_ms || (a.id < b.id ? -1 : 1));
    this.#drawChips(found);
    this.note.hidden = list.length > 0 && !this.failed;
    this.note.textContent = this.failed || (this.rows.size ? "No session matches." : "There is no session yet.");
    const minute = Math.floor(Date.now() / 10_000);
    this.list.set(list.map((row) => ({ key: row.id, row, version: `${row.seq} ${row.status} ${row.approvals} ${row.running ?? ""} ${row.queued}  ${minute} ${this.ends.get(row.id)?.seq}` })), { follow: false });
    this.app.asks([...this.rows.values()].reduce((sum, r) => sum + r.approvals, 0));
  }

  #drawChips(found) {
    const state = `${this.filter} ${FILTERS.map(([, , test]) => found.filter(test).length).join()}`;
    if (state === this.chipState) return;
    const focused = document.activeElement?.dataset?.filter;
    this.chipState = state;
    swap(this.chips, FILTERS.map(([name, text, test]) => {
      const n = found.filter(test).length;
      const chip = h("button", { type: "button", class: "chip", "aria-pressed": String(name === this.filter), click: () => { this.filter = name; this.#draw(); } }, text, h("span", { class: "n" }, String(n)));
      chip.dataset.filter = name;
      return n || name === "all" || name === this.filter ? chip : null;
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

  // #endOf is how the last turn of a session ended. It is asked for rows that are shown only.
  #endOf(r) {
    const known = this.ends.get(r.id);
    if (known?.seq === r.seq) return known;
    if (!this.asked.some((other) => other.id === r.id)) this.asked.push(r);
    if (this.asked.length > 60) this.asked.shift();
    this.#askEnds();
    return known;
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
    } else if (e.key === "Escape") {
      this.search.value = "";
      this.#draw();
    }
  }
}
