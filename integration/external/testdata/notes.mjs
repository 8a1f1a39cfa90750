// A plugin in JavaScript: the messages of package session/plugin/wire over a NATS client, without an SDK.
import { connect } from "@nats-io/transport-node";

const server = process.env.LASH_TEST_SERVER;
const instance = process.env.LASH_TEST_INSTANCE;
const plugin = "notes";
const nc = await connect({ servers: server });

const send = (subject, value) => nc.publish(subject, JSON.stringify(value));
const calls = new Map(); // by session and call: replies, and the outcome once there is one

async function run(call) {
  const args = call.args ?? {};
  if (args.fail) return { failure: { class: "external", message: "the shop is closed" } };
  await new Promise((done) => setTimeout(done, args.millis ?? 0));
  return { text: `noted: ${args.text}` };
}

async function onCall(message) {
  const call = message.json();
  const id = `${call.session}/${call.call}`;
  const known = calls.get(id);
  if (known?.outcome) return send(message.reply, { outcome: known.outcome });
  if (known?.forgotten) return send(message.reply, { forgotten: true });
  send(message.reply, {}); // a sign of life
  if (known) return known.replies.push(message.reply);
  const entry = { replies: [message.reply] };
  calls.set(id, entry);
  entry.outcome = await run(call);
  for (const reply of entry.replies) send(reply, { outcome: entry.outcome });
}

function onRecorded(message) {
  const { session, call } = message.json();
  const known = calls.get(`${session}/${call}`);
  if (known?.outcome) Object.assign(known, { outcome: undefined, forgotten: true, replies: [] });
}

const manifest = {
  version: "js-1",
  tools: [{ name: "write", description: "Writes a note.", schema: { type: "object", properties: { text: { type: "string" }, millis: { type: "integer" } } } }],
};

async function register() {
  const body = JSON.stringify({ protocol: 1, instance, manifest });
  const answer = (await nc.request(`lash.plugins.${plugin}.register`, body, { timeout: 5000 })).json();
  if (answer.error) throw new Error(answer.error.message);
  return answer.hash;
}

const on = (verb, handle, to = instance) =>
  nc.subscribe(`lash.plugin.${plugin}.${to}.${verb}`, { callback: (err, message) => (err ? console.error(err) : handle(message)) });
on("call", onCall);
on("recorded", onRecorded);
await nc.flush();
const hash = await register();
const sign = () => send(`lash.plugin-live.${plugin}.${instance}`, { hash, running: [...calls.values()].filter((c) => !c.outcome && !c.forgotten).length });
on("sign", sign, "all");
on("register", register);
sign();
setInterval(() => {
  sign();
  for (const { outcome, replies } of calls.values()) if (!outcome) for (const reply of replies) send(reply, {});
}, 1000);
console.log("ready");
