// The inspector shows one thing with all its details: an event, a prompt, or a signed head.

import { h, say, swap } from "./dom.js";
import { count, duration, moment, redactedBy, total } from "./format.js";
import { body, long, value } from "./parts.js";
import { bytesOf, canCheck, certified } from "./proof.js";

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
    this.checks = [];
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

  // update shows what was checked meanwhile.
  update() { for (const check of this.checks ?? []) check(); }

  #event(e) {
    const proof = this.page.history.heads.find((head) => head.seq >= e.seq);
    return h("section", { class: "inspected" }, h("h3", null, `${e.seq}.${e.pos} ${e.kind}`),
      h("dl", { class: "pairs" }, pairs({ id: e.id, time: moment(e.at), actor: e.actor, cause: e.cause, turn: e.turn, version: e.version, proof: proof ? `covered by the signed head of commit ${proof.seq}${this.page.proofs.results.get(proof.seq)?.right ? ", whose signature this browser checked" : ""}` : "no signed head covers it yet" })),
      e.redacted ? h("p", { class: "faint", dir: "auto" }, `The payload was ${redactedBy(e)}. Its digest is ${e.redacted}.`)
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

  // #proof shows a signed head, and what this browser checked of it.
  #proof(e) {
    const p = e.payload, covered = this.page.history.heads.filter((head) => head.seq < e.seq).at(-1)?.seq ?? 0;
    return h("section", { class: "inspected proof" }, h("h3", null, "Signed head"),
      h("p", null, `A node signed all commits up to ${e.seq}. The head before covers those up to ${covered}.`),
      this.#checked(e),
      h("dl", { class: "pairs" }, pairs({ certificate: raw(p.key), "new leaves": size(p.leaves) || "", signature: raw(p.signature) })),
      p.certificate && fold("Certificate of the node's key", p.certificate),
      p.certificate && this.#tenant(p.certificate),
      h("p", { class: "faint" }, "Not checked here: that the events on this page are the signed commits. A browser gets them as JSON, and the signature is of their stored bytes. A server that lies could also send another page. This command, on a machine of yours, checks all of it:"), h("pre", { class: "code" }, `lash-replay verify ${this.page.id} --key TENANT.pub`));
  }

  // #checked says whether the signature of a head is right.
  #checked(e) {
    const note = h("p", { class: "tag", role: "status" }), about = h("p", { class: "faint" });
    const check = () => {
      const { proofs, history } = this.page, result = proofs.results.get(e.seq), n = [...proofs.results.values()].filter((r) => r.right).length;
      const [tone, text, more] = result?.right ? ["good", "Signature checked in this browser", `The key of ${result.certificate.node} signed the hashes of the commits 1 to ${e.seq}, and the next head continues them. ${n > 1 ? `So do the ${n} heads that were checked.` : ""}`]
        : result?.wrong ? ["bad", "The signature is wrong", result.wrong]
          : result ? ["warn", "Not checked", result.why]
            : !canCheck() || proofs.unable ? ["warn", "Not checked", "This browser checks no signatures here: it does so on pages of https or of this machine, and if it knows Ed25519."]
              : history.heads.at(-1)?.seq === e.seq ? ["warn", "Not checked yet", "The hash of its own commit is in the next head: this one is checked then."] : ["", "Being checked\u2026", ""];
      note.className = `tag ${tone}`;
      note.textContent = text;
      about.textContent = more;
    };
    this.checks.push(check);
    check();
    return [h("div", null, note), about];
  }

  // #tenant checks a certificate with the public key that the reader has of the tenant.
  #tenant(certificate) {
    const key = h("input", { type: "text", "aria-label": "Public key of the tenant", placeholder: "The line of TENANT.pub", autocomplete: "off", spellcheck: "false", value: this.tenantKey ?? "" });
    const note = h("p", { class: "why", role: "status" });
    const check = async (e) => {
      e?.preventDefault();
      this.tenantKey = key.value;
      try {
        const right = await certified(certificate, key.value);
        note.className = `tag ${right ? "good" : "bad"}`;
        note.textContent = right ? "This key certified the node's key" : "Another key certified the node's key";
      } catch (error) {
        note.className = "why";
        note.textContent = error.name === "NotSupportedError" ? "This browser does not know Ed25519." : error.message;
      }
      say(note.textContent);
    };
    if (!canCheck()) return null;
    if (this.tenantKey) check();
    return h("form", { class: "tenant", submit: check }, h("p", { class: "faint" }, "Whose key that is, the certificate alone does not prove. Check it with the public key that you have of the tenant:"), h("div", { class: "buttons" }, key, h("button", { type: "submit" }, "Check")), note);
  }
}

function fold(name, text) { return text ? h("details", null, h("summary", null, name), long(text)) : null; }

function pairs(list) { return Object.entries(list).filter(([, v]) => v !== undefined && v !== "" && v !== null).map(([k, v]) => h("div", null, h("dt", null, k), h("dd", null, String(v)))); }

const raw = (v) => (v?.base64 ? v.base64 : typeof v === "string" ? v : JSON.stringify(v ?? ""));
// size is the number of hashes in bytes.
const size = (v) => Math.floor(bytesOf(v).length / 32);
