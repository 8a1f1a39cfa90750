// A plugin in JavaScript: the messages of session/plugin/wire/PROTOCOL.md over a NATS client, without an SDK.
import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { connect } from "@nats-io/transport-node";

const { LASH_PLUGIN: plugin, LASH_PLUGIN_INSTANCE: name, LASH_PLUGIN_NATS: servers } = process.env;
const instance = `${name}-${randomBytes(6).toString("hex")}`;
const prefix = process.env.LASH_PLUGIN_PREFIX || "lash";
const manifest = {
  version: "js-1",
  tools: [{ name: "write", description: "Writes a note.", schema: { type: "object", properties: { text: { type: "string" }, millis: { type: "integer" }, hold: { type: "boolean" } } } }],
};
const keepMillis = 600_000, keepIds = 65_536;

const nc = await connect({ servers: servers.split(","), inboxPrefix: process.env.LASH_PLUGIN_INBOX || undefined, maxReconnectAttempts: -1 });
const send = (subject, value) => nc.publish(subject, JSON.stringify(value));
const calls = new Map(); // by session and call: the reply subjects while the tool runs, then its outcome, then nothing
let running = 0, forgot = false, leaving = false, draining = false, hash;

// Each outcome is small, so that 10 minutes bound their bytes.
async function run({ args }, signal) {
  if (args.fail) return { failure: { class: "external", message: "the shop is closed" } };
  const cancelled = await new Promise((done) => {
    const over = () => (args.hold && !existsSync(`${process.env.LASH_TEST_RUNS}.released`) ? setTimeout(over, 10) : done(false));
    setTimeout(over, args.millis ?? 0);
    signal.addEventListener("abort", () => done(true));
  });
  return cancelled ? { cancelled } : { text: `noted: ${args.text}` };
}

async function onCall(call, reply) {
  const id = `${call.session}/${call.call}`;
  const known = calls.get(id);
  if (known?.outcome) return send(reply, { outcome: known.outcome });
  if (known?.replies) return known.replies.add(reply) && send(reply, {});
  if (known || (forgot && call.again)) return send(reply, { forgotten: true });
  if (draining) return send(reply, { error: { code: "draining", message: "the instance ends" } });
  if (call.tool !== "write") return send(reply, { error: { code: "unknown_tool", message: `no tool ${call.tool}` } });
  send(reply, {});
  const entry = { replies: new Set([reply]), stop: new AbortController() };
  calls.set(id, entry);
  running++;
  const outcome = await run(call, entry.stop.signal);
  running--;
  for (const reply of entry.replies) send(reply, { outcome });
  calls.set(id, { outcome });
  setTimeout(() => calls.set(id, {}), keepMillis).unref();
  for (const [old, { replies }] of calls) {
    if (calls.size <= keepIds) break;
    if (!replies) forgot = calls.delete(old);
  }
}

async function register() {
  for (;;) {
    const next = new Promise((done) => setTimeout(done, 2000));
    try {
      const answer = (await nc.request(`${prefix}.plugins.${plugin}.register`, JSON.stringify({ protocol: 1, instance, manifest }), { timeout: 2000 })).json();
      if (answer.error) process.exit(console.error(answer.error.message) ?? 1);
      hash = answer.hash;
      return sign();
    } catch {
      await next; // no node runs
    }
  }
}

function sign() {
  if (hash) send(`${prefix}.plugin-live.${plugin}.${instance}`, { hash, draining: leaving, running });
}

async function drain() {
  leaving = true;
  sign();
  await new Promise((done) => setTimeout(done, 500)); // nodes that have not read the sign send calls
  draining = true;
  while (running > 0) await new Promise((done) => setTimeout(done, 50));
  await nc.drain();
  process.exit(0);
}

const handlers = {
  call: onCall,
  cancel: ({ session, call }) => calls.get(`${session}/${call}`)?.stop?.abort(),
  recorded: ({ session, call }) => calls.get(`${session}/${call}`)?.outcome && calls.set(`${session}/${call}`, {}),
  drain,
  register,
};
const on = (subject, handle) =>
  nc.subscribe(`${prefix}.plugin.${plugin}.${subject}`, {
    async callback(err, message) {
      try {
        await handle(message.data.length > 0 ? message.json() : {}, message.reply);
      } catch (wrong) {
        console.error(subject, String(err ?? wrong)); // a message that is no JSON does not end the program
      }
    },
  });
for (const [verb, handle] of Object.entries(handlers)) on(`${instance}.${verb}`, handle);
on("all.sign", sign);
await nc.flush();
await register();
process.on("SIGTERM", drain);
setInterval(() => {
  sign();
  for (const { replies } of calls.values()) for (const reply of replies ?? []) send(reply, {});
}, 1000);
console.log("ready");
