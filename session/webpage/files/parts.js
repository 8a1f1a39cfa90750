// How texts, bodies and values are shown. All of them are hostile.

import { call, at } from "./api.js";
import { h, clean } from "./dom.js";
import { bytes, json } from "./format.js";

const FIRST = 6_000; // characters that are shown at first
const MORE = 60_000; // characters that one press adds

// long shows a text, and more of it by a button. It calls onWhole once all of it is shown.
export function long(text, make = (t) => h("pre", { class: "text", dir: "auto" }, t), onWhole = undefined) {
  text = String(text ?? "");
  if (text.length <= FIRST * 1.2) {
    onWhole?.();
    return make(text);
  }
  const box = h("div", null, make(text.slice(0, FIRST)));
  let shown = FIRST;
  const button = h("button", { class: "quiet", type: "button", "data-more": true, click: (e) => {
    e.stopPropagation();
    const next = Math.min(shown + MORE, text.length);
    box.insertBefore(h("pre", { class: "text", dir: "auto" }, text.slice(shown, next)), button);
    shown = next;
    if (shown >= text.length) {
      button.remove();
      onWhole?.();
    } else button.textContent = rest();
  } });
  const rest = () => `Show more: ${(text.length - shown).toLocaleString("en")} of ${text.length.toLocaleString("en")} characters are hidden`;
  button.textContent = rest();
  box.append(button);
  return box;
}

// body offers a body outside of the log. It calls onWhole once all of it is shown.
export function body(session, ref, make, onWhole) {
  const box = h("div", { class: "body" });
  const button = h("button", { class: "quiet", type: "button", click: async (e) => {
    e.stopPropagation();
    button.disabled = true;
    try {
      const text = await call("GET", at(session, `/blobs/${encodeURIComponent(ref.digest)}`), { text: true });
      box.replaceChildren(long(text, make, onWhole));
    } catch (error) {
      button.disabled = false;
      button.textContent = `Not read: ${clean(error.message)}. Try again`;
    }
  } }, `Read the body: ${bytes(ref.size)}`);
  box.append(button);
  return box;
}

// value shows JSON, or a text.
export function value(v, onWhole) { return long(json(v), code, onWhole); }

// code shows a part of a program's text.
export function code(text) { return h("pre", { class: "code", dir: "auto" }, text); }

// prose shows a text with the marks of Markdown that models use: headings, lists, code and emphasis. Links stay text.
export function prose(text) {
  return long(text, (part) => {
    const box = h("div", { class: "prose", dir: "auto" });
    const lines = part.split("\n");
    let plain = [];
    const flush = () => {
      if (plain.join("").trim()) box.append(h("p", { dir: "auto" }, inline(plain.join("\n").trim())));
      plain = [];
    };
    for (let i = 0; i < lines.length; i++) {
      const line = lines[i], fence = /^\s*(```+|~~~+)/.exec(line)?.[1];
      if (fence) {
        flush();
        const fenced = [];
        for (i++; i < lines.length && !lines[i].trimStart().startsWith(fence); i++) fenced.push(lines[i]);
        box.append(h("pre", { class: "code" }, fenced.join("\n")));
        continue;
      }
      const heading = /^(#{1,6})\s+(.*)$/.exec(line), item = /^\s*(?:[-*+]|(\d{1,3})[.)])\s+(.*)$/.exec(line);
      if (heading) {
        flush();
        box.append(h("p", { class: "heading", dir: "auto" }, inline(heading[2])));
      } else if (item) {
        flush();
        const numbered = item[1] !== undefined, list = numbered ? h("ol", { start: item[1] }) : h("ul", null);
        for (; i < lines.length; i++) {
          const next = /^\s*(?:[-*+]|(\d{1,3})[.)])\s+(.*)$/.exec(lines[i]);
          if (!next || (next[1] !== undefined) !== numbered) break;
          list.append(h("li", { dir: "auto", value: numbered ? Number(next[1]) : null }, inline(next[2])));
        }
        i--;
        box.append(list);
      } else if (line.trim() === "") flush();
      else plain.push(line);
    }
    flush();
    return box;
  });
}

// inline splits `code` and **strong** from a line.
function inline(text) {
  const out = [];
  let from = 0;
  for (const m of text.matchAll(/`([^`\n]{1,400})`|\*\*([^*\n]{1,400})\*\*/g)) {
    if (m.index > from) out.push(text.slice(from, m.index));
    out.push(m[1] !== undefined ? h("code", null, m[1]) : h("strong", null, m[2]));
    from = m.index + m[0].length;
  }
  out.push(text.slice(from));
  return out;
}
