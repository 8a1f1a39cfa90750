// The inspector shows one thing with all its details: an event, a prompt, or a signed head.

import { h, swap } from "./dom.js";
import { count, duration, moment, total } from "./format.js";
import { body, long, value } from "./parts.js";

const COMMITS = 60; // events of a commit that are shown

export class Inspector {
  constructor(page) {
    this.page = page;
    this.title = h("h2", { tabindex: "-1" }, "Details");
    this.content = h("div", { class: "inspector-body", tabindex: "0", role: "region", "aria-label": "Details" });
    this.node = h("aside", { class: "inspector", "aria-label": "Inspector", hidden: true },
      h("header", null, this.title, h("button", { type: "button", class: "quiet", "aria-label": "Close the inspector (Escape)", click: () => this.hide() }, "\u2715")), this.content);
  }

  hide() { this.node.hidden = true; }

  // show takes {event}, or {seq} with a node or the call of a prompt.
  show(what) {
    this.node.hidden = false;
    const { history } = this.page, seq = what.event?.seq ?? what.seq;
    const events = what.event ? [what.event] : history.events.filter((e) => e.seq === seq);
    this.title.textContent = what.event ? what.event.kind : `Commit ${seq}`;
    swap(this.content,
      h("div", { class: "buttons" }, h("button", { type: "button", click: () => this.page.moveTo(seq) }, "Show the session at this point")),
      what.node && this.#node(what.node),
      what.prompt ? this.#prompt(what.prompt) : events.filter((e) => e.kind.startsWith("model.") && e.payload?.prompt).map((e) => this.#promptOf(e)),
      events.filter((e) => e.kind === "audit.head_signed").map((e) => this.#proof(e)),
      events.length === 0 && h("p", { class: "faint" }, "The events of this commit are not in memory: the page began after them."),
      events.slice(0, COMMITS).map((e) => this.#event(e)), events.length > COMMITS && h("p", { class: "faint" }, `${events.length - COMMITS} more events`));
    this.content.scrollTop = 0;
  }

  update() {}

  #event(e) {
    const proof = this.page.history.heads.find((head) => head.seq >= e.seq);
    return h("section", { class: "inspected" }, h("h3", null, `${e.seq}.${e.pos} ${e.kind}`),
      h("dl", { class: "pairs" }, pairs({ id: e.id, time: moment(e.at), actor: e.actor, cause: e.cause, turn: e.turn, version: e.version, proof: proof ? `covered by the signed head of commit ${proof.seq}` : "no signed head covers it yet" })),
      e.redacted ? h("p", { class: "faint" }, `The payload was redacted. Its digest is ${e.redacted}.`)
        : e.payload === undefined ? h("p", { class: "faint" }, "The server does not know this kind.") : value(e.payload));
  }

  #node(n) {
    return h("section", { class: "inspected" }, h("h3", null, `Node ${n.id}`),
      h("dl", { class: "pairs" }, pairs({ parent: n.parent?.id ?? "none", turn: n.turn, frame: this.page.history.frames[n.frame]?.id, role: n.role, origin: n.origin })),
      n.blob?.digest ? body(this.page.id, n.blob) : null);
  }

  #promptOf(e) {
    const call = this.page.history.modelCalls.find((c) => c.event === e);
    return call ? this.#prompt(call) : null;
  }

  // #prompt shows what a model call was asked with: rebuilt from the history, as the digest says.
  #prompt(call) {
    const { history } = this.page, look = history.at(call.seq - 1), p = call.prompt ?? {};
    const leaf = history.nodes.get(p.leaf), prepared = history.prepared.findLast((x) => x.seq <= call.seq && x.turn === call.turn && !x.kept) ?? history.prepared.findLast((x) => x.seq <= call.seq && !x.kept);
    const at = Object.assign(Object.create(Object.getPrototypeOf(look)), look, leaf ? { leaf } : {});
    const list = at.visible(), tools = history.catalogs.findLast((c) => c.generation === p.catalog)?.tools ?? [];
    return h("section", { class: "inspected" }, h("h3", null, "Model call"),
      h("dl", { class: "pairs" }, pairs({ model: call.model || call.provider, took: duration(call.millis), stopped: call.stop ?? call.error, tokens: call.usage ? `${count(total(call.usage))}: ${call.usage.input ?? 0} in, ${call.usage.output ?? 0} out, ${call.usage.cache_read ?? 0} cached, ${call.usage.reasoning ?? 0} of the output are reasoning` : "", tries: call.attempts > 1 ? call.attempts : "", fault: call.fault })),
      (call.failed ?? []).map((f) => h("p", { class: "why" }, `failed try: ${f.error} ${f.code ?? ""} ${f.message ?? ""}`)),
      h("h3", null, "Prompt"),
      h("dl", { class: "pairs" }, pairs({ digest: p.digest, leaf: p.leaf, frame: p.frame, messages: list.length, tools: tools.filter((t) => t.availability !== "off").map((t) => t.name).join(", ") })),
      fold("Instructions", look.config.instructions), (prepared?.contributions ?? []).map((c) => fold(`${c.slot}${c.title ? `: ${c.title}` : ""}`, c.content)),
      prepared?.viewed && h("p", { class: "faint" }, "A plugin replaced a part of these messages for this turn; the event turn.prepared has it."),
      h("details", null, h("summary", null, `Messages: ${list.length}`), list.slice(-200).map((n) => h("div", { class: "prompt-message" }, h("b", null, n.role ?? n.kind), (n.parts ?? []).map((x) => (x.blob?.digest ? body(this.page.id, x.blob) : x.text ? long(x.text) : value(x)))))));
  }

  // #proof shows a signed head. The page does not check the signature: it has JSON, and the signature is of the bytes.
  #proof(e) {
    const p = e.payload, covered = this.page.history.heads.filter((head) => head.seq < e.seq).at(-1)?.seq ?? 0;
    return h("section", { class: "inspected proof" }, h("h3", null, "Signed head"),
      h("p", null, `A node signed all commits up to ${e.seq}. The head before covers those up to ${covered}.`),
      h("dl", { class: "pairs" }, pairs({ key: raw(p.key), "new leaves": size(p.leaves) / 32 || "", signature: raw(p.signature) })),
      p.certificate && fold("Certificate of the node's key", p.certificate),
      h("p", { class: "faint" }, "The page does not verify signatures. This command does:"), h("pre", { class: "code" }, `lash-replay verify ${this.page.id} --key TENANT.pub`));
  }
}

function fold(name, text) { return text ? h("details", null, h("summary", null, name), long(text)) : null; }

function pairs(list) { return Object.entries(list).filter(([, v]) => v !== undefined && v !== "" && v !== null).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, String(v)))); }

const raw = (v) => (v?.base64 ? v.base64 : typeof v === "string" ? v : JSON.stringify(v ?? ""));
const size = (v) => (v?.base64 ? Math.floor((v.base64.length * 3) / 4) : 0);
