// The fold of a session's commits, and what it looked like at any sequence. It follows package projector.
//
// Everything keeps the sequence at which it began and ended, so a look at an earlier sequence folds nothing again.

const none = Object.freeze([]);

// ids are the default ids of a turn's messages.
const ids = { user: (turn) => `u-${turn}`, reply: (turn, n) => `a-${turn}-${n}`, results: (turn, n) => `r-${turn}-${n}` };

export class History {
  constructor(session) {
    this.session = session;
    this.seq = 0; // of the last commit
    this.base = 0; // commits up to it are not here: a view took their place
    this.left = 0; // messages of that view that are not here
    this.events = [];
    this.nodes = new Map();
    [this.order, this.roots] = [[], []]; // all nodes, and those without a parent
    this.leaf = null;
    this.leaves = []; // {seq, leaf, frame}
    this.frames = [];
    this.turns = new Map();
    this.running = null;
    this.modelCalls = [];
    this.toolCalls = new Map(); // by TURN/ITERATION/INDEX
    this.approvals = new Map(); // by the id of the call
    this.inputs = new Map();
    this.tasks = new Map();
    this.configs = [];
    this.catalogs = [];
    this.prepared = [];
    this.heads = [];
    this.usage = []; // {seq, of: sums by model}
    this.outside = []; // what was paid for outside of turns: {seq, at, what, millis, usage: sums by model}
    this.children = new Map();
    this.opened = null;
    this.closed = null;
    this.unknown = 0;
    this.redacted = []; // events without payload
  }

  // seed begins with the last messages of a view, as GET /view returns it, instead of the commits up to it.
  seed(view, most = Infinity) {
    this.seq = this.base = view.seq;
    this.frames = [{ id: view.frame || `${this.session}:frame:initial`, seq: view.seq, reason: "initial", seeds: 0, keep: "" }];
    const messages = new Map(view.messages.map((m) => [m.id, m]));
    this.left = Math.max(view.nodes.length - most, 0);
    for (const n of view.nodes.slice(this.left)) {
      const m = messages.get(n.message);
      const parts = m?.parts.map((p) => ({ ...p, kind: p.type, call: p.call_id }));
      this.#append({ id: n.id, kind: n.kind, role: m?.role, parts, stop: m?.stop, origin: m?.origin, type: n.type, body: n.body, blob: n.blob, turn: n.turn, at: n.at_ms }, view.seq);
    }
    this.configs.push({ seq: view.seq, config: view.config });
    this.#moved(view.seq);
  }

  // apply folds the next commit. It returns false for one that is known.
  apply(commit) {
    if (commit.seq <= this.seq) return false;
    this.seq = commit.seq;
    const leaf = this.leaf, frames = this.frames.length;
    for (const e of commit.events) {
      const event = { seq: e.seq, pos: e.pos, at: Date.parse(e.time), kind: e.kind, turn: e.turn, actor: e.actor, cause: e.cause, id: e.id, version: e.version, payload: e.payload, redacted: e.redacted, redaction: e.redaction };
      this.events.push(event);
      const fold = FOLDS.get(e.kind);
      if (e.redacted) {
        this.redacted.push(event);
        continue; // it folds to nothing, as at the server
      }
      if (fold) fold(this, e.payload ?? {}, event);
      else if (e.payload === undefined) this.unknown++;
    }
    if (leaf !== this.leaf || frames !== this.frames.length) this.#moved(commit.seq);
    return true;
  }

  #moved(seq) { this.leaves.push({ seq, leaf: this.leaf, frame: this.frames.length - 1 }); }

