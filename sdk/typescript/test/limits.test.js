import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Callbacks } from "../lib/callbacks.js";
import { Outcomes, outcome } from "../lib/outcome.js";
import { Output } from "../lib/output.js";
import { Sessions } from "../lib/sessions.js";

/** @import * as wire from "../wire.js" */

test("outcomes are dropped after 10 minutes", () => {
  const outcomes = new Outcomes();
  outcomes.keep("a", Buffer.from("{}"), 0);
  outcomes.keep("b", Buffer.from("{}"), 1);
  outcomes.expire(599_999);
  assert.equal(outcomes.size, 2);
  outcomes.expire(600_000);
  assert.equal(outcomes.get("a"), undefined);
  assert.ok(outcomes.dropped("a"));
  assert.ok(outcomes.get("b"));
});

test("the oldest outcomes are dropped where all have more than 64 MiB", () => {
  const outcomes = new Outcomes();
  const half = Buffer.alloc(32 << 20);
  outcomes.keep("a", half, 0);
  outcomes.keep("b", half, 0);
  assert.equal(outcomes.size, 2);
  outcomes.keep("c", Buffer.alloc(1), 0);
  assert.deepEqual([outcomes.dropped("a"), outcomes.dropped("b"), outcomes.size], [true, false, 2]);
});

test("65536 ids are kept, and whether one was forgotten", () => {
  const outcomes = new Outcomes();
  for (let n = 0; n < 65_536; n++) {
    outcomes.keep(`${n}`, Buffer.from("{}"), 0);
    outcomes.drop(`${n}`);
  }
  assert.deepEqual([outcomes.forgot, outcomes.dropped("0")], [false, true]);
  outcomes.keep("last", Buffer.from("{}"), 0);
  outcomes.drop("last");
  assert.deepEqual([outcomes.forgot, outcomes.dropped("0"), outcomes.dropped("1")], [true, false, true]);
});

test("a tool that prints all the time sends at most 20 outputs in a second, without broken characters", async () => {
  /** @type {(wire.Output & { at: number })[]} */
  const sent = [];
  const output = new Output((o) => sent.push({ ...o, at: performance.now() }));
  let printed = "";
  for (const end = performance.now() + 1500; performance.now() < end; await sleep(1)) {
    const text = "ä€😀".repeat(100);
    printed += text;
    output.print(text);
  }
  output.end();
  output.print("late");
  for (const [n, { at }] of sent.entries()) assert.ok(n < 20 || at - sent[n - 20].at > 1000, `outputs ${n - 20} to ${n} in a second`);
  const bytes = Buffer.from(printed);
  for (const [n, { seq, off, text }] of sent.entries()) {
    assert.equal(seq, n + 1);
    assert.ok(Buffer.byteLength(text) <= 16384);
    assert.equal(text, bytes.subarray(off, off + Buffer.byteLength(text)).toString());
  }
});

test("what waits too long is left out, and offsets show it", () => {
  /** @type {wire.Output[]} */
  const sent = [];
  const output = new Output((o) => sent.push(o));
  output.print("begin");
  output.print("€".repeat(200_000), "stderr");
  output.print("log", "log");
  output.end();
  assert.deepEqual(sent.map(({ stream, off }) => [stream, off]).slice(0, 3), [["stdout", 0], ["stderr", 600_000 - 262_143], ["log", 0]]);
});

test("16 requests of a call wait at once, and the end of the call rejects all", async () => {
  /** @type {string[]} */
  const sent = [];
  const callbacks = new Callbacks(({ id }) => sent.push(id));
  const all = Array.from({ length: 18 }, (_, n) => callbacks.request(`${n}`, "GET", "/v1/sessions").then((a) => a.status, String));
  await sleep(1);
  assert.equal(sent.length, 16);
  callbacks.answer({ session: "s", call: "c", id: "3", status: 200 });
  await sleep(1);
  assert.equal(sent[16], "16");
  callbacks.end("ended");
  assert.deepEqual([...new Set(await Promise.all(all))], ["ended", 200]);
  await assert.rejects(callbacks.request("x", "GET", "/"), (err) => err === "ended");
  await assert.rejects(new Callbacks(() => {}).request("x", "POST", "/", "x".repeat(262_143)), RangeError);
});

test("a result has at most 256 attachments", async () => {
  for (const n of [0, 1, 255, 256, 257, 5000]) {
    const attachments = Array.from({ length: n }, () => ({ mediaType: "image/png", data: Uint8Array.of(1) }));
    const { json, failed } = await outcome(async () => ({ text: "t", attachments }), new AbortController().signal);
    const { attachments: sent, failure } = JSON.parse(json.toString());
    assert.equal(failed, n > 256);
    if (failed) assert.deepEqual([failure.class, failure.message], ["resource_limit", `attachments: the result has ${n}, limit is 256`]);
    else assert.equal(sent.length, n);
  }
});

test("a question stays open where a node of a version without questions answers with 404", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  const statuses = [404, 404, 200];
  const callbacks = new Callbacks(({ id }) => callbacks.answer({ session: "s", call: "c", id, status: statuses.shift() ?? 500, body: { granted: true } }));
  const given = callbacks.ask("q", "Which one?");
  for (let n = 0; n < 20 && statuses.length > 0; n++) {
    await new Promise((later) => setImmediate(later));
    t.mock.timers.tick(2000);
  }
  assert.deepEqual([(await given).granted, statuses.length], [true, 0]);
});

test("65536 sessions are kept, and of the others those where something runs", async () => {
  const sessions = new Sessions({ name: "p", version: "1", scope: "session" });
  sessions.runs = (session) => session === "0";
  for (let n = 0; n < 65_536; n++) await sessions.start({ session: `${n}`, epoch: 1 });
  const { end } = await sessions.hook("1", 1);
  assert.equal(sessions.refuse("2", 1), undefined);
  await sessions.start({ session: "new", epoch: 1 });
  assert.deepEqual(["0", "1", "2", "3", "4", "new"].map((id) => sessions.refuse(id, 1)?.code), [undefined, undefined, undefined, "not_owner", undefined, undefined]);
  end?.();
});

test("a session that has ended starts again with a higher epoch only", async () => {
  let starts = 0;
  const sessions = new Sessions({ name: "p", version: "1", scope: "session", onSessionStart: () => void starts++, onIdle: () => true });
  await sessions.start({ session: "s", epoch: 3 });
  assert.deepEqual(await sessions.idle({ session: "s", epoch: 3, quiet_ms: 0 }, false), { ended: true });
  assert.equal((await sessions.start({ session: "s", epoch: 3 })).error?.code, "not_owner");
  assert.equal(sessions.refuse("s", 3)?.code, "not_owner");
  assert.deepEqual([await sessions.start({ session: "s", epoch: 4 }), sessions.refuse("s", 4), starts], [{}, undefined, 2]);
});
