import { hostname } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import { RequestError, TimeoutError } from "@nats-io/transport-node";
import { Calls } from "./calls.js";
import { connect, plain } from "./connect.js";
import { Refused, manifest } from "./define.js";
import { WrongVariable } from "./environment.js";
import { clip, messageOf, report } from "./exception.js";
import { leaveMs, maxMachine, registerRepeatMs, signEveryMs } from "./limits.js";
import { Sessions } from "./sessions.js";

/** @import * as api from "../index.js" */
/** @import * as wire from "../wire.js" */
/** @import { Msg } from "@nats-io/transport-node" */

const fireLimit = 30_000;
// The time that a drain leaves to nodes to record the last outcomes.
const recordLimit = 5000;
const closeLimit = 1000;
const machine = clip(Buffer.from(hostname()), maxMachine).toString();

/** @type {typeof api.serve} */
export async function serve(plugin, options = {}) {
  const connection = await connect(plugin, options.env ?? process.env).catch((err) => {
    if (options.env || !(err instanceof WrongVariable)) throw err;
    console.error(`plugin ${plugin.name}: ${err.message}`);
    process.exit(2);
  });
  const instance = new Instance(plugin, connection, options.rollback);
  try {
    await instance.start();
  } catch (err) {
    await connection.nc.close();
    throw err;
  }
  console.error(`plugin ${instance.name} is registered`);
  return instance;
}

/** @implements {api.Instance} */
class Instance {
  #hash = "";
  /** @type {string | undefined} of this program, among those with its id */
  #term;
  #signMs = signEveryMs;
  /** @type {Promise<void> | undefined} */
  #registering;
  /** @type {Promise<void> | undefined} */
  #drained;
  /** @type {Error | undefined} */
  #refused;
  /** @type {Error | undefined} */
  #denied;
  /** @type {NodeJS.Timeout[]} */
  #timers = [];
  #signal = () => void this.drain();
  #floating = (/** @type {unknown} */ reason) => report("a promise of the plugin was rejected, and nothing waits for it:", reason);

