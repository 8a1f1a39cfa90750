// One look: what a session did, why it stopped, what it cost and what it waits for.

import { count, duration, endOf, plural, short, total } from "./format.js";
import { cost, money } from "./prices.js";

// headline is {tone, text, detail}: the state in a sentence.
export function headline(look, now = Date.now()) {
  const asks = look.pending(), turn = look.running(), last = look.lastEnded();
  if (look.closed) return { tone: "idle", text: "Closed", detail: look.closed.reason ? `by ${look.closed.by}: ${look.closed.reason}` : `by ${look.closed.by}` };
  if (asks.length) return { tone: "ask", text: asks.length === 1 ? `Waits for your answer: may ${asks[0].tool} run?` : `Waits for ${plural(asks.length, "answer")}`, detail: short(asks[0].question) };
  if (turn) {
    const since = (look.live ? now : look.event?.at ?? now) - turn.startedAt;
    const calls = turn.toolCalls.filter((c) => c.seq <= look.seq && !(c.endedSeq && c.endedSeq <= look.seq));
    const doing = turn.cancel && turn.cancel.seq <= look.seq ? "Stopping" : calls.length ? `Runs ${calls.map((c) => c.tool).slice(0, 3).join(", ")}` : "The model writes";
    return { tone: "run", text: doing, detail: `turn ${turn.index + 1}, for ${duration(Math.max(since, 0))}${takeovers(turn)}` };
  }
  const waiting = look.turns().filter((t) => ["waiting", "scheduled"].includes(look.statusOf(t)));
  if (waiting.length) {
    const due = waiting.find((t) => t.dueAt);
    return { tone: "wait", text: due ? `Starts at ${new Date(due.dueAt).toLocaleString("en-GB")}` : `${plural(waiting.length, "turn")} ${waiting.length === 1 ? "waits" : "wait"} for a worker`, detail: "" };
  }
  if (!last) return { tone: "idle", text: "Nothing was asked yet", detail: "" };
  const [text, tone] = endOf(last.end);
  const why = last.issue ? [last.issue.kind, last.issue.code, last.issue.message].filter(Boolean).join(": ") : last.cancel ? `asked by ${last.cancel.by}${last.cancel.reason ? `: ${last.cancel.reason}` : ""}` : "";
  return { tone: tone === "good" ? "done" : tone, text: `Last turn: ${text}`, detail: short(why, 240) };
}

const takeovers = (t) => (t.attempts.length > 1 ? `, attempt ${t.attempts.length}` : "");

// facts are the numbers of a session: [name, text, explanation].
export function facts(look) {
  const turns = look.turns();
  let models = 0, tools = 0, busy = 0;
  for (const t of turns) {
    for (const c of t.modelCalls) if (c.seq <= look.seq) models++;
    for (const c of t.toolCalls) if (c.seq <= look.seq) tools++;
    if (t.startedSeq && t.startedSeq <= look.seq) busy += (t.endedSeq && t.endedSeq <= look.seq ? t.endedAt : look.event?.at ?? t.startedAt) - t.startedAt;
  }
  let tokens = 0, input = 0, output = 0, cached = 0;
  for (const u of look.usage.values()) {
    tokens += total(u);
    input += u.input ?? 0;
    output += u.output ?? 0;
    cached += u.cache_read ?? 0;
  }
  const price = cost(look.usage);
  return [
    ["Turns", String(turns.length), "turns that were asked for"],
    ["Model calls", String(models), "calls of a model, failed ones too"],
    ["Tool calls", String(tools), "calls that models asked for"],
    ["Tokens", count(tokens), `${input.toLocaleString("en")} in, ${output.toLocaleString("en")} out, ${cached.toLocaleString("en")} from the cache`],
    ["Cost", money(price), price.missing.length ? `no price is known of ${price.missing.join(", ")}` : "by the prices of this server"],
    ["Busy", duration(busy), "time in which a turn ran or waited for an answer"],
  ];
}
