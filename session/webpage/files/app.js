// The shell: sign-in, routes, keys.

import { call, token } from "./api.js";
import { h, swap } from "./dom.js";
import { Inbox } from "./inbox.js";
import * as prices from "./prices.js";
import { SessionPage } from "./session.js";
import { Sessions } from "./sessions.js";

// REFUSED is shown where the server does not take the token: what to do next.
const REFUSED = "The server does not know this token, or its time is over. Paste the whole token again, or ask whoever runs this server for a new one.";

class App {
  constructor() {
    this.root = document.getElementById("app");
    this.settings = {};
    window.addEventListener("signed-out", () => this.signIn(REFUSED));
    window.addEventListener("hashchange", () => this.route());
    window.addEventListener("keydown", (e) => this.#key(e));
  }

  async start() {
    this.settings = await fetch("/page/settings.json").then((r) => r.json()).catch(() => ({}));
    try {
      await call("GET", "/v1/sessions", { query: { limit: 1 } });
    } catch (error) {
      if (error.status !== 401) this.signIn(error.message);
      return;
    }
    this.#enter();
  }

  // signIn asks for a token. A browser with a certificate that the server takes does not come here.
  signIn(why) {
    this.#leave();
    this.signedIn = false;
    const input = h("input", { type: "password", id: "token", autocomplete: "off", required: true, spellcheck: "false" });
    const note = h("p", { class: "why", role: "alert" }, token.get() ? `${why}` : "");
    token.clear();
    swap(this.root, h("main", { class: "sign-in", id: "main" }, h("form", { submit: async (e) => {
      e.preventDefault();
      token.set(input.value.trim());
      await this.start();
    } },
    h("h1", null, h("img", { src: "/page/icon.svg", alt: "", width: "28", height: "28" }), "lash"),
    h("p", null, "Sessions of this server"),
    h("label", { for: "token" }, "Token"), input, note, h("button", { class: "primary", type: "submit" }, "Sign in"),
    h("p", { class: "faint" }, "The token stays in this tab, and is forgotten with it. It may also be a signed token of the server's issuer."))));
    input.focus();
  }

  async #enter() {
    this.signedIn = true;
    if (this.settings.prices) await prices.load();
    const source = this.settings.source ? await call("GET", "/v1/source").catch(() => ({})) : {};
    this.badge = h("span", { class: "badge", hidden: true });
    this.waiting = h("span", { class: "hidden", hidden: true }, " waiting");
    this.inboxLink = h("a", { href: "#/inbox" }, "Inbox", this.badge, this.waiting);
    this.sessions = new Sessions(this);
    this.slot = h("div", { class: "slot" });
    swap(this.root, h("header", { class: "top" },
      h("a", { class: "brand", href: "#/" }, h("img", { src: "/page/icon.svg", alt: "", width: "22", height: "22" }), "lash"),
      source.name && h("span", { class: "faint source" }, source.name),
      h("span", { class: "space" }), this.inboxLink,
      h("button", { class: "quiet", type: "button", title: "Keys (?)", click: () => this.help() }, "Keys"),
      token.get() && h("button", { class: "quiet", type: "button", click: () => { token.clear(); this.signIn(""); } }, "Sign out")),
    h("div", { class: "frame" }, this.sessions.node, this.slot));
    this.route();
  }

  #leave() {
    this.page?.stop();
    this.sessions?.stop();
    this.page = this.sessions = null;
  }

  go(hash) {
    if (location.hash === hash) this.route();
    else location.hash = hash;
  }

  // again shows the route anew, with nothing of what the page has in memory.
  again() {
    this.page?.stop();
    this.page = null;
    this.route();
  }

  asks(n) {
    this.badge.hidden = this.waiting.hidden = n === 0;
    this.badge.textContent = String(n);
  }

  route() {
    if (!this.signedIn) return;
    const [, kind, id, tab, seq, text] = location.hash.split("/").map(decoded), goal = Number(seq) > 0 && { seq: Number(seq), text: text ?? "" };
    if (kind === "s" && this.page?.id === (id ?? "")) {
      if (goal) this.page.jump(goal);
      else if (tab && tab !== this.page.shown) this.page.tab(tab);
      return;
    }
    this.page?.stop();
    this.page = null;
    this.root.classList.toggle("at-list", kind !== "s" && kind !== "inbox");
    if (kind === "s" && id) {
      this.page = new SessionPage(this, id, tab ?? "talk");
      if (goal) this.page.jump(goal);
      this.sessions.select(this.page.id);
    } else if (kind === "inbox") this.page = new Inbox(this);
    if (this.page) {
      this.slot.replaceChildren(this.page.node);
      this.page.focus();
    } else {
      document.title = "lash";
      swap(this.slot, h("main", { class: "nothing", id: "main" }, h("h1", null, "Sessions"), h("p", null, "Choose a session."), h("p", { class: "faint" }, "Press / to search, n for a new one, i for the inbox, ? for all keys.")));
    }
  }

  help() {
    const close = () => box.remove();
    const keys = [["/", "search sessions and texts"], ["n", "new session"], ["i", "inbox"], ["\u2191 \u2193 or j k", "move in a list"], ["Enter", "open"], ["1 to 5", "conversation, timeline, graph, events, compare"], ["[ ]", "one commit back, one on"], ["{ }", "one turn back, one on"], ["e", "the next call that failed or was lost"], ["l", "follow the session"], ["f", "find in the conversation"], ["r", "write a message"], ["a", "go to the approval"], ["Escape", "close the inspector"]];
    const box = h("dialog", { class: "help", "aria-label": "Keys", close }, h("h2", null, "Keys"), h("dl", { class: "pairs" }, keys.map(([k, what]) => h("div", null, h("dt", null, h("kbd", null, k)), h("dd", null, what)))), h("button", { type: "button", click: () => box.close() }, "Close"));
    document.body.append(box);
    box.showModal();
  }

  #key(e) {
    const field = /^(INPUT|TEXTAREA|SELECT)$/.test(e.target.tagName ?? "");
    if ((e.ctrlKey || e.metaKey) && e.key === "f" && this.page?.findInstead?.()) { e.preventDefault(); return; }
    if (!this.signedIn || e.ctrlKey || e.metaKey || e.altKey || document.querySelector("dialog[open]")) return;
    if (field && e.target.type !== "range") {
      if (e.key === "Escape") e.target.blur();
      return;
    }
    if (e.key === "/") { e.preventDefault(); this.sessions.focus(); return; }
    if (e.key === "i") { this.go("#/inbox"); return; }
    if (e.key === "n" && !this.settings.read_only) { this.sessions.create(); return; }
    if (e.key === "?") { this.help(); return; }
    if (this.page?.key?.(e)) e.preventDefault();
  }
}

// decoded is a part of an address. One that is not encoded is as it stands.
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

new App().start();
