import { Bodies } from "./bodies.js";
import { Callbacks } from "./callbacks.js";
import { report } from "./exception.js";
import { maxReplies } from "./limits.js";
import { Outcomes, messages, outcome } from "./outcome.js";
import { Output } from "./output.js";
import { Withdrawn } from "./withdrawn.js";

/** @import * as api from "../index.js" */
/** @import * as wire from "../wire.js" */
/** @import { Sessions } from "./sessions.js" */

/**
 * What instances and nodes send: `send` publishes a message, `flush` waits until the server has it.
 * @typedef {{ send(subject: string, message: string | object): void, flush(): Promise<void> }} Sender
 */

/** @typedef {{ replies: Set<string>, last: string, stop: AbortController, callbacks: Callbacks }} Running */

class Cancelled extends Error {
  /** @param {wire.Cancel} cancel */
  constructor({ reason, grace_ms }) {
    super(reason || "the call is cancelled");
    this.name = "AbortError";
    this.graceMs = grace_ms;
  }
}

/** @param {wire.CallID} id */
const key = ({ session, call }) => `${session}/${call}`; // a session is a token: it has no slash

/** Pieces that are sent before the server must have read them. */
const unread = 8;

/** The calls of an instance: one runs once, whatever nodes send. */
export class Calls {
  /** @type {Map<string, Running>} */
  #running = new Map();
  #outcomes = new Outcomes();
  withdrawn = new Withdrawn();
  /** @type {Set<string>} reply subjects that get pieces now */
  #sending = new Set();
  /** @type {(() => void)[]} */
  #waiting = [];
  leaving = false; // nodes are told to send no new calls
  draining = false; // new calls are refused
  #hooks = 0; // that run
  ended = 0;
  failures = 0; // of the calls that ended

  /**
   * @param {api.Plugin} plugin
   * @param {Sender} sender
   * @param {Sessions} sessions
   */
  constructor(plugin, sender, sessions) {
    this.tools = plugin.tools ?? {};
    this.sender = sender;
    this.sessions = sessions;
  }

  get running() {
    return this.#running.size;
  }

  /** A hook runs until the returned function is called. */
  hook() {
    this.#hooks++;
    return () => {
      this.#hooks--;
      this.#changed();
    };
  }

  /** @param {string} session */
  runs(session) {
    return [...this.#running.keys()].some((id) => id.startsWith(`${session}/`));
  }

  /** @param {wire.Call} call @param {string} reply */
  call(call, reply) {
    const id = key(call);
    const running = this.#running.get(id);
    if (running) {
      running.replies.delete(reply);
      running.replies.add(reply);
      for (const oldest of running.replies) {
        if (running.replies.size <= maxReplies) break;
        running.replies.delete(oldest);
      }
      running.last = reply;
      return this.sender.send(reply, {});
    }
    const json = this.#outcomes.get(id);
    if (json) return void this.#send(json, reply);
    if (this.#outcomes.dropped(id) || (this.#outcomes.forgot && call.again)) return this.sender.send(reply, { forgotten: true });
    const error = this.#refused(call);
    if (error) return this.sender.send(reply, { error });
    this.sender.send(reply, {});
    void this.#run(id, call, reply);
  }

  /** @param {wire.Call} call @returns {wire.Error | undefined} */
  #refused(call) {
    if (this.draining) return { code: "draining", message: "the instance takes no new calls" };
    if (!Object.hasOwn(this.tools, call.tool)) return { code: "unknown_tool", message: `no tool ${call.tool}` };
    return this.sessions.refuse(call.session, call.epoch);
  }

  /** @param {string} id @param {wire.Call} call @param {string} reply */
  async #run(id, call, reply) {
    const stop = new AbortController();
    const output = new Output((output) => this.#progress(running, { output }));
    /** @param {string} id @returns {wire.Question} */
    const question = (id) => ({ session: call.session, call: call.call, id });
    const callbacks = new Callbacks((callback) => this.sender.send(running.last, { callback }), {
      opened: (id) => this.withdrawn.remove(question(id)),
      withdrawn: (id) => {
        if (!stop.signal.aborted) this.withdrawn.add(question(id), performance.now()); // the turn ends with a cancel
      },
    });
    /** @type {Running} */
    const running = { replies: new Set([reply]), last: reply, stop, callbacks };
    this.#running.set(id, running);
    const bodies = new Bodies(call.session, (...request) => callbacks.request(...request));
    /** @type {api.Call} */
    const context = {
      session: call.session, turn: call.turn, id: call.call, modelCall: call.model_call, key: call.key, again: call.again === true, once: call.once === true,
      signal: stop.signal,
      print: (text, stream) => output.print(text, stream),
      request: (...request) => callbacks.request(...request),
      ask: (...question) => callbacks.ask(...question),
      trace: (...event) => callbacks.trace(...event),
      storeBody: (data) => bodies.store(data),
      readBody: (digest) => bodies.read(digest),
    };
    const { json, failed } = await outcome(async () => this.tools[call.tool].run(call.args, context), stop.signal);
    output.end();
    callbacks.end(new Error("the call has ended"));
    this.#running.delete(id);
    this.ended++;
    this.sessions.ended(call.session);
    if (failed) this.failures++;
    this.#outcomes.keep(id, json, performance.now());
    for (const reply of running.replies) void this.#send(json, reply);
    this.#changed();
  }

  /** @param {Running} running @param {wire.Progress} progress */
  #progress(running, progress) {
    for (const reply of running.replies) this.sender.send(reply, progress);
  }

  /** Sends an outcome, of which pieces may already be on their way to this reply subject. @param {Buffer} json @param {string} reply */
  async #send(json, reply) {
    if (this.#sending.has(reply)) return;
    this.#sending.add(reply);
    try {
      let n = 0;
      for (const message of messages(json)) {
        this.sender.send(reply, message);
        if (++n % unread === 0) await this.sender.flush();
      }
    } catch (err) {
      report(err); // the node asks again
    } finally {
      this.#sending.delete(reply);
    }
  }

  /** @param {wire.Cancel} cancel */
  cancel(cancel) {
    const running = this.#running.get(key(cancel));
    if (!running) return;
    const reason = new Cancelled(cancel);
    running.stop.abort(reason);
    running.callbacks.end(reason);
  }

  /** @param {wire.CallID} id */
  recorded(id) {
    this.withdrawn.recorded(id);
    this.#outcomes.drop(key(id));
    this.#changed();
  }

  /** @param {wire.CallbackAnswer} answer */
  callback(answer) {
    this.#running.get(key(answer))?.callbacks.answer(answer);
  }

  /** Signs of life of the calls that run, each second. */
  tick() {
    for (const running of this.#running.values()) this.#progress(running, {});
    this.#outcomes.expire(performance.now());
    this.withdrawn.expire(performance.now());
    this.sessions.tick();
    this.#changed();
  }

  /** Waits until no call and no hook runs, and then until all outcomes are recorded, but not longer than the limit. @param {number} limit */
  async rest(limit) {
    while (this.#running.size + this.#hooks > 0) await new Promise((changed) => this.#waiting.push(() => changed(undefined)));
    const end = performance.now() + limit;
    while (this.#outcomes.size > 0 && performance.now() < end) await new Promise((changed) => this.#waiting.push(() => changed(undefined)));
  }

  #changed() {
    for (const changed of this.#waiting.splice(0)) changed();
  }
}
