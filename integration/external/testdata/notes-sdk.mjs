// The plugin of main_test.go with the SDK of TypeScript.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, definePlugin, serve, tool } from "@lash/plugin";

const { LASH_TEST_RUNS: runs, LASH_PLUGIN_INSTANCE: instance, LASH_TEST_VERSION: version, LASH_TEST_SCOPE: scope, LASH_TEST_IDLE: idle } = process.env;
const log = (what, call) => appendFileSync(runs, `${what} ${call.id} ${instance} ${call.session}\n`);

// Waits for a time or, in a call that is held, until the test has released it.
async function pause({ millis = 0, hold }, signal) {
  await sleep(millis, undefined, { signal });
  while (hold && !existsSync(`${runs}.released`)) await sleep(10, undefined, { signal });
}

const note = {
  schema: { type: "object", properties: { text: { type: "string" }, millis: { type: "integer" }, hold: { type: "boolean" }, fail: { type: "string" } }, required: ["text"] },
  async run({ text, fail, ...how }, call) {
    log("began", call);
    if (fail === "panic") throw new Error("as requested");
    if (fail === "error") throw new Failure("the shop is closed", { class: "external", code: "closed" });
    try {
      await pause(how, call.signal);
    } catch (err) {
      log("stopped", call);
      throw err;
    }
    log("ended", call);
    return `noted: ${text}`;
  },
};

function largeText(n) {
  let text = "";
  for (let i = 0; text.length < n; i++) text += `${i}-é `; // more bytes than characters
  const bytes = Buffer.from(text).subarray(0, n);
  return new TextDecoder().decode(bytes, { stream: true }) + (cut(bytes) ? "x" : "");
}

// Whether the bytes end within a character.
const cut = (bytes) => bytes.at(-1) >= 0xc0;

const deeds = {
  large: ({ n }) => largeText(n),
  finish: () => ({ text: "the end", control: "finish", emit: [{ n: 1 }, { n: 2 }] }),
  picture: ({ n }) => ({ text: "a picture", attachments: [{ mediaType: "image/png", data: Buffer.from(largeText(n)) }] }),
  async body({ n, ...how }, call) {
    const data = Buffer.from(largeText(n));
    const stored = await call.storeBody(data);
    log("stored", call);
    await pause(how, call.signal);
    const read = await call.readBody(stored.digest);
    return { text: `read ${data.equals(read)}`, attachments: [{ mediaType: "image/png", ...stored }] };
  },
  read: async ({ path }, call) => (await call.readBody(path), "read it"),
  name: ({ path, n }) => ({ text: "named it", attachments: [{ mediaType: "image/png", digest: path, size: n }] }),
  async lines({ n, millis = 0 }, call) {
    for (let line = 1; line <= n; line++) {
      call.print(`line ${line}\n`);
      if (millis > 0) await sleep(millis);
    }
    return "printed";
  },
  async request({ method, path, body }, call) {
    const answer = await call.request("r1", method, path, body);
    return `${answer.status} ${JSON.stringify(answer.body)}`;
  },
  async child(how, call) {
    const answer = await call.request("child", "POST", "/v1/sessions", { parent: call.session });
    log("asked", call);
    await pause(how);
    return `${answer.status} ${JSON.stringify(answer.body)}`;
  },
  async copy(args, call) {
    const snapshot = await call.request("r1", "GET", `/v1/sessions/${call.session}/snapshot`);
    const answer = await call.request("r2", "POST", "/v1/sessions", { parent: call.session, start: "snapshot", snapshot: snapshot.body });
    return `${answer.status} ${JSON.stringify(answer.body)}`;
  },
  trace: async (args, call) => `${await call.trace("r1", { name: "seen", payload: { n: 1 }, context: { llm_call: "m1", metadata: { run: "r7" } } })}`,
  die: () => process.exit(7),
  async stubborn(how, call) {
    await pause(how);
    log("ended", call);
    return "went on";
  },
  people: async (args, call) => JSON.stringify(await call.ask("r1", "Which one?", { of: ["red", "blue"] })),
  partial: (how, { signal }) =>
    pause(how, signal).then(
      () => "done",
      () => ({ text: "half", cancelled: true }),
    ),
};

const act = {
  run(args, call) {
    log("began", call);
    return deeds[args.do]?.(args, call) ?? "done";
  },
};

async function command({ command }, { signal, print }) {
  const child = spawn("sh", ["-c", command], { detached: true, stdio: ["ignore", "pipe", "inherit"] });
  signal.addEventListener("abort", () => process.kill(-child.pid, "SIGKILL"));
  let text = "";
  child.stdout.on("data", (data) => {
    text += data;
    print(String(data));
  });
  await once(child, "close");
  return { text, cancelled: signal.aborted };
}

const served = await serve(
  definePlugin({
    name: "notes",
    version: version || "1",
    scope: scope || undefined,
    onSessionStart: ({ epoch }) => appendFileSync(runs, `started ${epoch} ${instance}\n`),
    onIdle() {
      appendFileSync(runs, `idle - ${instance}\n`);
      if (idle === "exit") setTimeout(() => served.drain()); // after the answer
      return Boolean(idle);
    },
    tools: {
      write: tool({ ...note, description: "Writes a note." }),
      look: tool({ ...note, description: "Looks a note up.", effects: "idempotent" }),
      act: tool(act),
      ask: tool({ ...act, effects: "idempotent" }),
      brief: tool({ ...act, timeoutMs: 300 }),
      run_command: tool({ serial: true, run: command }),
    },
  }),
);
console.log("ready");
