// Texts for people.

export const plural = (n, word, many = `${word}s`) => `${n.toLocaleString("en")} ${n === 1 ? word : many}`;

// duration of milliseconds, with two digits that matter.
export function duration(ms) {
  if (!(ms >= 0)) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000), minutes = Math.round(ms / 60_000), hours = Math.round(ms / 3_600_000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

export function ago(ms, now = Date.now()) {
  const past = now - ms;
  if (past < 5_000) return "now";
  if (past < 60_000) return `${Math.round(past / 1000)} s ago`;
  if (past < 3_600_000) return `${Math.round(past / 60_000)} min ago`;
  if (past < 86_400_000) return `${Math.round(past / 3_600_000)} h ago`;
  return new Date(ms).toISOString().slice(0, 10);
}

export const clock = (ms) => (ms ? new Date(ms).toLocaleTimeString("en-GB", { hour12: false }) : "");
export const moment = (ms) => (ms ? new Date(ms).toISOString().replace("T", " ").slice(0, 23) : "");

export function count(n) {
  if (n < 1000) return String(n);
  if (n < 1_000_000) return `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k`;
  return `${(n / 1_000_000).toFixed(1)}M`;
}

export function bytes(n) {
  if (n < 1024) return `${n} B`;
  if (n < 1 << 20) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / (1 << 20)).toFixed(1)} MiB`;
}

export const total = (u) => (u ? (u.input ?? 0) + (u.output ?? 0) + (u.cache_read ?? 0) + (u.cache_write ?? 0) : 0);

// json shows a value on several lines; a text stays a text.
export const json = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

// short is a value on one line.
export function short(value, most = 120) {
  const text = (typeof value === "string" ? value : JSON.stringify(value) ?? "").slice(0, most * 4).replace(/\s+/g, " ").trim();
  return text.length > most ? `${text.slice(0, most)}\u2026` : text;
}

// person is an actor for people: callers by their name alone.
export const person = (actor) => String(actor ?? "").replace(/^client:/, "");

// said is what the parts of a message say, on one line.
export const said = (parts, most = 120) => short((parts ?? []).map((p) => p.text || (p.tool ? `${p.tool}(\u2026)` : p.blob?.size ? `a text of ${bytes(p.blob.size)}` : p.kind ?? "")).join(" "), most);

// takeovers counts the claims of a turn by another node, without those that continue it after an answer.
export const takeovers = (t) => t.attempts.slice(1).filter((a) => !a.answered).length;

// cancelled says who cancelled a turn, and why.
export const cancelled = (t) => (t.end === "cancelled" && t.cancel ? `by ${person(t.cancel.by)}${t.cancel.reason ? `: ${t.cancel.reason}` : ""}` : "");

// ENDS are the ends of turns in words, with their tone.
const ENDS = new Map([
  ["finished", ["finished", "good"]], ["tool_value", ["ended with a tool's value", "good"]], ["submitted_value", ["submitted a value", "good"]],
  ["frame_switch", ["continues in a new frame", "good"]], ["cancelled", ["cancelled", "warn"]], ["incomplete", ["incomplete", "warn"]],
  ["invalid_input", ["invalid input", "bad"]], ["max_turns", ["limit of model calls", "warn"]], ["provider_error", ["the provider failed", "bad"]],
  ["runtime_error", ["the runtime failed", "bad"]], ["tool_error", ["a tool ended it", "bad"]], ["plugin_abort", ["a plugin aborted it", "bad"]],
  ["failed", ["failed", "bad"]], ["rejected", ["refused: another turn ran", "warn"]], ["injected", ["joined another turn", "good"]], ["branched", ["continues in a branch", "good"]],
]);

export const endOf = (end) => ENDS.get(end) ?? [String(end), "warn"];

// redactedBy says who removed the payload of an event, when and why.
export function redactedBy(e) {
  const r = e.redaction;
  return r ? `redacted by ${r.by}, ${moment(Date.parse(r.time))}: ${r.reason}` : "redacted; by whom and why is not recorded";
}
