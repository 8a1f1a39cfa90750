// Nodes of the document. Data becomes text nodes and values of fixed attributes, never HTML.

const SVG = "http://www.w3.org/2000/svg";

// h makes an element. A string child becomes a text node; null and false are left out.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// s makes an element of a picture.
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name, value);
    else if (name === "value" || name === "checked" || name === "hidden" || name === "disabled") node[name] = value;
    else node.setAttribute(name, value === true ? "" : clean(value));
  }
  add(node, children);
  return node;
}

// add appends children to a node.
export function add(node, children) {
  for (const child of [children].flat(Infinity)) {
    if (child === null || child === undefined || child === false || child === "") continue;
    node.append(child instanceof Node ? child : clean(child));
  }
  return node;
}

// swap replaces all children of a node.
export function swap(node, ...children) {
  node.replaceChildren();
  return add(node, children);
}

// Characters that change the direction of the text around them, that are not displayed, or that control are shown by their number:
// otherwise a text could look like another one.
const HIDDEN = /(?![\n\t\ufe0e\ufe0f])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}]/gu;

// clean makes characters visible that would hide what a text says.
export function clean(text) {
  return String(text).replace(HIDDEN, (c) => (c === "\r" ? "" : `\u27e8U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}\u27e9`));
}

// say tells readers of the screen what happened.
export function say(text) {
  const node = document.getElementById("said");
  if (node) node.textContent = clean(text);
}

// frame runs a function before the next picture, once for many calls.
export function onFrame(run) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => {
      waits = false;
      run();
    });
  };
}
