// The plugin with which `lash-node plugin check` tests an SDK.
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, abortTurn, contribute, definePlugin, enqueueMessages, replaceToolArgs, serve, shortCircuitTool, switchFrame, systemPrompt, tool } from "@lash/plugin";

/** @type {Map<string, number>} */
const runs = new Map(); // by key of the call
const letters = "abcdefghijklmnopqrstuvwxyz";
const text = /** @type {const} */ ({ type: "string" });
const integer = /** @type {const} */ ({ type: "integer" });

const conformance = definePlugin({
  name: "conformance",
  version: "1",
  tools: {
    echo: tool({
      effects: "none",
      schema: { type: "object", properties: { text }, required: ["text"] },
      run: ({ text }) => text,
    }),
    sleep: tool({
      effects: "none",
      schema: { type: "object", properties: { millis: integer }, required: ["millis"] },
      async run({ millis }, { signal }) {
        const began = Date.now();
        try {
          await sleep(millis, undefined, { signal });
        } catch {
          return { text: `slept ${Date.now() - began} of ${millis} ms`, cancelled: true };
        }
        return "slept";
      },
    }),
    fail: tool({
      effects: "none",
      schema: { type: "object", properties: { class: {}, message: text, safe: { type: "boolean" } }, required: ["message"] },
      run({ message, ...options }) {
        throw new Failure(message, options);
      },
    }),
    throw: tool({
      effects: "none",
      schema: { type: "object" },
      run() {
        throw new Error("as requested");
      },
    }),
    big: tool({
      effects: "none",
      schema: { type: "object", properties: { bytes: integer }, required: ["bytes"] },
      run: ({ bytes }) => letters.repeat(Math.ceil(bytes / letters.length)).slice(0, bytes),
    }),
    picture: tool({
      effects: "none",
      schema: { type: "object", properties: { bytes: integer }, required: ["bytes"] },
      run: ({ bytes }) => ({ text: "picture", attachments: [{ mediaType: "image/png", data: Uint8Array.from({ length: bytes }, (_, i) => i % 256) }] }),
    }),
    print: tool({
      effects: "none",
      schema: { type: "object", properties: { lines: integer }, required: ["lines"] },
      run({ lines }, call) {
        for (let n = 1; n <= lines; n++) call.print(`line ${n}\n`);
        return `printed ${lines}`;
      },
    }),
    count: tool({
      schema: { type: "object" },
      run(_, { key }) {
        runs.set(key, (runs.get(key) ?? 0) + 1);
        return `run ${runs.get(key)}`;
      },
    }),
    ask: tool({
      effects: "idempotent",
      schema: { type: "object", properties: { id: text, method: { enum: ["GET", "POST", "PUT", "PATCH", "DELETE"] }, path: text, body: {} }, required: ["id", "method", "path"] },
      run: async ({ id, method, path, body }, call) => JSON.stringify(await call.request(id, method, path, body)),
    }),
    give_up: tool({
      effects: "idempotent",
      schema: { type: "object", properties: { id: text, question: text, millis: integer }, required: ["id", "question", "millis"] },
      async run({ id, question, millis }, call) {
        const signal = AbortSignal.timeout(millis);
        try {
          return `granted ${(await call.ask(id, question, undefined, { signal })).granted}`;
        } catch (err) {
          if (!signal.aborted) throw err;
          return "gave up";
        }
      },
    }),
    finish: tool({
      effects: "none",
      schema: { type: "object", properties: { text }, required: ["text"] },
      run: ({ text }) => ({ text, control: "finish" }),
    }),
  },
  hooks: {
    guard: {
      point: "before_tool_call",
      tools: ["echo"],
      run({ call }) {
        if (call.args.text === "forbidden") return abortTurn("guarded", "not this text");
        if (call.args.text === "other") return replaceToolArgs({ text: "replaced" });
        if (call.args.text === "call") return replaceToolArgs({ text: `${call.key} ${call.again} ${call.once} ${call.inner}` });
      },
    },
    note: {
      point: "after_tool_call",
      tools: ["echo"],
      failOpen: true,
      run({ call }) {
        if (call.result.text === "loud") return shortCircuitTool("LOUD");
        if (call.result.text === "hookfail") throw new Error("as requested");
      },
    },
    advise: {
      point: "before_model_call",
      run({ iteration, lastPrompt, window }) {
        const text = contribute({ slot: "guidance", content: `Model call ${iteration}.` });
        if (window === 0 || lastPrompt * 10 < window * 9) return text;
        return [text, systemPrompt("Be brief."), switchFrame(`f${iteration}`, "go on", { role: "user", text: "so far" })];
      },
    },
    greet: {
      point: "before_turn",
      async run({ input }) {
        if (input === "greet me slowly") await sleep(1500);
        if (input.startsWith("greet me")) return enqueueMessages({ role: "user", text: "hello from conformance" });
      },
    },
  },
  prompt: [{ slot: "guidance", content: "Conformance is here.", tools: ["echo"] }],
});

await serve(conformance);