  #append(node, seq) {
    node.parent = this.leaf;
    node.seq = seq;
    node.frame = Math.max(this.frames.length - 1, 0);
    node.index = this.order.length;
    node.depth = (node.parent?.depth ?? -1) + 1;
    (node.parent ? (node.parent.children ??= []) : this.roots).push(node);
    this.order.push(node);
    this.nodes.set(node.id, node);
    this.leaf = node;
    return node;
  }

  message(e, message, more = {}) {
    return this.#append({ id: message.id, kind: "message", role: message.role, parts: message.parts ?? none, stop: message.stop, origin: message.origin, turn: more.turn ?? e.turn, at: e.at, ...more }, e.seq);
  }

  add(e, list) {
    for (const n of list ?? none) {
      if (n.kind === "message" && n.message) this.message(e, { ...n.message, id: n.id });
      else this.#append({ id: n.id, kind: n.kind, type: n.type, body: n.body, blob: n.blob, turn: e.turn, at: e.at }, e.seq);
    }
  }

  turn(id) {
    let t = this.turns.get(id);
    if (!t) {
      t = { id, index: this.turns.size, requestedSeq: 0, requestedAt: 0, dueAt: 0, startedSeq: 0, startedAt: 0, endedSeq: 0, endedAt: 0, end: "", issue: null, attempts: [], iteration: 0, replied: null, calls: [], modelCalls: [], toolCalls: [], cancel: null, by: "", input: null };
      this.turns.set(id, t);
    }
    return t;
  }

  live(e) { return this.running?.id === e.turn ? this.running : null; }

  // finish adds the message of results once each call of the reply has one.
  finish(t, e, id) {
    if (!t.calls.length || t.calls.some((c) => !c.endedSeq)) return;
    const parts = t.calls.flatMap((c) => [{ kind: "tool_result", call: c.callId, tool: c.tool, text: c.result.text, blob: c.result.blob, outcome: c.result.outcome }, ...(c.result.attachments ?? none)]);
    this.message(e, { id: id || ids.results(t.id, t.iteration), role: "user", parts }, { turn: t.id, results: t.calls });
    t.iteration++;
    t.replied = null;
    t.calls = [];
  }

  ended(t, calls, e, id) {
    for (const [index, result] of calls) {
      const c = t.calls[index];
      if (!c || c.endedSeq) continue;
      Object.assign(c, { endedSeq: e.seq, endedAt: e.at, event: e, outcome: result.outcome || "success", millis: result.millis ?? 0, result });
    }
    this.finish(t, e, id);
  }

  charge(e, model, ...list) {
    const last = this.usage.at(-1);
    const sums = new Map(last?.sums);
    let some = false;
    for (const u of list) {
      if (!u) continue;
      some = true;
      const was = sums.get(model) ?? {};
      const sum = { ...was };
      for (const k of USAGE) if (u[k]) sum[k] = (was[k] ?? 0) + u[k];
      sums.set(model, sum);
    }
    if (!some) return;
    if (last?.seq === e.seq) last.sums = sums;
    else this.usage.push({ seq: e.seq, sums });
  }

  // at is the session at a sequence.
  at(seq = this.seq) { return new Look(this, Math.max(Math.min(seq, this.seq), this.base)); }

  // last is the index of the last entry of a list up to a sequence; -1 where there is none.
  static last(list, seq) {
    let low = -1, high = list.length - 1;
    while (low < high) {
      const mid = (low + high + 1) >> 1;
      if (list[mid].seq <= seq) low = mid;
      else high = mid - 1;
    }
    return low;
  }
}

export const USAGE = ["input", "output", "cache_read", "cache_write", "reasoning"];

// inputParts drops empty texts, as the fold does.
function inputParts(input) {
  const parts = (input?.parts ?? none).filter((p) => p.kind !== "text" || p.text || p.blob);
  return parts.length ? parts : [{ kind: "text", text: "" }];
}

function fallenCall(h, p, e, kind) {
  const t = h.live(e);
  if (!t) return;
  const call = { kind, turn: t.id, iteration: p.iteration ?? 0, seq: e.seq, at: e.at, millis: p.millis ?? 0, usage: p.usage, provider: p.provider, model: p.model ?? "", prompt: p.prompt, attempts: p.attempts || 1, error: p.error, message: p.message, parts: p.parts, event: e };
  h.modelCalls.push(call);
  t.modelCalls.push(call);
  h.charge(e, priced(p), p.usage);
}

// answered notes that the next claim of a turn continues it after an answer, and takes it over from no node.
function answered(h, turn) {
  const t = h.turns.get(turn);
  if (t) t.answered = true;
}

// priced is the name under which usage is summed: the provider and the model.
const priced = (p) => `${p.provider ?? ""}\n${p.model ?? ""}`;

