// Search in the texts of all sessions: the server finds turns, a page at a time.

import { call } from "./api.js";
import { h, say } from "./dom.js";
import { ago, person, plural } from "./format.js";

const WAIT = 250; // ms after a key before the server is asked
const LEAST = 2; // characters
const PAGE = 20; // sessions
const EMPTY = 5; // pages without a session that are read in a row
const MOST_WORDS = 8;
const MOST_LETTERS = 64; // of a word: at most 256 bytes

export class Texts {
  // draw is called after every change.
  constructor(draw) {
    this.draw = draw;
    this.#clear([]);
  }

  #clear(words) {
    clearTimeout(this.timer);
    this.asked?.abort();
    Object.assign(this, { words, found: [], next: "", unread: 0, failed: "", searching: false });
  }

  stop() { this.#clear([]); }

  // look searches for what was typed, once no key came for a moment. Words count alone; "several words" are one text.
  look(typed) {
    const words = (typed.match(/"[^"]+"?|[^\s"]+/g) ?? []).map((w) => [...w.replaceAll('"', "").trim()].slice(0, MOST_LETTERS).join("")).filter(Boolean).slice(0, MOST_WORDS);
    if (words.join("\n") === this.words.join("\n")) return;
    this.#clear(words);
    if (words.join("").length < LEAST) { this.words = []; return; }
    this.searching = true;
    this.timer = setTimeout(() => this.#read(), WAIT);
  }

  // again searches again: the index is some seconds late.
  again() {
    const { words } = this;
    if (!words.length) return;
    this.#clear(words);
    this.searching = true;
    this.#read();
    this.draw();
  }

  // more reads the next page.
  more() {
    if (this.searching || !(this.next || this.failed)) return;
    this.searching = true;
    this.#read();
    this.draw();
  }

  async #read() {
    const asked = this.asked = new AbortController(), before = this.found.length;
    this.failed = "";
    try {
      for (let n = 0; n < EMPTY && this.found.length === before; n++) {
        const page = await call("GET", "/v1/search", { query: { text: this.words, limit: PAGE, cursor: this.next }, signal: asked.signal });
        this.found.push(...page.sessions);
        this.next = page.next ?? "";
        this.unread += page.unread ?? 0;
        if (!this.next) break;
      }
    } catch (error) {
      if (asked.signal.aborted) return;
      this.failed = error.message;
    }
    if (asked.signal.aborted) return;
    this.searching = false;
    say(this.#said());
    this.draw();
  }

  #said() {
    if (this.searching) return "Searching the texts\u2026";
    const turns = this.found.reduce((sum, s) => sum + s.matches.length, 0);
    return [this.failed ? `The texts were not searched: ${this.failed}` : turns ? `${plural(turns, "turn")} in ${plural(this.found.length, "session")}${this.next ? ", and more" : ""}` : this.next ? "No turn yet" : "No turn says it",
      this.unread && `${plural(this.unread, "session")} could not be read`].filter(Boolean).join("; ");
  }

  // items are the rows of a list: a heading, the turns, and the way to more.
  items() {
    if (!this.words.length) return [];
    const said = this.#said(), tick = Math.floor(Date.now() / 10_000); // ages are shown anew
    const list = [{ key: "texts", type: "head", said, high: 34, version: said }];
    for (const s of this.found) for (const m of s.matches) list.push({ key: `text:${s.id}:${m.seq}.${m.pos}`, type: "match", session: s.id, match: m, high: 76, version: `${tick} ${this.words}` });
    if (!this.searching && (this.next || this.failed)) list.push({ key: "more", type: "more", high: 48, version: this.failed ? 1 : 0 });
    return list;
  }

  // row is the content of a row.
  row(it) {
    if (it.type === "head") return h("h2", { class: "texts-head" }, h("span", null, "In texts"), h("span", { class: "faint" }, it.said));
    if (it.type === "more") return h("button", { class: "more-texts", type: "button" }, this.failed ? "Search again" : "Search further");
    const m = it.match;
    return h("a", { class: "found", href: this.href(it), tabindex: "-1" },
      h("span", { class: "name" }, it.session), h("span", { class: "meta" }, [ago(m.at_ms), person(m.actor), m.kind].join(" \u00b7 ")),
      h("span", { class: "snippet", dir: "auto" }, marked(m.text || "", this.words)));
  }

  // href is the place of a match: its session, its commit, and a word of it.
  href({ session, match }) {
    const text = (match.text ?? "").toLowerCase(), word = this.words.find((w) => text.includes(w.toLowerCase())) ?? this.words[0];
    return `#/s/${encodeURIComponent(session)}/talk/${match.seq}/${encodeURIComponent(word)}`;
  }
}

// marked is a text with the places of words.
function marked(text, words) {
  const lower = text.toLowerCase(), list = words.map((w) => w.toLowerCase()), out = [];
  if (lower.length !== text.length) return text; // other letters in lower case
  for (let from = 0; from < text.length;) {
    const [at, length] = list.map((w) => [lower.indexOf(w, from), w.length]).filter(([i]) => i >= 0).sort((a, b) => a[0] - b[0] || b[1] - a[1])[0] ?? [text.length, 0];
    out.push(text.slice(from, at), length > 0 && h("mark", null, text.slice(at, at + length)));
    from = at + length;
  }
  return out;
}
