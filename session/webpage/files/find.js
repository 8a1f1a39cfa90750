// Search in the texts of a conversation. Only rows near the viewport are in the document, so the browser's own search does not
// find the others.

import { h } from "./dom.js";
import { plural } from "./format.js";

const MOST_MARKS = 2000; // places that are marked at once
const MOST_PRESSES = 20; // of "Show more", to reach a place in a long text
const FRAMES = 120; // in which a place comes into the window
const STEADY = 5; // frames in which it stays there
const EDGE = 32; // pixels at the edges of the window that do not count

export class Find {
  constructor(conversation) {
    this.of = conversation;
    this.texts = new WeakMap(); // of items, in lower case
    this.hits = [];
    this.items = [];
    this.words = "";
    this.input = h("input", { type: "search", "aria-label": "Find in the conversation", placeholder: "Find in the conversation", autocomplete: "off", spellcheck: "false", input: () => this.#changed(), keydown: (e) => this.#key(e) });
    this.note = h("span", { class: "faint", role: "status" });
    const button = (text, name, run) => h("button", { class: "quiet", type: "button", "aria-label": name, title: name, click: run }, text);
    this.node = h("form", { class: "find", role: "search", "aria-label": "Find", hidden: true, submit: (e) => { e.preventDefault(); this.move(1); } },
      this.input, this.note, button("\u2191", "The one before (Shift+Enter)", () => this.move(-1)), button("\u2193", "The next one (Enter)", () => this.move(1)), button("\u2715", "Close the search (Escape)", () => this.close()));
  }

  open() {
    this.node.hidden = false;
    this.input.focus();
    this.input.select();
    this.#changed();
  }

  close() {
    this.node.hidden = true;
    this.words = "";
    this.hits = [];
    this.mark();
    this.of.list.node.focus();
  }

  #key(e) {
    if (e.key === "Escape") { e.stopPropagation(); this.close(); }
    if (e.key === "Enter" && e.shiftKey) { e.preventDefault(); this.move(-1); }
  }

  #changed() {
    this.words = plain(this.input.value);
    this.now = null;
    this.#search();
    if (this.hits.length) this.#go(this.hits.length - 1); // the newest first, as a conversation is at its end
    else this.mark();
  }

  // at shows the hit of a commit that is in a turn, or of no turn. false: there is none.
  at(text, seq, turn) {
    this.node.hidden = false;
    this.input.value = text;
    this.words = plain(text);
    this.now = null;
    this.#search();
    const far = (it) => Math.min(...seqsOf(it).map((s) => Math.abs(s - seq)));
    const near = this.items.filter((it) => this.hits.includes(it.key) && (turn ? turnOf(it) === turn : far(it) === 0)).sort((a, b) => far(a) - far(b))[0];
    if (near) this.#go(this.hits.indexOf(near.key));
    return Boolean(near);
  }

  // update takes the items that are shown now.
  update(items) {
    this.items = items;
    if (!this.node.hidden && this.words) this.#search();
  }

  #search() {
    this.hits = this.words ? this.items.filter((it) => this.#text(it).includes(this.words)).map((it) => it.key) : [];
    this.#say();
  }