const FOLDS = new Map(Object.entries({
  "session.opened"(h, p, e) {
    h.opened = { ...p, seq: e.seq, at: e.at, actor: e.actor };
    h.frames = [{ id: `${h.session}:frame:initial`, reason: "initial", seq: e.seq, at: e.at, keep: "", seeds: 0 }];
    h.configs.push({ seq: e.seq, config: p.config ?? {} });
  },
  "session.configured": (h, p, e) => h.configs.push({ seq: e.seq, config: p.config ?? {} }),
  "session.closed": (h, p, e) => { h.closed = { seq: e.seq, at: e.at, reason: p.reason, by: e.actor }; },
  "graph.appended": (h, p, e) => h.add(e, p.nodes),
  "graph.branched"(h, p) { h.leaf = h.nodes.get(p.leaf) ?? null; },
  "frame.opened"(h, p, e) {
    if (h.frames.at(-1)?.id === p.frame) return;
    h.frames.push({ id: p.frame, reason: p.reason, keep: p.keep ?? "", seeds: p.nodes?.length ?? 0, seq: e.seq, at: e.at });
    h.add(e, p.nodes);
  },
  "turn.requested"(h, p, e) {
    const t = h.turn(e.turn);
    Object.assign(t, { input: p.input, requestedSeq: t.requestedSeq || e.seq, requestedAt: t.requestedAt || e.at, queuedSeq: e.seq, actor: t.actor ?? e.actor, root: p.root, busy: p.busy });
  },
  "turn.scheduled"(h, p, e) { Object.assign(h.turn(e.turn), { input: p.input, dueAt: Date.parse(p.at), requestedSeq: e.seq, requestedAt: e.at, actor: e.actor }); },
  "turn.started"(h, p, e) {
    const t = h.turn(e.turn);
    if (h.running === t) {
      t.attempts.push({ seq: e.seq, at: e.at, worker: p.worker, n: p.attempt, answered: t.answered });
      t.answered = false;
      return;
    }
    if (h.running || t.startedSeq || !t.requestedSeq) return; // the request of a turn may be redacted
    h.running = t;
    Object.assign(t, { startedSeq: e.seq, startedAt: e.at, attempts: [{ seq: e.seq, at: e.at, worker: p.worker, n: p.attempt }] });
    if (t.input && !t.input.continue) h.message(e, { id: p.message || ids.user(t.id), role: "user", parts: inputParts(t.input) }, { turn: t.id, by: t.actor });
  },
  "turn.cancel_requested"(h, p, e) { h.turn(e.turn).cancel ??= { ...p, seq: e.seq, at: e.at, by: e.actor }; },
  "turn.completed"(h, p, e) {
    const t = h.turn(e.turn);
    if (t.endedSeq) return;
    if (h.running === t) {
      if (p.notice) h.message(e, { id: p.notice, role: "system", parts: [{ kind: "text", text: `turn limit reached (${h.configs.at(-1)?.config.max_iterations ?? 0})` }] });
      h.running = null;
    }
    Object.assign(t, { endedSeq: e.seq, endedAt: e.at, end: p.end, issue: p.issue ?? null });
    t.leaf = h.leaf?.id;
  },
  "turn.diverted"(h, p, e) {
    const t = h.turn(e.turn);
    if (t.endedSeq || t.startedSeq) return;
    if (p.end === "injected") h.message(e, { id: p.message || ids.user(t.id), role: "user", parts: inputParts(t.input) }, { turn: p.by, by: t.actor });
    Object.assign(t, { endedSeq: e.seq, endedAt: e.at, end: p.end, by: p.by, branch: p.session });
  },
  "turn.prepared": (h, p, e) => h.prepared.push({ seq: e.seq, turn: e.turn, ...p }),
  "model.replied"(h, p, e) {
    const t = h.live(e), n = p.iteration ?? 0;
    if (!t || t.replied || n !== t.iteration) return;
    h.charge(e, priced(p), p.usage, p.spent);
    const call = { kind: "reply", turn: t.id, iteration: n, seq: e.seq, at: e.at, millis: p.millis ?? 0, usage: p.usage, spent: p.spent, provider: p.provider, model: p.model ?? "", stop: p.stop, prompt: p.prompt, attempts: p.attempts || 1, failed: p.failed, fault: p.fault, event: e };
    h.modelCalls.push(call);
    t.modelCalls.push(call);
    const calls = (p.parts ?? none).filter((x) => x.kind === "tool_call").map((x, i) => ({ id: `${t.id}/${n}/${i}`, turn: t.id, iteration: n, index: i, callId: x.call, tool: x.tool, args: x.args, blob: x.blob, seq: e.seq, at: e.at, begunSeq: 0, endedSeq: 0, outcome: "", millis: 0, result: null, waits: null }));
    for (const c of calls) { h.toolCalls.set(c.id, c); t.toolCalls.push(c); }
    t.calls = calls;
    if (p.parts?.length) {
      const stop = p.stop === "stop" || p.stop === "tool_use" ? undefined : p.stop;
      call.node = h.message(e, { id: p.message || ids.reply(t.id, n), role: "assistant", parts: p.parts, stop }, { turn: t.id, reply: call, calls, shown: p.shown });
    }
    if (calls.length) t.replied = call;
    else t.iteration++;
  },
  "model.failed"(h, p, e) { fallenCall(h, p, e, "failed"); },
  "model.interrupted"(h, p, e) { fallenCall(h, p, e, "interrupted"); },
  "model.completed"(h, p, e) {
    h.charge(e, priced(p), p.usage);
    h.outside.push({ seq: e.seq, at: e.at, what: p.source || "completion", call: true, millis: p.millis ?? 0, usage: new Map([[priced(p), p.usage ?? {}]]) });
  },
  "usage.charged"(h, p, e) {
    const before = h.children.get(p.child) ?? new Map(), now = new Map(), usage = new Map();
    for (const entry of p.entries ?? none) {
      const was = before.get(entry.model ?? "") ?? {};
      now.set(entry.model ?? "", entry.usage);
      const more = Object.fromEntries(USAGE.map((k) => [k, (entry.usage[k] ?? 0) - (was[k] ?? 0)]));
      h.charge(e, priced(entry), more);
      usage.set(priced(entry), more);
    }
    h.outside.push({ seq: e.seq, at: e.at, what: `child session ${p.child}`, millis: 0, usage });
    h.children.set(p.child, now);
  },
  "tool.state_applied": (h, p, e) => h.catalogs.push({ seq: e.seq, generation: p.generation, tools: p.tools ?? none }),
  "tool.called"(h, p, e) {
    const t = h.live(e);
    if (t && t.iteration === (p.iteration ?? 0)) for (const i of p.calls) if (t.calls[i]) Object.assign(t.calls[i], { begunSeq: e.seq, begunAt: e.at });
  },
  "tool.returned"(h, p, e) {
    const t = h.live(e);
    if (t?.replied && t.iteration === (p.iteration ?? 0)) h.ended(t, (p.results ?? none).map((r) => [r.call ?? 0, r]), e, p.message);
  },
  "tool.lost"(h, p, e) {
    const t = h.live(e);
    if (t?.replied && t.iteration === (p.iteration ?? 0)) h.ended(t, p.calls.map((i) => [i, { call: i, outcome: "lost", text: LOST }]), e, p.message);
  },
  "tool.pended"(h, p, e) {
    const t = h.live(e);
    if (t) for (const i of p.calls) if (t.calls[i]) t.calls[i].pendedSeq = e.seq;
  },
  "tool.approval_asked"(h, p, e) {
    if (h.approvals.has(p.effect) && !h.approvals.get(p.effect).givenSeq) return;
    h.approvals.set(p.effect, { call: p.effect, tool: p.tool, args: p.args, blob: p.blob, plugin: p.plugin, question: p.question, until: p.until ? Date.parse(p.until) : 0, turn: e.turn, seq: e.seq, at: e.at, givenSeq: 0 });
  },
  "tool.approval_given"(h, p, e) {
    const a = h.approvals.get(p.effect);
    if (a && !a.givenSeq) Object.assign(a, { givenSeq: e.seq, givenAt: e.at, granted: p.granted === true, by: p.by || e.actor, reason: p.reason });
    answered(h, a?.turn);
  },
  "tool.resolved": (h, p) => answered(h, String(p.effect ?? "").split("/")[0]),
  "input.injected"(h, p, e) { if (!h.inputs.has(p.input)) h.inputs.set(p.input, { id: p.input, role: p.role, parts: p.parts ?? none, seq: e.seq, at: e.at, doneSeq: 0, caller: p.caller }); },
  "input.accepted"(h, p, e) {
    for (const id of p.inputs ?? none) {
      const input = h.inputs.get(id);
      if (!input || input.doneSeq) continue;
      input.doneSeq = e.seq;
      h.message(e, { id: `m_ingress_${id}`, role: input.role, parts: input.parts }, { turn: e.turn, by: input.caller });
    }
  },
  "input.cancelled"(h, p, e) {
    for (const id of p.inputs ?? none) if (h.inputs.has(id)) h.inputs.get(id).doneSeq ||= e.seq;
  },
  "task.registered": (h, p, e) => h.tasks.set(p.task, { id: p.task, of: p.of || "other", child: p.child, state: p.state || "pending", seq: e.seq, at: e.at, endedSeq: 0 }),
  "task.started"(h, p) { const t = h.tasks.get(p.task); if (t && !t.endedSeq) t.state = "running"; },
  "task.state_changed"(h, p) { const t = h.tasks.get(p.task); if (t && !t.endedSeq) t.state = p.state; },
  "task.ended"(h, p, e) { const t = h.tasks.get(p.task); if (t && !t.endedSeq) Object.assign(t, { state: p.state, endedSeq: e.seq, summary: p.summary }); },
  "audit.head_signed": (h, p, e) => h.heads.push({ seq: e.seq, at: e.at, payload: p, event: e }),
}));