  /**
   * @param {api.Plugin} plugin
   * @param {Awaited<ReturnType<typeof connect>>} connection
   * @param {boolean} [rollback]
   */
  constructor(plugin, { nc, name, id, prefix }, rollback) {
    this.plugin = plugin;
    this.nc = nc;
    this.id = id;
    this.name = name;
    this.subjects = { requests: `${prefix}.plugins.${name}`, own: `${prefix}.plugin.${name}`, sign: `${prefix}.plugin-live.${name}.${id}` };
    this.registration = { protocol: 1, instance: id, manifest: manifest(plugin), rollback };
    this.sessions = new Sessions(plugin);
    this.calls = new Calls(plugin, this, this.sessions);
    this.sessions.runs = (session) => this.calls.runs(session);
    this.closed = nc.closed().then((err) => this.#end(err || this.#refused));
  }

  /** Sends a message, unless nobody reads it: the subject is empty where it answers one without a reply subject. @param {string} subject @param {string | object} message */
  send(subject, message) {
    if (!subject || this.nc.isClosed() || this.nc.isDraining()) return;
    this.nc.publish(subject, typeof message === "string" ? message : JSON.stringify(message));
  }

  flush() {
    return this.nc.flush();
  }

  async start() {
    const { calls, sessions, plugin } = this;
    this.#on("call", (call, reply) => calls.call(checked(call), reply), (error) => ({ error }));
    this.#on("callback", (answer) => calls.callback(answer));
    this.#on("cancel", (cancel) => calls.cancel(cancel));
    this.#on("recorded", (id) => calls.recorded(id));
    this.#on("drain", () => void this.drain());
    this.#on("register", () => void this.#registerAgain());
    this.#on("sign", () => this.#sign(), undefined, "all");
    if (plugin.hooks) this.#on("hook", async (call, reply) => this.send(reply, await this.#hook(call)), (error) => ({ error }));
    if (plugin.scope === "session") {
      this.#on("session_start", async (start, reply) => this.send(reply, await this.#sessionStart(start)), (error) => ({ error }));
      this.#on("idle", async (idle, reply) => this.send(reply, await sessions.idle(idle, calls.runs(idle.session))), () => ({ ended: false }));
    }
    await this.flush();
    if (this.#denied) throw plain(new Error(`the servers do not let these credentials be plugin ${this.name}: ${this.#denied.message}`));
    this.#registering = this.#register();
    await this.#registering.finally(() => (this.#registering = undefined));
    process.once("SIGTERM", this.#signal).once("SIGINT", this.#signal);
    process.on("unhandledRejection", this.#floating); // it would end the calls of all sessions
    this.#timers = [setInterval(() => this.#sign(), this.#signMs), setInterval(() => calls.tick(), signEveryMs)];
    this.#sign();
  }

  /**
   * Handles the messages of a subject. Where a message is wrong or the handler fails, the sender reads so.
   * @param {string} verb
   * @param {(message: any, reply: string) => void | Promise<void>} handle
   * @param {(error: wire.Error) => object} [failed]
   * @param {string} [to]
   */
  #on(verb, handle, failed, to = this.id) {
    /** @param {Msg} message */
    const receive = async (message) => {
      /** @type {wire.Error["code"]} */
      let code = "bad_request";
      try {
        const value = message.data.length > 0 ? message.json() : {};
        if (typeof value !== "object" || value === null) throw new TypeError("the message is no object");
        code = "internal";
        if (value.term && value.term !== this.#term) return; // it is for another program with this id
        await handle(value, message.reply ?? "");
      } catch (/** @type {any} */ err) {
        /** @type {wire.Error} */
        const error = err instanceof Refused ? { code: err.code, field: err.field, message: messageOf(err) } : { code, message: messageOf(err) };
        report(error.code === "internal" ? err : `${message.subject}: ${error.message}`);
        if (failed && message.reply) this.send(message.reply, failed(error));
      }
    };
    this.nc.subscribe(`${this.subjects.own}.${to}.${verb}`, { callback: (err, message) => void (err ? (this.#denied ??= err) : receive(message)) });
  }

  async #register() {
    for (let waits = false; ; ) {
      const next = sleep(registerRepeatMs);
      try {
        const message = await this.nc.request(`${this.subjects.requests}.register`, JSON.stringify({ ...this.registration, term: this.#term }), { timeout: registerRepeatMs });
        /** @type {wire.Registered} */
        const registered = message.json();
        if (registered.error?.code === "rate_limited") {
          await next;
          continue;
        }
        if (registered.error) throw plain(new Refused(registered.error));
        this.#hash = registered.hash ?? "";
        this.#term = registered.term || this.#term;
        this.#signMs = registered.sign_ms || this.#signMs;
        return;
      } catch (err) {
        if (!unanswered(err)) throw err;
        if (!waits) console.error(`no node answers the registration of plugin ${this.name}: waiting for one`);
        waits = true;
        await next;
      }
    }
  }

  async #registerAgain() {
    if (this.#registering || this.#drained) return;
    this.#registering = this.#register();
    try {
      await this.#registering;
      this.#sign();
    } catch (/** @type {any} */ err) {
      if (this.nc.isClosed()) return;
      report(err);
      this.#refused = err;
      void this.drain();
    } finally {
      this.#registering = undefined;
    }
  }

  #sign() {
    if (!this.#hash || this.nc.isClosed()) return;
    const { leaving, running, ended, failures } = this.calls;
    this.send(this.subjects.sign, this.calls.withdrawn.signed({ hash: this.#hash, term: this.#term, draining: leaving || undefined, machine, running, calls: ended, failures }));
  }

  /** @param {wire.HookCall} call @returns {Promise<wire.HookResult>} */
  async #hook(call) {
    const hooks = this.plugin.hooks ?? {};
    if (!Object.hasOwn(hooks, call.hook)) return { error: { code: "bad_request", field: "hook", message: `no hook ${call.hook}` } };
    const ran = this.calls.hook();
    let end;
    try {
      const placed = await this.sessions.hook(call.session, call.epoch);
      if (placed.error) return { error: placed.error };
      end = placed.end;
      const hooked = call.call;
      const answer = await hooks[call.hook].run(/** @type {any} */ ({
        session: call.session, turn: call.turn ?? "", invocation: call.invocation, redelivered: call.redelivered === true,
        signal: AbortSignal.timeout(call.deadline_ms),
        iteration: call.iteration ?? 0, lastPrompt: call.last_prompt ?? 0, window: call.window ?? 0,
        input: call.input ?? "", messages: call.messages ?? 0, at: call.at, ending: call.ending, firedBy: call.fired_by, data: call.data,
        call: hooked && {
          id: hooked.call, modelCall: hooked.model_call, key: hooked.key ?? "", again: hooked.again === true, once: hooked.once === true, inner: hooked.inner === true,
          tool: hooked.tool, args: hooked.args, result: hooked.result, millis: hooked.millis ?? 0,
        },
      }));
      return { directives: answer ? [answer].flat() : undefined };
    } finally {
      end?.();
      ran();
    }
  }

  /** @param {wire.SessionStart} start @returns {Promise<wire.Placed>} */
  async #sessionStart(start) {
    if (typeof start.session !== "string" || !(start.epoch >= 1)) throw new Refused({ code: "bad_request", field: "epoch", message: "no start of a session" });
    if (this.calls.leaving) return { error: { code: "draining", message: "the instance takes no new sessions" } };
    return this.sessions.start(start);
  }

  /** @type {api.Instance["fire"]} */
  async fire(point, { session, data } = {}) {
    const answer = await this.nc.request(`${this.subjects.requests}.fire`, JSON.stringify({ point, session, data }), { timeout: fireLimit });
    /** @type {wire.Fired} */
    const { error, reached } = answer.json();
    if (error) throw new Refused(error);
    return reached ?? [];
  }

  drain() {
    this.#drained ??= (async () => {
      this.calls.leaving = true;
      this.#sign();
      await sleep(leaveMs);
      this.calls.draining = true;
      await this.calls.rest(recordLimit);
      if (this.calls.withdrawn.size > 0) this.#sign(); // the last one
      // Without a server the drain of the connection does not end.
      await Promise.race([this.nc.drain(), sleep(closeLimit, undefined, { ref: false })]);
      await this.nc.close();
    })();
    return this.#drained;
  }

  /** @param {Error | undefined} err */
  #end(err) {
    for (const timer of this.#timers) clearInterval(timer);
    process.off("SIGTERM", this.#signal).off("SIGINT", this.#signal).off("unhandledRejection", this.#floating);
    if (err) process.exitCode = 1;
    return err;
  }
}

/** @param {unknown} err */
function unanswered(err) {
  return err instanceof TimeoutError || (err instanceof RequestError && err.isNoResponders());
}

/** @param {wire.Call} call */
function checked(call) {
  for (const field of /** @type {const} */ (["session", "call", "tool"])) {
    if (typeof call?.[field] !== "string") throw new Refused({ code: "bad_request", field, message: "no text" });
  }
  if (call.session.includes("/")) throw new Refused({ code: "bad_request", field: "session", message: "no token" }); // the keys of calls rely on it
  return call;
}
