// Requests to the server that this page came from. The token is in the tab's sessionStorage and in a header.

import { Hub, Problem, problemOf, sleep } from "./stream.js";

export { Problem, sleep };

const KEY = "lash.token";

export const token = {
  get: () => sessionStorage.getItem(KEY) ?? "",
  set: (text) => sessionStorage.setItem(KEY, text),
  clear: () => sessionStorage.removeItem(KEY),
};

function headers(more) {
  const out = new Headers(more);
  if (token.get()) out.set("Authorization", `Bearer ${token.get()}`);
  return out;
}

async function refused(response) {
  return signedOut(await problemOf(response));
}

// signedOut tells the shell where the server does not take the token.
function signedOut(problem) {
  if (problem.status === 401) window.dispatchEvent(new CustomEvent("signed-out", { detail: problem.message }));
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

export const at = (session, rest = "") => `/v1/sessions/${encodeURIComponent(session)}${rest}`;

// viewAt reads all pages of a conversation as it stood at a sequence; an empty one is the end.
export async function viewAt(session, seq, signal) {
  const view = await call("GET", at(session, "/view"), { query: { at: seq }, signal });
  for (let page = view; page.next; ) {
    page = await call("GET", at(session, "/view"), { query: { at: view.seq, from: page.next }, signal });
    view.messages.push(...page.messages);
    view.nodes.push(...page.nodes);
  }
  return view;
}

// follow reads a session's commits and deltas after a cursor, and continues after a lost connection, until the signal
// ends or the server refuses. It calls onBatch with lists of {id, name, data}, and onLink with live, waiting, lost, or over: what was
// read before may not be shown any more.
export function follow(session, { cursor, signal, onBatch, onLink }) {
  return new Promise((done) => {
    let source, last = cursor;
    const start = () => source.start({ session, cursor: last, token: token.get() });
    const leave = () => source.stop();
    const back = (e) => { if (e.persisted) start(); };
    const end = () => {
      leave();
      window.removeEventListener("pagehide", leave);
      window.removeEventListener("pageshow", back);
      done();
    };
    const onTold = ({ link, wait, batch, problem }) => {
      if (signal.aborted) return;
      if (link) onLink(link, wait);
      if (batch) {
        try {
          onBatch(batch);
        } catch (error) { // what the page cannot show is said, and not skipped
          onLink("lost", error);
          end();
          return;
        }
        for (const m of batch) if (m.name === "commit") last = m.data.seq;
      }
      if (problem) {
        const error = signedOut(new Problem(problem.status, problem.body));
        onLink(problem.over ? "over" : "lost", error);
        end();
      }
    };
    source = shared(onTold, () => { source = ownSource(onTold); if (!signal.aborted) start(); }) ?? ownSource(onTold);
    signal.addEventListener("abort", end, { once: true });
    window.addEventListener("pagehide", leave);
    window.addEventListener("pageshow", back);
    start();
  });
}

// WORKER is the only script that the policy of the page lets start as a worker.
const WORKER = "/page/worker.js";
const policy = globalThis.trustedTypes?.createPolicy("lash", { createScriptURL: () => WORKER });

// shared is a stream by the worker of all tabs; nothing where the browser has no such workers. onFailed is called where the worker does
// not start.
function shared(onTold, onFailed) {
  if (!globalThis.SharedWorker) return null;
  const worker = new SharedWorker(policy?.createScriptURL(WORKER) ?? WORKER, { type: "module", name: "lash" });
  worker.onerror = onFailed;
  worker.port.onmessage = (e) => onTold(e.data);
  return { start: (what) => worker.port.postMessage(what), stop: () => worker.port.postMessage(null) };
}

// ownSource is a stream of this tab alone.
function ownSource(onTold) {
  let leave = () => {};
  return { start: (what) => { leave(); leave = new Hub(what.token).add({ ...what, tell: onTold }); }, stop: () => leave() };
}