const LOST = "[lost] The call was begun and its worker died. It may or may not have taken effect. It was not repeated.";

// Look is a session at a sequence.
export class Look {
  constructor(history, seq) {
    this.history = history;
    this.seq = seq;
    this.live = seq >= history.seq;
    const i = History.last(history.leaves, seq);
    this.leaf = i < 0 ? null : history.leaves[i].leaf;
    this.frame = i < 0 ? 0 : history.leaves[i].frame;
  }

  // path has the nodes of the active branch, from the first.
  path() {
    const list = [];
    for (let n = this.leaf; n; n = n.parent) list.push(n);
    return list.reverse();
  }

  // visible has the nodes that a prompt would have: those of the frame, and those that it keeps.
  visible() {
    const path = this.path(), frame = this.history.frames[this.frame];
    if (this.frame === 0 || !frame) return path;
    const own = [], kept = [];
    let keeping = false;
    for (const n of path) {
      if (n.frame === this.frame) own.push(n);
      else if (frame.keep && (keeping ||= n.id === frame.keep)) kept.push(n);
    }
    const seeds = Math.min(frame.seeds, own.length);
    return [...own.slice(0, seeds), ...kept, ...own.slice(seeds)];
  }

  get config() { return this.#lastOf(this.history.configs)?.config ?? {}; }
  get catalog() { return this.#lastOf(this.history.catalogs); }
  get usage() { return this.#lastOf(this.history.usage)?.sums ?? new Map(); }
  get event() { const { events } = this.history, i = History.last(events, this.seq); return i < 0 ? null : events[i]; }
  get head() { return this.#lastOf(this.history.heads); }
  get closed() { const c = this.history.closed; return c && c.seq <= this.seq ? c : null; }

  #lastOf(list) { const i = History.last(list, this.seq); return i < 0 ? null : list[i]; }

  // turns that were known, in the order of their requests.
  turns() { return [...this.history.turns.values()].filter((t) => (t.requestedSeq || t.startedSeq || t.endedSeq) <= this.seq); }

  statusOf(t) {
    if (t.endedSeq && t.endedSeq <= this.seq) return "ended";
    if (t.startedSeq && t.startedSeq <= this.seq) return this.pending().some((a) => a.turn === t.id) ? "asking" : "running";
    if (t.dueAt && !(t.queuedSeq && t.queuedSeq <= this.seq)) return "scheduled";
    return "waiting";
  }

  running() { for (const t of this.history.turns.values()) if (t.startedSeq && t.startedSeq <= this.seq && !(t.endedSeq && t.endedSeq <= this.seq)) return t; return null; }

  lastEnded() {
    let found = null;
    for (const t of this.history.turns.values()) if (t.endedSeq && t.endedSeq <= this.seq && t.startedSeq && (!found || t.endedSeq > found.endedSeq)) found = t;
    return found;
  }

  // pending has the approvals without an answer.
  pending() {
    this.asks ??= [...this.history.approvals.values()].filter((a) => {
      const t = this.history.turns.get(a.turn);
      return a.seq <= this.seq && !(a.givenSeq && a.givenSeq <= this.seq) && !(t?.endedSeq && t.endedSeq <= this.seq);
    });
    return this.asks;
  }

  // callState is the state of a tool call: wanted, running, asking, refused, outside, or its outcome.
  callState(c) {
    if (c.endedSeq && c.endedSeq <= this.seq) return c.outcome;
    const a = this.history.approvals.get(c.id);
    if (a && a.seq <= this.seq && !(a.givenSeq && a.givenSeq <= this.seq)) return this.history.turns.get(c.turn)?.endedSeq <= this.seq && this.history.turns.get(c.turn)?.endedSeq ? "cancelled" : "asking";
    if (c.pendedSeq && c.pendedSeq <= this.seq) return "outside";
    return "running";
  }
}
