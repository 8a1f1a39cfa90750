// A plugin that keeps a number of calls for each session.
import { setTimeout as sleep } from "node:timers/promises";
import { definePlugin, serve, tool } from "@lash/plugin";

const kept = new Map();

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
    gate: { point: "before_turn", run: ({ session }) => (["slow", "ends"].includes(kept.get(session)?.label) ? sleep(500) : undefined) },
  },
  async onIdle(session) {
    if (["slow", "ends"].includes(kept.get(session).label)) await sleep(500);
    return kept.get(session).label !== "busy" && kept.get(session).label !== "slow" && kept.delete(session);
  },
});

await serve(plugin);