  #text(it) {
    let known = this.texts.get(it);
    if (known === undefined || it.type === "delta") this.texts.set(it, known = plain(textsOf(it).join(" \n ")));
    return known;
  }

  #say() {
    const bodies = this.words ? this.items.reduce((sum, it) => sum + bodiesOf(it), 0) : 0, at = this.hits.indexOf(this.now);
    this.note.textContent = [this.words && (this.hits.length ? `${at < 0 ? "" : `${at + 1} of `}${plural(this.hits.length, "message")}` : "Not found"), bodies && `${plural(bodies, "long body", "long bodies")} not searched`].filter(Boolean).join(", ");
  }

  // move goes to the next message with the words, or to the one before.
  move(by) {
    if (!this.hits.length) return;
    const at = this.hits.indexOf(this.now);
    this.#go(at < 0 ? (by > 0 ? 0 : this.hits.length - 1) : (at + by + this.hits.length) % this.hits.length);
  }

  #go(i) {
    this.now = this.hits[i];
    const it = this.items.find((item) => item.key === this.now);
    for (const c of it?.node?.calls ?? []) if (plain(callTexts(c).join(" \n ")).includes(this.words)) this.of.open.add(c.id);
    this.of.page.draw();
    this.#show(this.now, FRAMES);
    this.#say();
  }

  // #show scrolls to a row until its place stays in the window: rows that are drawn on the way turn out higher or lower than estimated.
  #show(key, frames, steady = 0) {
    requestAnimationFrame(() => {
      if (key !== this.now || frames === 0 || steady === STEADY) return;
      const { list } = this.of, row = list.rows.get(key)?.node;
      if (!row) list.select(key);
      this.#show(key, frames - 1, row && this.#reveal(row) ? steady + 1 : 0);
    });
  }

  // #reveal opens what hides the words in a row, and scrolls to their place. It reports whether the window shows it already.
  #reveal(row) {
    for (const d of row.querySelectorAll("details:not([open])")) if (plain(d.textContent).includes(this.words)) d.open = true;
    for (let n = 0; n < MOST_PRESSES && !this.#places(row, 1).length; n++) {
      const more = row.querySelector("[data-more]");
      if (!more) break;
      more.click();
    }
    const { list } = this.of, place = (this.#places(row, 1)[0] ?? row).getBoundingClientRect(), box = list.node.getBoundingClientRect();
    const before = list.node.scrollTop;
    if (list.selected !== this.now) list.select(this.now, { show: false });
    if (place.top < box.top + EDGE || place.bottom > box.bottom - EDGE) {
      list.stuck = false;
      list.node.scrollTop += (place.top + place.bottom - box.top - box.bottom) / 2;
    }
    return list.node.scrollTop === before; // where there is no more to scroll, too
  }

  // mark marks the words in all rows that are in the document.
  mark() {
    if (!globalThis.Highlight) return;
    CSS.highlights.delete("found");
    CSS.highlights.delete("found-now");
    if (!this.words || this.node.hidden) return;
    const row = this.of.list.rows.get(this.now)?.node, all = this.#places(this.of.list.sizer, MOST_MARKS);
    CSS.highlights.set("found", new Highlight(...all.filter((r) => !row?.contains(r.startContainer))));
    if (row) CSS.highlights.set("found-now", new Highlight(...all.filter((r) => row.contains(r.startContainer))));
  }

  // #places are the ranges of the words in a part of the document. Words over several text nodes are not marked.
  #places(node, most) {
    const list = [], walk = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
    while (list.length < most && walk.nextNode()) {
      const text = walk.currentNode.data.toLowerCase();
      if (text.length !== walk.currentNode.data.length) continue; // other letters in lower case
      for (let i = text.indexOf(this.words); i >= 0 && list.length < most; i = text.indexOf(this.words, i + this.words.length)) {
        const range = new Range();
        range.setStart(walk.currentNode, i);
        range.setEnd(walk.currentNode, i + this.words.length);
        list.push(range);
      }
    }
    return list;
  }
}

// plain is a text as it is compared: in lower case, with one blank for blanks and breaks, and without the marks that prose drops.
function plain(text) { return text.replace(/\*\*([^*\n]{1,400})\*\*/g, "$1").replace(/`([^`\n]{1,400})`/g, "$1").replace(/\s+/g, " ").toLowerCase(); }

const json = (v) => (typeof v === "string" ? v : JSON.stringify(v ?? ""));

const callTexts = (c) => [json(c.args), c.result?.text ?? ""];

const partTexts = (parts) => (parts ?? []).flatMap((p) => [p.text ?? "", p.tool ?? "", p.kind === "tool_call" ? json(p.args) : ""]);

const turnOf = (it) => it.node?.turn ?? it.turn?.id ?? it.ask?.turn;

// seqsOf are the commits that an item shows.
const seqsOf = (it) => [it.inspects?.seq ?? Infinity, ...(it.node?.calls ?? []).map((c) => c.endedSeq || Infinity)];

// textsOf are the texts of an item of the conversation.
function textsOf(it) {
  switch (it.type) {
    case "message": return [...partTexts(it.node.shown?.length ? it.node.shown : []), ...partTexts(it.node.parts), ...(it.node.calls ?? []).flatMap((c) => callTexts(c))];
    case "queued": return partTexts(it.turn.input?.parts);
    case "input": return partTexts(it.input.parts);
    case "ask": return [it.ask.tool, it.ask.question, json(it.ask.args)];
    case "end": return [it.turn.cancel?.reason ?? "", it.turn.issue?.message ?? "", ...it.turn.modelCalls.filter((c) => c.kind === "interrupted").flatMap((c) => partTexts(c.parts))];
    case "delta": return [it.delta.text];
    default: return [];
  }
}

// bodiesOf is the number of bodies outside of the log, which the page reads only on request.
function bodiesOf(it) {
  if (it.type !== "message") return 0;
  return [...(it.node.parts ?? []), ...(it.node.calls ?? []).map((c) => c.result)].filter((p) => p?.blob?.digest).length;
}
