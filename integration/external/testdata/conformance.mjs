// The plugin conformance in JavaScript: the messages of session/plugin/wire/PROTOCOL.md over a NATS client, without an SDK.
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "@nats-io/transport-node";

const env = process.env;
const plugin = env.LASH_PLUGIN;
const instance = `${env.LASH_PLUGIN_INSTANCE || "js"}-${randomBytes(6).toString("hex")}`;
const prefix = env.LASH_PLUGIN_PREFIX || "lash";
const object = { type: "object" };
const none = (name) => ({ name, effects: "none", schema: object });
const manifest = {
  version: "1",
  tools: [
    ...["echo", "sleep", "fail", "throw", "big", "picture", "print", "finish"].map(none),
    { name: "count", schema: object },
    ...["ask", "give_up"].map((name) => ({ name, effects: "idempotent", schema: object })),
  ],
  hooks: [
    { name: "guard", point: "before_tool_call", tools: ["echo"] },
    { name: "note", point: "after_tool_call", tools: ["echo"], fail_open: true },
    { name: "greet", point: "before_turn" },
    { name: "advise", point: "before_model_call" },
  ],
  prompt: [{ slot: "guidance", content: "Conformance is here.", tools: ["echo"] }],
};
const maxInline = 524_288, maxOutcome = 33_554_432, maxKept = 67_108_864, maxIds = 65_536, keepMillis = 600_000, maxOutput = 16_384;

const nc = await connect({ servers: env.LASH_PLUGIN_NATS.split(","), inboxPrefix: env.LASH_PLUGIN_INBOX || undefined, maxReconnectAttempts: -1 });
const send = (subject, value) => subject && nc.publish(subject, JSON.stringify(value));

// A call is { replies, stop, answers } while it runs, then { outcome, since }, then {}.
const calls = new Map();
const runs = new Map(); // of the tool count, by key
let withdrawn = []; // questions
let running = 0, hooks = 0, ended = 0, failures = 0, kept = 0, forgot = false, leaving = false, draining = false, hash, term;

const letters = "abcdefghijklmnopqrstuvwxyz";
const tools = {
  echo: ({ text }) => ({ text }),
  async sleep({ millis }, { stop }) {
    const began = Date.now();
    const slept = await sleep(millis, true, { signal: stop.signal }).catch(() => false);
    return slept ? { text: "slept" } : { text: `slept ${Date.now() - began} of ${millis} ms`, cancelled: true };
  },
  fail: ({ class: of, message, safe }) => ({ failure: { class: of, message, safe } }),
  throw() {
    throw new Error("as requested");
  },
  big: ({ bytes }) => ({ text: letters.repeat(Math.ceil(bytes / letters.length)).slice(0, bytes) }),
  picture: ({ bytes }) => ({ text: "picture", attachments: [{ media_type: "image/png", data: Buffer.from(Uint8Array.from({ length: bytes }, (_, i) => i % 256)).toString("base64") }] }),
  async print({ lines }, entry) {
    let text = "";
    for (let n = 1; n <= lines; n++) text += `line ${n}\n`;
    for (let seq = 1, off = 0; off < text.length; seq++) {
      if (seq > 1) await sleep(100); // at most 20 a second
      const output = { seq, off, text: text.slice(off, off + maxOutput) };
      for (const reply of entry.replies) send(reply, { output });
      off += output.text.length;
    }
    return { text: `printed ${lines}` };
  },
  count(_, __, { key }) {
    runs.set(key, (runs.get(key) ?? 0) + 1);
    return { text: `run ${runs.get(key)}` };
  },
  async ask(callback, entry) {
    const answer = new Promise((done) => entry.answers.set(callback.id, done));
    const ask = () => send(entry.last, { callback });
    ask();
    const again = setInterval(ask, 2000);
    const { status, body } = await answer;
    clearInterval(again);
    return { text: JSON.stringify({ status, body }) };
  },
  async give_up({ id, question, millis }, entry, { session, call }) {
    const callback = { id, method: "POST", path: "/v1/ask", body: { question } };
    const answer = new Promise((done) => entry.answers.set(id, done));
    send(entry.last, { callback });
    if (await Promise.race([answer, sleep(millis)])) return { text: "answered" };
    withdrawn.push({ session, call, id });
    return { text: "gave up" };
  },
  finish: ({ text }) => ({ text, control: "finish" }),
};

async function run(call, entry) {
  try {
    const outcome = await tools[call.tool](call.args, entry, call);
    if (JSON.stringify(outcome).length > maxOutcome) return { failure: { class: "resource_limit", message: "the result is too large" } };
    return outcome;
  } catch (err) {
    return { failure: { class: "internal", message: err.message } };
  }
}

function answer(reply, outcome) {
  const json = Buffer.from(JSON.stringify(outcome));
  if (json.length <= maxInline) return send(reply, { outcome });
  let pieces = 0;
  for (let at = 0; at < json.length; at += maxInline) {
    send(reply, { piece: { n: pieces++, data: json.subarray(at, at + maxInline).toString("base64") } });
  }
  send(reply, { pieces });
}

const size = (entry) => JSON.stringify(entry.outcome).length;

function drop(id) {
  const entry = calls.get(id);
  if (!entry?.outcome) return;
  kept -= size(entry);
  calls.set(id, {});
}

function forget() {
  for (const [id, { replies, outcome, since }] of calls) {
    if (outcome && (kept > maxKept || Date.now() - since > keepMillis)) drop(id);
    if (!replies && calls.size > maxIds) forgot = calls.delete(id);
  }
}

