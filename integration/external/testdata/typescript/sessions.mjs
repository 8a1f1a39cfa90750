// A plugin that keeps a number of calls for each session.
import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { definePlugin, serve, tool } from "@lash/plugin";

const kept = new Map();
const { LASH_TEST_RUNS: runs = "" } = process.env;

/**
 * Of sessions with these labels, logs what begins, and waits until the test has released it.
 * @param {string} what
 * @param {string} session
 */
async function slowly(what, session) {
  if (!["slow", "ends"].includes(kept.get(session)?.label)) return;
  appendFileSync(runs, `${what} ${session}\n`);
  while (!existsSync(`${runs}.released`)) await sleep(10);
}

const plugin = definePlugin({
  name: "notes",
  version: "sessions",
  scope: "session",
  tools: { add: tool({ run: (_, { session }) => `${kept.get(session).label} ${++kept.get(session).calls}` }) },
  onSessionStart({ session, parent, labels }) {
    if (labels.label === "refused") throw new Error("no place");
    kept.set(session, { label: labels.label ?? parent, calls: 0 });
  },
  hooks: {
    seen: { point: "turn_finalized", run() {} },
    gate: { point: "before_turn", run: ({ session }) => slowly("hooked", session) },
  },
  async onIdle(session) {
    await slowly("decides", session);
    return kept.get(session).label !== "busy" && kept.get(session).label !== "slow" && kept.delete(session);
  },
});

await serve(plugin);
