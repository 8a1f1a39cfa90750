// The box to talk to a session.

import { at, call } from "./api.js";
import { h, say } from "./dom.js";

export class Talk {
  constructor(page) {
    this.page = page;
    this.note = h("p", { class: "why", role: "status" });
    this.text = h("textarea", { rows: "2", "aria-label": "Message to the session", placeholder: matchMedia("(max-width: 760px)").matches ? "Message\u2026" : "Message\u2026 Enter sends, Shift+Enter breaks the line", keydown: (e) => this.#key(e), input: () => this.#grow() });
    this.busy = h("select", { "aria-label": "When to run the message, while a turn runs", title: "When to run the message, while a turn runs" },
      h("option", { value: "enqueue" }, "after this turn"), h("option", { value: "inject" }, "into this turn"), h("option", { value: "interrupt" }, "instead of this turn"), h("option", { value: "branch" }, "in a branch"));
    this.stop = h("button", { type: "button", hidden: true, click: () => this.#cancel() }, "Stop");
    this.send = h("button", { class: "primary", type: "submit" }, "Send");
    this.node = h("form", { class: "talk", "aria-label": "Talk to the session", submit: (e) => { e.preventDefault(); this.#submit(); } },
      this.text, h("div", { class: "talk-line" }, this.busy, this.note, this.stop, this.send));
  }

  focus() { this.text.focus(); }

  update(look) {
    const running = look.history.running;
    this.turn = running?.id;
    this.busy.hidden = this.stop.hidden = !running;
    this.stop.disabled = Boolean(running?.cancel);
    this.stop.textContent = running?.cancel ? "Stopping\u2026" : "Stop";
    this.node.hidden = Boolean(look.history.closed) || !this.shown;
  }

  #grow() {
    this.text.style.height = "auto";
    this.text.style.height = `${Math.min(this.text.scrollHeight, 240)}px`;
  }

  #key(e) {
    if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
    e.preventDefault();
    this.#submit();
  }

  async #submit() {
    const text = this.text.value;
    if (!text.trim() || this.send.disabled) return;
    this.send.disabled = true;
    this.note.textContent = "";
    try {
      await call("POST", at(this.page.id, "/turns"), { body: { text, when_busy: this.turn ? this.busy.value : undefined } });
      this.text.value = "";
      this.#grow();
      this.page.live();
      say("Sent.");
    } catch (error) {
      this.note.textContent = error.status === 403 ? "Your token may not write here: it needs the right write." : error.message;
    }
    this.send.disabled = false;
  }

  async #cancel() {
    this.stop.disabled = true;
    try {
      await call("POST", at(this.page.id, `/turns/${encodeURIComponent(this.turn)}/cancel`), { body: { reason: "stopped on the page" } });
    } catch (error) {
      this.note.textContent = error.message;
      this.stop.disabled = false;
    }
  }
}
