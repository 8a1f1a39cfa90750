// One look: what a session did, why it stopped, what it cost and what it waits for.

import { cancelled, count, duration, endOf, person, plural, short, takeovers, total } from "./format.js";
import { cost, money } from "./prices.js";

// headline is {tone, text, detail}: the state in a sentence.
export function headline(look, now = Date.now()) {
  const asks = look.pending(), turn = look.running(), last = look.lastEnded();
  if (look.closed) return { tone: "idle", text: "Closed", detail: `by ${person(look.closed.by)}${look.closed.reason ? `: ${look.closed.reason}` : ""}` };
  if (asks.length) return { tone: "ask", text: asks.length === 1 ? `Waits for your answer: may ${asks[0].tool} run?` : `Waits for ${plural(asks.length, "answer")}`, detail: short(asks[0].question), since: `for ${duration(Math.max((look.live ? now : look.event?.at ?? now) - asks[0].at, 0))}` };
  if (turn) {
    const since = (look.live ? now : look.event?.at ?? now) - turn.startedAt;
    const calls = turn.toolCalls.filter((c) => c.seq <= look.seq && !(c.endedSeq && c.endedSeq <= look.seq));
    const doing = turn.cancel && turn.cancel.seq <= look.seq ? "Stopping" : calls.length ? `Runs ${calls.map((c) => c.tool).slice(0, 3).join(", ")}` : "The model writes";
    return { tone: "run", text: doing, detail: `turn ${turn.index + 1}${takeovers(turn) ? `, ${plural(takeovers(turn), "takeover")}` : ""}`, since: `for ${duration(Math.max(since, 0))}` };
  }
  const waiting = look.turns().filter((t) => ["waiting", "scheduled"].includes(look.statusOf(t)));
  if (waiting.length) {
    const due = waiting.find((t) => t.dueAt);
    return { tone: "wait", text: due ? `Starts at ${new Date(due.dueAt).toLocaleString("en-GB")}` : `${plural(waiting.length, "turn")} ${waiting.length === 1 ? "waits" : "wait"} for a worker`, detail: "" };
  }
  if (!last) return { tone: "idle", text: "Nothing was asked yet", detail: "" };
  const [text, tone] = endOf(last.end);
  const why = last.issue ? [last.issue.kind, last.issue.code, last.issue.message].filter(Boolean).join(": ") : cancelled(last);
  return { tone: tone === "good" ? "done" : tone, text: `Last turn: ${text}`, detail: short(why, 240) };
}

// failures are the calls that failed or were lost up to a sequence, in the order of their ends: {seq, key, event}, with the key of
// its row in the timeline.
export function failures(look) {
  const list = [];
  for (const t of look.turns()) {
    for (const c of t.modelCalls) if (c.seq <= look.seq && c.kind === "failed") list.push({ seq: c.seq, key: `m:${t.id}/${c.iteration}/${c.seq}`, event: c.event, model: true });
    for (const c of t.toolCalls) if (["failure", "lost"].includes(look.callState(c))) list.push({ seq: c.endedSeq, key: `c:${c.id}`, event: c.event, lost: c.outcome === "lost" });
  }
  return list.sort((a, b) => a.seq - b.seq);
}

// facts are the numbers of a session: [name, text, explanation, what a press on it shows].
export function facts(look) {
  const turns = look.turns(), failed = failures(look), wrong = (n, word) => (n ? `, ${n} ${word}` : "");
  let models = look.history.outside.filter((o) => o.call && o.seq <= look.seq).length, tools = 0, took = 0, asked = 0;
  for (const t of turns) {
    for (const c of t.modelCalls) if (c.seq <= look.seq) models++;
    for (const c of t.toolCalls) if (c.seq <= look.seq) tools++;
    if (t.startedSeq && t.startedSeq <= look.seq) took += (t.endedSeq && t.endedSeq <= look.seq ? t.endedAt : look.event?.at ?? t.startedAt) - t.startedAt;
  }
  for (const a of look.history.approvals.values()) if (a.seq <= look.seq) asked += (a.givenSeq && a.givenSeq <= look.seq ? a.givenAt : Math.max(look.event?.at ?? a.at, a.at)) - a.at;
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
    ["Model calls", `${models}${wrong(failed.filter((f) => f.model).length, "failed")}`, "calls of a model, failed ones too", failed.some((f) => f.model) && "failure"],
    ["Tool calls", `${tools}${wrong(failed.filter((f) => !f.model && !f.lost).length, "failed")}${wrong(failed.filter((f) => f.lost).length, "lost")}`, "calls that models asked for; a lost one may have run or not", failed.some((f) => !f.model) && "failure"],
    ["Tokens", count(tokens), `${input.toLocaleString("en")} in, ${output.toLocaleString("en")} out, ${cached.toLocaleString("en")} from the cache`],
    ["Cost", money(price), price.missing.length ? `no price is known of ${price.missing.join(", ")}` : "by the prices of this server"],
    ["Took", `${duration(took)}${asked ? `, ${duration(asked)} for answers` : ""}`, "from the start of each turn to its end; the second number is the time in which calls waited for an answer"],
  ];
}

// signed is how much of a session signed heads cover, and what this browser checked of that. Sessions without heads have nothing.
export function signed(look, proofs) {
  const { head } = look;
  if (!head) return [];
  const wrong = proofs.wrong && proofs.wrong <= look.seq;
  return [["Signed", wrong ? `a wrong head at ${proofs.wrong}` : head.seq >= look.seq ? "all commits" : `up to ${head.seq} of ${look.seq}`,
    wrong ? "a signature is wrong" : `${proofs.checked ? `this browser checked signatures up to ${Math.min(proofs.checked, head.seq)}` : "this browser checked no signature"}; press for what that proves`, "lastHead", wrong ? "" : "plain"]];
}
