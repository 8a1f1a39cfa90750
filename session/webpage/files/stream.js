// Streams of server-sent events. Tabs import it, and the worker that they share.

// Problem is an error response.
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `the server answered ${status}`);
    this.status = status;
    this.code = body.code || "";
  }
}

// problemOf is the problem in an error response.
export async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // the answer is not of this API
  }
  return new Problem(response.status, body);
}

// sleep waits, or ends early with the signal.
export function sleep(ms, signal) {
  return new Promise((done, fail) => {
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); fail(signal.reason); }, { once: true });
  });
}

// SILENCE is the time without a byte after which a stream counts as cut. The server sends a comment every 15 s.
const SILENCE = 45_000;
const WAITS = [300, 1000, 2000, 4000, 8000];

// OVER are the statuses with which a stream ends that may not be read on: a right was withdrawn, the session is erased, or its history is
// another one, as after a redaction.
const OVER = [403, 404, 409];

const OPEN = Symbol("open");

// Hub reads the sessions that listeners follow, of one caller, in one stream. It tells each of them {batch}, {link, wait}, and at its end
// {problem}.
export class Hub {
  #listeners = new Set();
  #cut = null;

  constructor(token) { this.token = token; }

  get size() { return this.#listeners.size; }

  // add begins to tell a listener of its session after its cursor. It returns what ends that.
  add(listener) {
    this.#listeners.add(listener);
    if (this.#cut) this.#cut.abort();
    else this.#run();
    return () => { if (this.#listeners.delete(listener) && !this.size) this.#cut?.abort(); };
  }

  async #run() {
    for (let failed = 0; this.size;) {
      const cut = this.#cut = new AbortController();
      try {
        for await (const batch of messages(this.#path(), this.token, cut.signal)) {
          if (batch === OPEN) this.#all({ link: "live" });
          else { failed = 0; this.#take(batch); }
        }
      } catch (error) {
        if (!cut.signal.aborted && error instanceof Problem && error.status < 500 && error.status !== 429) this.#end([...this.#listeners], error.status, { detail: error.message, code: error.code });
      }
      if (cut.signal.aborted) continue;
      const wait = WAITS[Math.min(failed++, WAITS.length - 1)];
      this.#all({ link: "waiting", wait });
      await sleep(wait, cut.signal).catch(() => {});
    }
    this.#cut = null;
  }

  // #path names each session once, from the first cursor on.
  #path() {
    const from = new Map();
    for (const l of this.#listeners) from.set(l.session, Math.min(l.cursor, from.get(l.session) ?? l.cursor));
    return `/v1/follow?${[...from].map(([id, cursor]) => `session=${encodeURIComponent(`${id}:${cursor}`)}`).join("&")}`;
  }

  #all(what) { for (const l of this.#listeners) l.tell(what); }

  #take(batch) {
    for (const l of [...this.#listeners]) {
      const own = batch.filter((m) => m.data.session === l.session).map((m) => ({ name: m.name, data: m.data.data }));
      const next = own.filter((m) => m.name !== "problem" && !(m.name === "commit" && m.data.seq <= l.cursor));
      for (const m of next) if (m.name === "commit") l.cursor = m.data.seq;
      if (next.length) l.tell({ batch: next });
      const problem = own.find((m) => m.name === "problem")?.data;
      if (OVER.includes(problem?.status)) this.#end([l], problem.status, problem);
      else if (problem) throw new Error(problem.code); // the stream begins again
    }
  }

  #end(list, status, body) {
    for (const l of list) {
      this.#listeners.delete(l);
      l.tell({ problem: { status, body, over: OVER.includes(status) } });
    }
  }
}

async function* messages(path, token, signal) {
  const cut = new AbortController();
  const both = AbortSignal.any([signal, cut.signal]);
  let timer = setTimeout(() => cut.abort(), SILENCE);
  try {
    const headers = new Headers({ Accept: "text/event-stream" });
    if (token) headers.set("Authorization", `Bearer ${token}`);
    const response = await fetch(path, { signal: both, headers, cache: "no-store", redirect: "error" });
    if (!response.ok) throw await problemOf(response);
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
