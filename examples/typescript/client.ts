// A client in TypeScript: it opens a session, asks for a turn, follows it, writes the reply while the model does, and approves
// the call that waits. After a lost connection it goes on from the last sequence that it has seen. Its README.md says how it is run.
import createClient from "openapi-fetch";
import type { components, operations, paths } from "./lash.js";

declare const process: {
  argv: string[]; env: Record<string, string | undefined>; exitCode: number; stdout: { write(text: string): void };
};

type Message = operations["watchEvents"]["responses"]["200"]["content"]["text/event-stream"];
type Delta = Extract<Message, { event: "delta" }>["data"];
type Commit = Extract<Message, { event: "commit" }>["data"];
type Part = { kind: string; text?: string };
type Problem = components["schemas"]["Problem"];

const base = process.env["LASH_URL"] ?? "http://127.0.0.1:8080";
const headers = { Authorization: `Bearer ${process.env["LASH_TOKEN"]}` };
const lash = createClient<paths>({ baseUrl: base, headers });

/** What the node refuses: to ask again would be no use. */
class Refused extends Error {}

function got<T>(what: string, answer: { data?: T; error?: Problem }): T {
  if (answer.data === undefined) throw new Refused(`${what}: ${answer.error?.code} ${answer.error?.detail}`);
  return answer.data;
}

/** Messages of a stream of server-sent events. */
async function* messages(answer: Response): AsyncGenerator<Message> {
  let rest = "";
  for await (const chunk of answer.body!.pipeThrough(new TextDecoderStream()) as unknown as AsyncIterable<string>) {
    const blocks = (rest + chunk).split("\n\n");
    rest = blocks.pop()!;
    for (const block of blocks) {
      const field = (name: string) => block.split("\n").find((line) => line.startsWith(name + ": "))?.slice(name.length + 2);
      if (field("event")) yield { event: field("event"), id: field("id"), data: JSON.parse(field("data")!) } as Message;
    }
  }
}

/** Messages of a session from its beginning on, over as many connections as that takes. */
async function* follow(session: string): AsyncGenerator<Message> {
  for (let seen = 0; ; await new Promise((resolve) => setTimeout(resolve, 200))) {
    try {
      const answer = await fetch(`${base}/v1/sessions/${session}/events`, { headers: { ...headers, "Last-Event-ID": `${seen}` } });
      if (!answer.ok) throw new Refused(`follow: ${((await answer.json()) as Problem).detail}`);
      for await (const message of messages(answer)) {
        if (message.event === "commit") seen = message.data.seq;
        yield message;
      }
    } catch (err) {
      if (err instanceof Refused) throw err;
    }
    console.log(`the connection is lost after sequence ${seen}`);
  }
}

/** The reply that is being written. Its commit counts: it has what was not streamed, and a repeated model call begins anew. */
class Live {
  private of = "";
  private text = "";

  piece(delta: Delta) {
    if (delta.kind !== "text" || !delta.text) return;
    const of = `${delta.turn} ${delta.iteration} ${delta.call} ${delta.attempt}`;
    if (of !== this.of) this.end(this.text);
    process.stdout.write(delta.text);
    this.of = of;
    this.text += delta.text;
  }

  /** Ends the line of the reply, with the rest of the whole text. */
  end(whole: string) {
    if (this.text && !whole.startsWith(this.text)) {
      console.log(" (cut off)");
      this.text = "";
    }
    if (whole) console.log(whole.slice(this.text.length));
    this.of = this.text = "";
  }
}

/** The text of the model's reply in a commit; empty where it has none. */
function reply(commit: Commit): string {
  const replied = commit.events.find((event) => event.kind === "model.replied")?.payload as { parts?: Part[] } | undefined;
  return (replied?.parts ?? []).filter((part) => part.kind === "text").map((part) => part.text).join("");
}

async function main(text: string) {
  const session = got("create", await lash.POST("/v1/sessions", { body: {} })).id;
  const path = { session };
  const turn = got("submit", await lash.POST("/v1/sessions/{session}/turns", { params: { path }, body: { text, when_busy: "enqueue" } }));
  if (!("status" in turn) || turn.status !== "pending") throw new Refused("want a turn that waits or runs");

  const live = new Live();
  for await (const message of follow(session)) {
    if (message.event === "delta") live.piece(message.data);
    if (message.event !== "commit") continue;
    if (message.data.events.some((event) => event.kind.startsWith("model."))) live.end(reply(message.data));
    const kinds = message.data.events.map((event) => event.kind);
    console.log(`${message.data.seq} ${kinds.join(" ")}`);
    if (kinds.includes("tool.approval_asked")) {
      for (const waiting of got("approvals", await lash.GET("/v1/sessions/{session}/approvals", { params: { path } })).approvals) {
        console.log(`${waiting.question} yes`);
        const body = { call: waiting.call, granted: true, reason: "it is a friendly letter" };
        const answer = await lash.POST("/v1/sessions/{session}/approvals", { params: { path }, body });
        if (answer.error) throw new Refused(`approve: ${answer.error.detail}`);
      }
    }
    if (kinds.includes("turn.completed")) break;
  }
  const ended = got("turn", await lash.GET("/v1/sessions/{session}/turns/{turn}", { params: { path: { session, turn: turn.turn } } }));
  console.log(JSON.stringify("outcome" in ended ? ended.outcome : ended));
}

main(process.argv.slice(2).join(" ")).catch((err: unknown) => {
  console.error(err instanceof TypeError ? `${err}: is a node at ${base}? lash-node serve --http starts one; LASH_URL names another` : String(err));
  process.exitCode = 1;
});