async function onCall(call, reply) {
  const id = `${call.session}/${call.call}`;
  const known = calls.get(id);
  if (known?.replies) {
    known.replies.add(reply);
    known.last = reply;
    return send(reply, {});
  }
  if (known?.outcome) return answer(reply, known.outcome);
  if (known || (forgot && call.again)) return send(reply, { forgotten: true });
  if (draining) return send(reply, { error: { code: "draining", message: "the instance ends" } });
  if (!Object.hasOwn(tools, call.tool)) return send(reply, { error: { code: "unknown_tool", message: `no tool ${call.tool}` } });
  send(reply, {});
  const entry = { replies: new Set([reply]), last: reply, stop: new AbortController(), answers: new Map() };
  calls.set(id, entry);
  running++;
  const outcome = await run(call, entry);
  running--;
  ended++;
  if (outcome.failure) failures++;
  calls.set(id, { outcome, since: Date.now() });
  kept += size({ outcome });
  for (const reply of entry.replies) answer(reply, outcome);
  forget();
}

const hooked = {
  guard({ call }) {
    if (call.args.text === "forbidden") return [{ kind: "abort_turn", code: "guarded", message: "not this text" }];
    if (call.args.text === "other") return [{ kind: "replace_tool_args", args: { text: "replaced" } }];
    if (call.args.text === "call") return [{ kind: "replace_tool_args", args: { text: `${call.key} ${!!call.again} ${!!call.once} ${!!call.inner}` } }];
  },
  note({ call }) {
    if (call.result.text === "hookfail") throw new Error("as requested");
    if (call.result.text === "loud") return [{ kind: "short_circuit_tool", result: { text: "LOUD" } }];
  },
  advise({ iteration = 0, last_prompt = 0, window = 0 }) {
    const list = [{ kind: "contribute", contributions: [{ slot: "guidance", content: `Model call ${iteration}.` }] }];
    if (window > 0 && last_prompt * 10 >= window * 9) {
      list.push({ kind: "system_prompt", text: "Be brief." });
      list.push({ kind: "switch_frame", frame: `f${iteration}`, task: "go on", messages: [{ role: "user", text: "so far" }] });
    }
    return list;
  },
  async greet({ input = "" }) {
    if (input === "greet me slowly") await sleep(1500);
    if (input.startsWith("greet me")) return [{ kind: "enqueue_messages", messages: [{ role: "user", text: "hello from conformance" }] }];
  },
};

async function onHook(call, reply) {
  hooks++;
  try {
    if (!Object.hasOwn(hooked, call.hook)) return send(reply, { error: { code: "bad_request", field: "hook", message: `no hook ${call.hook}` } });
    send(reply, { directives: await hooked[call.hook](call) });
  } catch (err) {
    send(reply, { error: { code: "internal", message: err.message } });
  } finally {
    hooks--;
  }
}

async function register() {
  for (;;) {
    const next = sleep(2000);
    try {
      const { error, hash: registered, term: given = term } = (await nc.request(`${prefix}.plugins.${plugin}.register`, JSON.stringify({ protocol: 1, instance, term, manifest }), { timeout: 2000 })).json();
      if (error?.code !== "rate_limited") {
        if (error) return end(error.message);
        hash = registered;
        term = given;
        return sign();
      }
    } catch {
      // no node runs
    }
    await next;
  }
}

function sign() {
  if (hash) send(`${prefix}.plugin-live.${plugin}.${instance}`, { hash, term, draining: leaving, running, calls: ended, failures, withdrawn: withdrawn.length > 0 ? withdrawn : undefined });
}

let ending;
function end(message) {
  if (message) console.error(message);
  return (ending ??= leave(message ? 1 : 0));
}

async function leave(code) {
  leaving = true;
  sign();
  await sleep(500); // nodes that have not read the sign send calls
  draining = true;
  const unrecorded = () => [...calls.values()].some(({ outcome }) => outcome);
  for (let late = Infinity; running + hooks > 0 || (unrecorded() && Date.now() < late); ) {
    if (running + hooks === 0 && late === Infinity) late = Date.now() + 5000;
    await sleep(20);
  }
  await nc.drain();
  process.exit(code);
}

const handlers = {
  call: onCall,
  hook: onHook,
  cancel: ({ session, call }) => calls.get(`${session}/${call}`)?.stop?.abort(),
  callback: ({ session, call, id, ...answer }) => calls.get(`${session}/${call}`)?.answers?.get(id)?.(answer),
  recorded({ session, call }) {
    withdrawn = withdrawn.filter((q) => q.session !== session || q.call !== call);
    drop(`${session}/${call}`);
  },
  drain: () => void end(),
  register: () => void register(),
};
const refusable = ["call", "hook"];
const on = (subject, handle, verb) =>
  nc.subscribe(`${prefix}.plugin.${plugin}.${subject}`, {
    async callback(err, message) {
      try {
        const value = message.data.length > 0 ? message.json() : {};
        if (typeof value !== "object" || value === null) throw new TypeError("the message is no object");
        if (!value.term || value.term === term) await handle(value, message.reply);
      } catch (wrong) {
        if (refusable.includes(verb)) send(message.reply, { error: { code: "bad_request", message: String(err ?? wrong) } });
      }
    },
  });
for (const [verb, handle] of Object.entries(handlers)) on(`${instance}.${verb}`, handle, verb);
on("all.sign", sign);
await nc.flush();
await register();
process.on("SIGTERM", () => void end());
setInterval(() => {
  sign();
  forget();
  for (const { replies } of calls.values()) for (const reply of replies ?? []) send(reply, {});
}, 1000);
