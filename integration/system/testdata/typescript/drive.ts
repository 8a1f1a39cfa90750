// A client with the generated types drives a session: it opens one, follows it,
// answers an approval, reads the turn and the conversation, and is refused.
import createClient from "openapi-fetch";
import type { components, operations, paths } from "./lash.js";

declare const process: { argv: string[]; exitCode: number };

type Message = operations["watchEvents"]["responses"]["200"]["content"]["text/event-stream"];
type Problem = components["schemas"]["Problem"];

const [base, token] = [process.argv[2]!, process.argv[3]!];
const headers = { Authorization: `Bearer ${token}` };
const lash = createClient<paths>({ baseUrl: base, headers });

function got<T>(what: string, answer: { data?: T; error?: Problem }): T {
  if (answer.data === undefined) throw new Error(`${what}: ${answer.error?.code} ${answer.error?.detail}`);
  return answer.data;
}

/** Messages of a session from a cursor on. */
async function* watch(session: string, cursor: number, stop: AbortSignal): AsyncGenerator<Message> {
  const answer = await fetch(`${base}/v1/sessions/${session}/events?cursor=${cursor}`, { headers, signal: stop });
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

async function main() {
  const session = got("create", await lash.POST("/v1/sessions", { body: { labels: { team: "blue" } } })).id;
  const path = { session };
  const turn = got("submit", await lash.POST("/v1/sessions/{session}/turns", {
    params: { path }, body: { text: "what is 1+2?", when_busy: "enqueue" },
  }));
  if (!("status" in turn) || turn.status !== "pending") throw new Error("want a turn that waits or runs");

  const kinds: string[] = [];
  const stop = new AbortController();
  let commits = 0;
  for await (const message of watch(session, 0, stop.signal)) {
    if (message.event !== "commit") continue;
    commits = message.data.seq;
    for (const event of message.data.events) kinds.push(event.kind);
    if (kinds.at(-1) === "tool.approval_asked") {
      const waiting = got("approvals", await lash.GET("/v1/sessions/{session}/approvals", { params: { path } })).approvals;
      const answer = await lash.POST("/v1/sessions/{session}/approvals", {
        params: { path }, body: { call: waiting[0]!.call, granted: true, reason: "it adds" },
      });
      if (answer.error) throw new Error(`approve: ${answer.error.code}`);
    }
    if (kinds.includes("turn.completed")) break;
  }
  stop.abort();

  const ended = got("turn", await lash.GET("/v1/sessions/{session}/turns/{turn}", { params: { path: { session, turn: turn.turn } } }));
  if (!("outcome" in ended)) throw new Error("want the turn as a whole");
  const view = got("view", await lash.GET("/v1/sessions/{session}/view", { params: { path } }));
  const roles: components["schemas"]["Message"]["role"][] = view.messages.map((m) => m.role);
  const refused = await lash.POST("/v1/sessions/{session}/turns", { params: { path: { session: "nosuch" } }, body: { text: "x" } });
  console.log(JSON.stringify({
    outcome: ended.outcome, tools: ended.tool_calls.map((c) => c.tool), roles, seq: view.seq === commits,
    approved: kinds.includes("tool.approval_given"), refused: refused.error?.code,
  }));
}

main().catch((err: unknown) => {
  console.error(err);
  process.exitCode = 1;
});
