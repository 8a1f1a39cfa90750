// Requests to the server that this page came from. The token is in the tab's sessionStorage and in a header.

const KEY = "lash.token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

// Problem is an error response.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.status = status;
    this.code = body.code || "";
  }
}

function headers(more) {
  const out = new Headers(more);
  if (token.get()) out.set("Authorization", `Bearer ${token.get()}`);
  return out;
}

async function refused(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // the answer is not of this API
  }
  const problem = new Problem(response.status, body);
  if (response.status === 401) window.dispatchEvent(new CustomEvent("signed-out", { detail: problem.message }));
  return problem;
}

// newKey names a request, so that its repeats take effect once.
export const newKey = () => crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint8Array(16)), (b) => b.toString(16).padStart(2, "0")).join("");

const REPEATS = 4;

// call sends a request and returns its JSON, or text. A request whose answer was lost is repeated: reads, and changes by
// their key.
export async function call(method, path, { body, query, signal, text } = {}) {
  const url = new URL(path, location.origin);
  for (const [name, value] of Object.entries(query ?? {})) for (const one of [value].flat()) if (one !== "" && one !== undefined) url.searchParams.append(name, one);
  const more = method === "GET" ? {} : { "Idempotency-Key": newKey() };
  if (body !== undefined) more["Content-Type"] = "application/json";
  for (let n = 1; ; n++) {
    let response;
    try {
      response = await fetch(url, { method, signal, headers: headers(more), body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", redirect: "error" });
    } catch (error) {
      if (signal?.aborted || n >= REPEATS) throw error;
      await sleep(250 * 2 ** n, signal);
      continue;
    }
    if (response.status === 503 && n < REPEATS) {
      await sleep(1000, signal);
      continue;
    }
    if (!response.ok) throw await refused(response);
    if (response.status === 204) return null;
    return text ? response.text() : response.json();
  }
}

// sleep waits, or ends early with the signal.
export function sleep(ms, signal) {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); }, { once: true });
  });
}

export const at = (session, rest = "") => `/v1/sessions/${encodeURIComponent(session)}${rest}`;

// SILENCE is the time without a byte after which a stream counts as cut. The server sends a comment every 15 s.
const SILENCE = 45_000;
const WAITS = [300, 1000, 2000, 4000, 8000];

// follow reads a session's commits and deltas after a cursor, and continues after a lost connection, until the signal
// ends or the server refuses. It calls onBatch with lists of {id, name, data}, and onLink with live, waiting or lost.
export async function follow(session, { cursor, signal, onBatch, onLink }) {
  let last = cursor, failed = 0;
  while (!signal.aborted) {
    try {
      for await (const batch of messages(at(session, "/events"), last, signal)) {
        if (batch === OPEN) { onLink("live"); continue; }
        failed = 0;
        try {
          onBatch(batch.filter((m) => m.name !== "problem"));
        } catch (error) { // what the page cannot show is said, and not skipped
          onLink("lost", error);
          return;
        }
        for (const m of batch) if (m.id) last = Number(m.id);
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && error.status < 500 && error.status !== 429) { onLink("lost", error); return; }
    }
    if (signal.aborted) return;
    const wait = WAITS[Math.min(failed++, WAITS.length - 1)];
    onLink("waiting", wait);
    await sleep(wait, signal).catch(() => {});
  }
}

const OPEN = Symbol("open");

async function* messages(path, cursor, signal) {
  const cut = new AbortController();
  const both = AbortSignal.any([signal, cut.signal]);
  let timer = setTimeout(() => cut.abort(), SILENCE);
  try {
    const response = await fetch(`${path}?cursor=${cursor}`, { signal: both, headers: headers({ Accept: "text/event-stream" }), cache: "no-store", redirect: "error" });
    if (!response.ok) throw await refused(response);
    yield OPEN;
    const reader = response.body.getReader(), decoder = new TextDecoder();
    const parser = new Parser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => cut.abort(), SILENCE);
      const batch = parser.push(decoder.decode(value, { stream: true }));
      if (batch.length) yield batch;
    }
  } finally {
    clearTimeout(timer);
    cut.abort();
  }
}

// Parser splits a stream of server-sent events.
export class Parser {
  #line = [];
  #event = { id: "", name: "", data: "" };

  push(text) {
    const out = [];
    for (let from = 0; ;) {
      const end = text.indexOf("\n", from);
      if (end < 0) {
        if (from < text.length) this.#line.push(text.slice(from));
        return out;
      }
      this.#line.push(text.slice(from, end));
      const line = this.#line.length === 1 ? this.#line[0] : this.#line.join("");
      this.#line = [];
      from = end + 1;
      if (line === "") {
        if (this.#event.name) out.push({ ...this.#event, data: JSON.parse(this.#event.data) });
        this.#event = { id: "", name: "", data: "" };
      } else if (line.startsWith("data: ")) this.#event.data += line.slice(6);
      else if (line.startsWith("event: ")) this.#event.name = line.slice(7);
      else if (line.startsWith("id: ")) this.#event.id = line.slice(4);
    }
  }
}
