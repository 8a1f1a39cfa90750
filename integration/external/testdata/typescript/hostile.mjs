// A plugin whose tools and hooks throw what no program expects.
import { definePlugin, serve, tool } from "@lash/plugin";

const thrown = {
  floating() {
    void Promise.reject(new Error("nothing waits"));
    void Promise.reject(Object.create(null));
    return "floating";
  },
  bare() {
    throw Object.create(null);
  },
  long() {
    throw new Error("x".repeat(2 << 20));
  },
};

await serve(definePlugin({
  name: "notes",
  version: "1",
  tools: { throws: tool({ schema: { type: "object", properties: { what: { type: "string" } } }, run: ({ what }) => thrown[what]() }) },
  hooks: { gate: { point: "before_turn", run: ({ input }) => void thrown[input]() } },
}));
