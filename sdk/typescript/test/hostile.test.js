import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Calls } from "../lib/calls.js";
import { Failure } from "../lib/define.js";
import { Outcomes, outcome } from "../lib/outcome.js";
import { Sessions } from "../lib/sessions.js";
import { Withdrawn } from "../lib/withdrawn.js";

/** @import * as api from "../index.js" */

/** The calls of a plugin, and what they send. @param {Record<string, api.Tool>} tools */
function callsOf(tools) {
  /** @type {{ subject: string, message: any }[]} */
  const sent = [];
  const plugin = { name: "p", version: "1", tools };
  const send = (/** @type {string} */ subject, /** @type {any} */ message) => {
    sent.push({ subject, message: typeof message === "string" ? JSON.parse(message) : message });
  };
  const calls = new Calls(plugin, { send, flush: async () => {} }, new Sessions(plugin));
  const call = (/** @type {object} */ fields, reply = "r") => calls.call({ session: "s", call: "c", turn: "t", model_call: "m", key: "k", tool: "a", args: {}, ...fields }, reply);
  return { calls, call, sent, last: (reply = "r") => sent.findLast(({ subject }) => subject === reply)?.message };
}

test("anything that a tool throws is a failure", async (t) => {
  t.mock.method(console, "error", () => {});
  const unreadable = new Proxy({}, { get: () => { throw new Error("no"); }, getPrototypeOf: () => { throw new Error("no"); } });
  const thrown = {
    nothing: undefined, text: "text", symbol: Symbol("s"), big: 1n, "no prototype": Object.create(null), unreadable,
    "a message that throws": { get message() { throw new Error("no"); } },
    "a message that is no text": { message: Object.create(null) },
    "a long message": new Error("é".repeat(1_000_000)),
    "a class that is no text": new Failure("f", /** @type {any} */ ({ class: 1n, code: Symbol.iterator })),
    "a long code": new Failure("f", { code: "c".repeat(100_000) }),
  };
  for (const aborted of [false, true]) {
    for (const [name, err] of Object.entries(thrown)) {
      const { json, failed } = await outcome(() => { throw err; }, aborted ? AbortSignal.abort(new Error("other")) : new AbortController().signal);
      const { failure } = JSON.parse(json.toString());
      assert.ok(failed && typeof failure.message === "string" && Buffer.byteLength(failure.message) <= 16_384, name);
      assert.ok(json.length < 200_000, name);
    }
  }
});

test("anything that a tool returns is a result or a failure", async (t) => {
  t.mock.method(console, "error", () => {});
  /** @type {any} */
  const circular = {};
  circular.emit = [circular];
  for (const result of [7, true, 1n, Symbol("s"), circular, { text: 1n }, { get text() { throw new Error("no"); } }, { attachments: [null] }, { attachments: 7 }, { toJSON: 7, text: { toJSON() { throw new Error("no"); } } }]) {
    const { json } = await outcome(async () => /** @type {any} */ (result), new AbortController().signal);
    assert.equal(typeof JSON.parse(json.toString()), "object");
  }
});

test("outcomes without a text are bounded in number", () => {
  const outcomes = new Outcomes();
  for (let n = 0; n < 70_000; n++) outcomes.keep(`${n}`, Buffer.from("{}"), 0);
  assert.deepEqual([outcomes.size, outcomes.get("0"), outcomes.dropped("0"), outcomes.get("69999")?.toString()], [65_536, undefined, true, "{}"]);
});

test("names of prototypes are no tools, calls or sessions", async () => {
  for (const name of ["__proto__", "constructor", "toString", "hasOwnProperty"]) {
    const { calls, call, last } = callsOf({ a: { run: (_, { session }) => session } });
    call({ tool: name });
    assert.equal(last().error.code, "unknown_tool");
    calls.cancel({ session: name, call: name, grace_ms: 1 });
    calls.recorded({ session: name, call: name });
    calls.callback({ session: name, call: name, id: name, status: 200 });
    call({ session: name, call: name, args: JSON.parse(`{"__proto__":{"polluted":true}}`) });
    await sleep(1);
    assert.deepEqual([last().outcome, /** @type {any} */ ({}).polluted], [{ text: name }, undefined]);
  }
});

test("a call that is sent very often runs once, and the last 64 senders get its outcome", async () => {
  let runs = 0;
  /** @type {(text: string) => void} */
  let end = () => {};
  const { call, calls, sent, last } = callsOf({ a: { run: () => (runs++, new Promise((done) => (end = done))) } });
  for (let n = 0; n < 1000; n++) call({}, `r${n}`);
  call({}, "r500");
  sent.length = 0;
  calls.tick();
  assert.equal(sent.length, 64);
  sent.length = 0;
  end("done");
  await sleep(1);
  assert.deepEqual([runs, sent.length, last("r999").outcome, last("r500").outcome, last("r0")], [1, 64, { text: "done" }, { text: "done" }, undefined]);
});

