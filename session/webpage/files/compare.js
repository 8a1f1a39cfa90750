// Two points of a session, or of two sessions, side by side: settings, tools and messages, as GET /view returns them.

import { viewAt } from "./api.js";
import { h, swap } from "./dom.js";
import { count, plural, short } from "./format.js";
import { long, value } from "./parts.js";

const MOST = 500; // messages of each side that are compared one by one
const SHOWN = 300; // rows

export class Compare {
  constructor(page) {
    this.page = page;
    const field = (name, label, type, size) => h("input", { type, size, "aria-label": label, placeholder: name, min: type === "number" ? "1" : null, autocomplete: "off", spellcheck: "false" });
    this.left = [field("this session", "First session", "text", 18), field("sequence", "First sequence", "number", 8)];
    this.right = [field("session", "Second session", "text", 18), field("the end", "Second sequence", "number", 8)];
    this.result = h("div", { class: "compared" }, h("p", { class: "faint" }, "Choose two points: what differs between them is shown here. The scrubber sets the second one."));
    this.note = h("p", { class: "why", role: "status" });
    this.node = h("div", { class: "scroller compare", tabindex: "0", role: "region", "aria-label": "Compare" },
      h("form", { class: "sides", submit: (e) => { e.preventDefault(); this.#run(); } }, h("fieldset", null, h("legend", null, "From"), this.left), h("fieldset", null, h("legend", null, "To"), this.right), h("button", { class: "primary", type: "submit" }, "Compare")),
      this.note, this.result);
  }

  update(look) {
    if (this.seen) {
      if (!look.live) this.right[1].value = String(look.seq);
      return;
    }
    if (!look.history.seq || look.history.seq < (this.page.state?.seq ?? 0)) return; // not all is read yet
    this.seen = true;
    this.left[0].value = this.right[0].value = this.page.id;
    this.left[1].value = String(Math.max(look.history.base, 1));
    this.right[1].value = String(look.seq);
  }

  async #run() {
    if (!this.seen) return; // nothing is read yet
    this.note.textContent = "Reading\u2026";
    try {
      const [a, b] = await Promise.all([this.left, this.right].map(([id, seq]) => viewAt(id.value || this.page.id, seq.value, this.page.ended.signal)));
      this.note.textContent = "";
      this.#show(a, b);
    } catch (error) {
      this.note.textContent = error.status === 404 ? "There is no such session, or you may not read it." : error.message;
    }
  }

  #show(a, b) {
    const [before, after] = [a, b].map((v) => new Map(Object.entries(v.config)));
    const settings = keysOf(before, after).filter((k) => JSON.stringify(before.get(k)) !== JSON.stringify(after.get(k)));
    const tools = [a, b].map((v) => new Map((v.standing.tools.tools ?? []).map((t) => [t.name, JSON.stringify([t.override ?? t.availability, t.description, t.schema])])));
    const names = keysOf(tools[0], tools[1]).filter((n) => tools[0].get(n) !== tools[1].get(n));
    const rows = difference(a.messages, b.messages), same = rows.filter((r) => r.side === "both").length;
    swap(this.result,
      h("p", null, `${a.session} at ${a.seq}, and ${b.session} at ${b.seq}: ${plural(same, "message")} in both, ${rows.filter((r) => r.side === "left").length} only in the first, ${rows.filter((r) => r.side === "right").length} only in the second.`),
      h("h2", null, "Settings"), settings.length ? h("div", { class: "changes" }, settings.map((k) => h("div", { class: "change" }, h("b", null, k), h("div", { class: "gone" }, value(before.get(k) ?? "not set")), h("div", { class: "new" }, value(after.get(k) ?? "not set"))))) : h("p", { class: "faint" }, "the same"),
      h("h2", null, "Tools"), names.length ? h("ul", null, names.map((n) => h("li", null, h("code", null, n), ` ${!tools[0].has(n) ? "added" : !tools[1].has(n) ? "removed" : "changed"}`))) : h("p", { class: "faint" }, "the same"),
      h("h2", null, "Messages"), grouped(rows).slice(0, SHOWN).map((r) => r.same ? h("p", { class: "divider" }, h("span", null, `${plural(r.same, "message")} in both`)) : h("article", { class: `side-row ${r.side === "left" ? "gone" : "new"}` }, h("header", null, h("b", null, `${r.side === "left" ? "\u2212" : "+"} ${r.message.role}`)), r.message.parts.map((p) => (p.type === "tool_call" ? h("p", null, h("code", null, p.tool), " ", h("span", { class: "faint" }, short(p.args, 300))) : p.blob ? h("p", { class: "faint" }, `a body of ${count(p.blob.size)} bytes`) : long(p.text))))));
  }
}

const keysOf = (a, b) => [...new Set([...a.keys(), ...b.keys()])].sort();

// difference marks each message: in both, or on one side.
export function difference(a, b) {
  const key = (m) => `${m.role} ${JSON.stringify(m.parts)}`, left = a.map(key), right = b.map(key);
  let begin = 0, endA = left.length, endB = right.length;
  while (begin < endA && begin < endB && left[begin] === right[begin]) begin++;
  while (endA > begin && endB > begin && left[endA - 1] === right[endB - 1]) { endA--; endB--; }
  const both = (list, from, to) => list.slice(from, to).map((message) => ({ side: "both", message }));
  return [...both(a, 0, begin), ...middle(a.slice(begin, endA), b.slice(begin, endB), left.slice(begin, endA), right.slice(begin, endB)), ...both(a, endA, a.length)];
}

// middle finds the longest common order of what is not at the begin or the end. Longer lists are shown as different.
function middle(a, b, left, right) {
  const n = a.length, m = b.length, out = [];
  if (n > MOST || m > MOST) return [...a.map((message) => ({ side: "left", message })), ...b.map((message) => ({ side: "right", message }))];
  const longest = Array.from({ length: n + 1 }, () => new Uint16Array(m + 1));
  for (let i = n - 1; i >= 0; i--) for (let j = m - 1; j >= 0; j--) longest[i][j] = left[i] === right[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
  for (let i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && left[i] === right[j]) { out.push({ side: "both", message: a[i] }); i++; j++; }
    else if (j >= m || (i < n && longest[i + 1][j] >= longest[i][j + 1])) out.push({ side: "left", message: a[i++] });
    else out.push({ side: "right", message: b[j++] });
  }
  return out;
}

// grouped joins neighbours that are in both.
function grouped(rows) {
  const out = [];
  for (const r of rows) {
    if (r.side !== "both") out.push(r);
    else if (out.at(-1)?.same) out.at(-1).same++;
    else out.push({ same: 1 });
  }
  return out;
}
