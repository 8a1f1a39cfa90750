// What the types of the SDK accept and refuse: each expected error must be one.
import { abortTurn, contribute, definePlugin, enqueueMessages, Failure, replaceToolArgs, switchFrame, systemPrompt, tool } from "@lash/plugin";
import type { Attachment } from "@lash/plugin";
import type { Registration } from "@lash/plugin/wire";

const typed = tool({
  schema: {
    type: "object",
    properties: { text: { type: "string" }, count: { type: "integer" }, tags: { type: "array", items: { type: "string" } }, mode: { enum: ["a", "b"] } },
    required: ["text", "tags"],
  },
  run(args, call) {
    const text: string = args.text;
    const count: number | undefined = args.count;
    const mode: "a" | "b" | undefined = args.mode;
    // @ts-expect-error a list of texts
    const tags: number[] = args.tags;
    // @ts-expect-error not in the schema
    args.other;
    // @ts-expect-error not a stream
    call.print(text, "paper");
    // @ts-expect-error an attachment is bytes, or a digest and a size
    const half: Attachment = { mediaType: "image/png", digest: text };
    const whole: Attachment[] = [{ mediaType: "image/png", digest: text, size: 1 }, { mediaType: "image/png", data: new Uint8Array(1) }, half];
    void call.storeBody(new Uint8Array(1)).then(({ digest, size }): Promise<Uint8Array> => call.readBody(digest + size));
    return { text: `${count} ${mode} ${tags}`, control: "finish", attachments: whole };
  },
});

definePlugin({
  name: "typed",
  version: "1",
  tools: { typed },
  hooks: {
    good: { point: "before_tool_call", run: ({ call }) => [abortTurn("no"), replaceToolArgs(call.args)] },
    model: {
      point: "before_model_call",
      run: ({ iteration, lastPrompt, window, invocation }) =>
        lastPrompt > window * 0.9 ? switchFrame(invocation, "Go on.", { role: "user", text: "so far" }) : [contribute({ slot: "guidance", content: `${iteration}` }), systemPrompt("Be brief.")],
    },
    // @ts-expect-error a directive of another point
    early: { point: "before_turn", run: () => systemPrompt("Be brief.") },
    // @ts-expect-error a directive of another point
    bad: { point: "after_turn", run: () => replaceToolArgs({}) },
    // @ts-expect-error an observing hook has no directives
    observes: { point: "turn_finalized", run: () => enqueueMessages() },
    custom: { point: "custom.saved", run: ({ data }) => void data },
  },
});

// @ts-expect-error not a class of failures
new Failure("no", { class: "sad" });
// @ts-expect-error a tool returns text or a result
tool({ schema: { type: "object" }, run: () => 7 });

export const registration: Registration = { protocol: 1, instance: "i", manifest: { version: "1", tools: [] } };