test("answers of unknown requests, twice, before their requests and after the call do nothing", async () => {
  /** @type {any} */
  let context;
  const { calls, call, last } = callsOf({ a: { run: (_, given) => ((context = given), given.request("q", "GET", "/v1/sessions").then(({ status }) => `${status}`)) } });
  const answer = (/** @type {object} */ fields) => calls.callback({ session: "s", call: "c", id: "q", status: 200, ...fields });
  answer({});
  call({});
  assert.equal(last().callback.id, "q");
  for (const other of [{ id: "other" }, { session: "other" }, { call: "other" }, { id: undefined }]) answer(other);
  await sleep(1);
  assert.equal(last().callback.id, "q");
  answer({ status: 201 });
  answer({ status: 202 });
  await sleep(1);
  assert.deepEqual(last().outcome, { text: "201" });
  answer({});
  await assert.rejects(context.request("late", "GET", "/"), /the call has ended/);
});

test("a tool that returns while its requests wait leaves no rejection, and withdraws its question", async () => {
  const { calls, call, last } = callsOf({
    a: {
      run(_, context) {
        void context.request("q1", "GET", "/v1/sessions");
        void context.ask("q2", "Which one?");
        return "done";
      },
    },
  });
  call({});
  await sleep(5); // an unhandled rejection fails the test
  assert.deepEqual(last().outcome, { text: "done" });
  const sign = () => JSON.parse(calls.withdrawn.signed({ hash: "h", running: 0 }));
  assert.deepEqual(sign().withdrawn, [{ session: "s", call: "c", id: "q2" }]);
  calls.recorded({ session: "s", call: "c" });
  assert.equal(sign().withdrawn, undefined);
});

test("a question is withdrawn where its signal aborts, but not by a cancel, and not while the tool waits again", async () => {
  for (const path of ["ask", "request"]) {
    const stop = new AbortController();
    /** @type {any} */
    let context;
    const { calls, call } = callsOf({ a: { run: (_, given) => ((context = given), new Promise(() => {})) } });
    call({});
    const ask = (/** @type {AbortSignal | undefined} */ signal) =>
      path === "ask" ? context.ask("q", "Which one?", undefined, { signal }) : context.request("q", "POST", "/v1/ask", { question: "Which one?" }, { signal });
    const given = ask(stop.signal);
    stop.abort();
    await assert.rejects(given, { name: "AbortError" });
    assert.equal(calls.withdrawn.size, 1);
    const again = ask(undefined);
    assert.equal(calls.withdrawn.size, 0);
    calls.cancel({ session: "s", call: "c", grace_ms: 1 });
    await assert.rejects(again);
    assert.equal(calls.withdrawn.size, 0);
  }
});

test("an aborted request that waits for its turn leaves the turn to the next one", async () => {
  /** @type {any} */
  let context;
  const { calls, call, sent } = callsOf({ a: { run: (_, given) => ((context = given), new Promise(() => {})) } });
  call({});
  for (let n = 0; n < 16; n++) void context.request(`${n}`, "GET", "/");
  const stop = new AbortController();
  const aborted = context.request("aborted", "GET", "/", undefined, { signal: stop.signal });
  void context.request("next", "GET", "/");
  await sleep(1);
  calls.callback({ session: "s", call: "c", id: "0", status: 200 });
  stop.abort();
  await assert.rejects(aborted);
  await sleep(1);
  assert.deepEqual([sent.some(({ message }) => message.callback?.id === "aborted"), sent.at(-1)?.message.callback.id], [false, "next"]);
  calls.cancel({ session: "s", call: "c", grace_ms: 1 });
});

test("each withdrawn question is in a sign, 256 at most, and a sign has at most 1024 bytes", () => {
  const withdrawn = new Withdrawn();
  withdrawn.add({ session: "s", call: "c".repeat(2000), id: "long" }, 0); // fits into no sign
  for (let n = 0; n < 300; n++) withdrawn.add({ session: "s", call: "c", id: `q${n}` }, n);
  const seen = new Set();
  for (let n = 0; n < 256; n++) {
    const json = withdrawn.signed({ hash: "f".repeat(64), machine: "m".repeat(64), running: 0 });
    assert.ok(Buffer.byteLength(json) <= 1024);
    for (const { id } of JSON.parse(json).withdrawn ?? []) seen.add(id);
  }
  assert.deepEqual([withdrawn.size, seen.size, seen.has("q43"), seen.has("q44")], [256, 256, false, true]);
  withdrawn.expire(600_000 + 299);
  assert.equal(withdrawn.size, 1);
});
