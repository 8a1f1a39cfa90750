// A long list of which only the rows near the viewport are in the document.

import { h, onFrame, swap } from "./dom.js";

const OVERSCAN = 600; // pixels above and below
const NEAR = 48; // pixels from the end that count as the end

// VirtualList shows items, which have a key and a version: a row is made again when its version changes.
export class VirtualList {
  constructor({ label, role = "list", itemRole = "listitem", render, estimate, onSelect, className = "" }) {
    this.render = render;
    this.estimate = estimate;
    this.onSelect = onSelect;
    this.itemRole = itemRole;
    this.items = [];
    this.heights = new Map();
    this.offsets = new Float64Array(1);
    this.rows = new Map();
    this.selected = null;
    this.sizer = h("div", { class: "sizer", role });
    this.sizer.setAttribute("aria-label", label);
    this.node = h("div", { class: `scroller ${className}`, tabindex: "0", scroll: () => this.#scrolled(), keydown: (e) => this.#key(e) }, this.sizer);
    this.node.setAttribute("aria-label", label);
    this.node.setAttribute("role", "region");
    this.draw = onFrame(() => this.#draw());
    this.sizes = new ResizeObserver((list) => this.#measured(list));
    this.sizes.observe(this.node);
    this.stuck = true;
  }

  // set replaces the items. A list at its end stays there, unless follow is false.
  set(items, { follow = true } = {}) {
    this.items = items;
    this.follow = follow;
    this.#layout();
    this.draw();
  }

  // select marks a row and shows it.
  select(key, { show = true } = {}) {
    this.selected = key;
    const i = this.items.findIndex((it) => it.key === key);
    if (show && i >= 0) this.#show(i);
    this.draw();
  }

  toEnd() {
    this.stuck = true;
    this.node.scrollTop = this.node.scrollHeight;
  }

  #height(item) { return this.heights.get(item.key) ?? this.estimate?.(item) ?? 32; }

  #layout() {
    const n = this.items.length;
    if (this.offsets.length < n + 1) this.offsets = new Float64Array(Math.ceil((n + 1) * 1.5));
    let y = 0;
    for (let i = 0; i < n; i++) {
      this.offsets[i] = y;
      y += this.#height(this.items[i]);
    }
    this.offsets[n] = y;
    this.sizer.style.height = `${y}px`;
    if (this.heights.size > 4 * n + 2000) { // forget rows that are gone
      const keys = new Set(this.items.map((it) => it.key));
      for (const key of this.heights.keys()) if (!keys.has(key)) this.heights.delete(key);
    }
  }

  // #index is the item at a height.
  #index(y) {
    let low = 0, high = this.items.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (this.offsets[mid] <= y) low = mid;
      else high = mid - 1;
    }
    return Math.max(low, 0);
  }

  #draw() {
    if (!this.node.isConnected || this.node.clientHeight === 0) return;
    if (this.stuck && this.follow) this.node.scrollTop = this.node.scrollHeight;
    const top = this.node.scrollTop, bottom = top + this.node.clientHeight;
    const keep = new Set();
    if (this.items.length) {
      const last = this.#index(bottom + OVERSCAN);
      for (let i = this.#index(Math.max(top - OVERSCAN, 0)); i <= last; i++) keep.add(this.#place(i));
    }
    for (const [key, row] of this.rows) {
      if (keep.has(key)) continue;
      this.sizes.unobserve(row.node);
      row.node.remove();
      this.rows.delete(key);
    }
  }

  #place(i) {
    const item = this.items[i];
    let row = this.rows.get(item.key);
    if (!row) {
      row = { node: h("div", { class: "row", role: this.itemRole, click: () => this.#click(item.key) }), version: undefined };
      row.node.dataset.key = item.key;
      this.rows.set(item.key, row);
      this.sizer.append(row.node);
      this.sizes.observe(row.node);
    }
    if (row.version !== item.version) {
      row.version = item.version;
      swap(row.node, this.render(item));
    }
    if (row.y !== this.offsets[i]) {
      row.y = this.offsets[i];
      row.node.style.transform = `translateY(${row.y}px)`;
    }
    row.node.setAttribute("aria-posinset", i + 1);
    row.node.setAttribute("aria-setsize", this.items.length);
    row.node.classList.toggle("selected", item.key === this.selected);
    return item.key;
  }

  #measured(list) {
    let changed = false, above = 0;
    const top = this.node.scrollTop;
    for (const entry of list) {
      if (entry.target === this.node) { changed = true; continue; }
      const key = entry.target.dataset.key, height = entry.borderBoxSize[0].blockSize;
      const before = this.heights.get(key);
      if (height === 0 || before === height) continue;
      const row = this.rows.get(key);
      if (row && !this.stuck && row.y < top) above += height - (before ?? this.#estimated(key));
      this.heights.set(key, height);
      changed = true;
    }
    if (!changed) return;
    this.#layout();
    if (above) this.node.scrollTop = top + above;
    this.draw();
  }

  #estimated(key) {
    const item = this.items.find((it) => it.key === key);
    return item ? this.estimate?.(item) ?? 32 : 0;
  }

  #scrolled() {
    this.stuck = this.node.scrollTop + this.node.clientHeight >= this.node.scrollHeight - NEAR;
    this.draw();
  }

  #show(i) {
    const top = this.offsets[i], bottom = this.offsets[i + 1];
    if (top < this.node.scrollTop) this.node.scrollTop = top;
    else if (bottom > this.node.scrollTop + this.node.clientHeight) this.node.scrollTop = bottom - this.node.clientHeight;
    this.stuck = i === this.items.length - 1;
  }

  #click(key) {
    if (!this.onSelect || getSelection()?.toString()) return;
    this.select(key, { show: false });
    const item = this.items.find((it) => it.key === key);
    if (item) this.onSelect(item);
  }

  #key(e) {
    if (e.target !== this.node || e.ctrlKey || e.metaKey || e.altKey || !this.items.length) return;
    const now = this.items.findIndex((it) => it.key === this.selected);
    const to = { ArrowDown: now + 1, j: now + 1, ArrowUp: now < 0 ? this.items.length - 1 : now - 1, k: now < 0 ? this.items.length - 1 : now - 1, Home: 0, End: this.items.length - 1 }[e.key];
    if (to === undefined) {
      if (e.key === "Enter" && now >= 0) this.onSelect?.(this.items[now], true);
      return;
    }
    e.preventDefault();
    const item = this.items[Math.max(0, Math.min(to, this.items.length - 1))];
    this.select(item.key);
    this.onSelect?.(item);
  }
}
