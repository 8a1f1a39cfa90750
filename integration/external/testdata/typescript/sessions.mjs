// A plugin that keeps a number of calls for each session.
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
  onIdle(session) {
    return kept.get(session).label !== "busy" && kept.delete(session);
  },
});

await serve(plugin);
