// Approvals: the cards that ask, and the list over all sessions.

import { at, call } from "./api.js";
import { clean, h, say, swap } from "./dom.js";
import { ago, duration, moment, plural } from "./format.js";
import { body, code, long, value } from "./parts.js";

// argumentsOf shows what a call would run with, and calls onWhole once all of it is there. The page reads JSON as JavaScript
// does, so where the server says that programs may read it otherwise, the text is shown as it is.
function argumentsOf(a, onWhole) {
  if (a.blob?.digest) return body(a.session, a.blob, undefined, onWhole);
  const box = h("div");
  const show = (text) => {
    if (text) box.append(h("p", { class: "why" }, "Programs may read these arguments in different ways. This is their text:"), long(text, code, onWhole));
    else box.append(value(a.args, onWhole));
  };
  if (a.listed) {
    show(a.args_text);
    return box;
  }
  call("GET", at(a.session, "/approvals")).then(
    (all) => show(all.approvals.find((x) => x.call === a.call)?.args_text),
    (error) => { box.append(value(a.args), h("p", { class: "why" }, `Not compared with the text of the call: ${error.message}`)); });
  return box;
}

// approvalCard asks for an answer to a call. The server records the caller of the answer. A call is allowed only once its
// arguments are shown.
export function approvalCard(a, { readOnly, onAnswer, link } = {}) {
  const note = h("p", { class: "why", role: "status" });
  const form = a.args?.requestedSchema; // a question of a tool, whose answer is the JSON of an object
  const defaults = form && a.args.defaults ? JSON.stringify(a.args.defaults) : "";
  const reason = h("input", { type: "text", maxlength: form ? "65536" : "1000", value: defaults, placeholder: form ? "Answer, or a reason if you refuse" : "Reason, if you refuse", "aria-label": `${form ? "Answer" : "Reason"} for ${a.tool}` });
  const card = h("section", { class: "approval", "aria-label": `May ${a.tool} run?` });
  const answer = async (granted) => {
    for (const b of card.querySelectorAll("button")) b.disabled = true;
    try {
      await call("POST", at(a.session, "/approvals"), { body: { call: a.call, granted, reason: granted || reason.value !== defaults ? reason.value : "" } });
      note.textContent = granted ? "Allowed." : "Refused.";
      say(`${a.tool}: ${note.textContent}`);
      onAnswer?.(a);
    } catch (error) {
      note.textContent = error.status === 403 ? "Your token may not answer: it needs the right approve." : error.message;
      for (const b of card.querySelectorAll("button")) b.disabled = false;
    }
  };
  const allow = h("button", { class: "primary", type: "button", disabled: true, click: (e) => { e.stopPropagation(); answer(true); } }, "Allow");
  return swap(card,
    h("header", null, h("span", { class: "tag ask" }, "asks"), h("b", null, a.tool), link && h("a", { href: `#/s/${encodeURIComponent(a.session)}` }, a.session), h("span", { class: "faint" }, `${a.plugin} asks about ${a.call}`), h("span", { class: "faint since" }, a.at ? `since ${moment(a.at).slice(0, 19)}` : "")),
    h("div", { class: "question" }, long(a.question)),
    argumentsOf(a, () => { allow.disabled = false; }),
    a.until ? h("p", { class: "faint" }, `Refused without an answer in ${duration(Math.max(a.until - Date.now(), 0))}`) : null,
    readOnly ? null : h("div", { class: "buttons" },
      allow,
      h("button", { type: "button", click: (e) => { e.stopPropagation(); answer(false); } }, "Refuse"), reason),
    note);
}

const EVERY = 2500;
const PAGE = 100; // questions that are shown at first, and that one press adds: ten of each session come before any others of it

// Inbox lists the approvals of all sessions that the caller may read.
export class Inbox {
  constructor(app) {
    this.app = app;
    this.cards = new Map();
    this.most = PAGE;
    this.body = h("div", { class: "cards" });
    this.title = h("h1", { tabindex: "-1" }, "Inbox");
    this.node = h("main", { class: "inbox", id: "main" }, this.title, this.body);
    this.ended = new AbortController();
    this.#run();
  }

  stop() { this.ended.abort(); }

  // further shows another page.
  further() {
    this.most += PAGE;
    this.#read().catch(() => {}); // it is read again soon
  }

  focus() { this.title.focus(); }

  async #run() {
    while (!this.ended.signal.aborted) {
      if (!document.hidden) await this.#read().catch((error) => { if (!this.ended.signal.aborted) this.#show([], error.message); });
      await new Promise((done) => setTimeout(done, EVERY));
    }
  }

  async #read() {
    const list = [];
    let page;
    do {
      page = await call("GET", "/v1/approvals", { query: { limit: PAGE, cursor: page?.next ?? "" }, signal: this.ended.signal });
      list.push(...page.approvals);
    } while (page.next && list.length < this.most);
    const count = Math.max(page.count, list.length);
    this.#show(list, "", page.next ? Math.max(count - list.length, 1) : 0);
    this.app.asks(count);
  }

  // #of says of which session a question is: its owner, its labels, and how old its last commit is.
  #of(card, a) {
    const r = this.app.sessions?.rows.get(a.session);
    if (r) card.querySelector(".since").textContent = clean([r.owner && `owner ${r.owner}`, Object.entries(r.labels ?? {}).slice(0, 3).map(([k, v]) => `${k}=${v}`).join(" "), `last commit ${ago(r.updated_at_ms)}`].filter(Boolean).join(" \u00b7 "));
  }

  #show(list, error, more) {
    const keep = new Set(list.map((a) => `${a.session} ${a.call}`));
    for (const [key, card] of this.cards) if (!keep.has(key)) { card.remove(); this.cards.delete(key); }
    for (const a of list) {
      const key = `${a.session} ${a.call}`;
      if (this.cards.has(key)) { this.#of(this.cards.get(key), a); continue; }
      const card = approvalCard({ ...a, listed: true }, { link: true, readOnly: this.app.settings.read_only });
      this.cards.set(key, card);
      this.#of(card, a);
      this.body.append(card);
    }
    this.state ??= this.body.appendChild(h("p", { class: "empty" }));
    if (this.body.lastElementChild !== this.state) this.body.append(this.state);
    const said = `${error} ${list.length} ${more}`;
    if (this.said !== said) swap(this.state, error || (list.length ? "" : "Nothing waits for an answer."), more > 0 && h("button", { type: "button", class: "more", click: () => this.further() }, `Show more: ${plural(more, "question")} of sessions with many`));
    this.said = said;
    document.title = list.length ? `(${list.length}) Inbox \u2013 lash` : "Inbox \u2013 lash";
    if (this.known !== undefined && list.length > this.known) say(`${plural(list.length, "approval")} waiting`);
    this.known = list.length;
  }
}
