import { Failure } from "./define.js";
import { callbackRepeatMs, maxCallbackBytes, maxCallbacks } from "./limits.js";

/** @import * as wire from "../wire.js" */

const askPath = "/v1/ask";

/**
 * A promise whose rejection may stay unread: a tool that returns does not wait for its requests.
 * @template T @param {Promise<T>} promise
 */
function quietly(promise) {
  promise.catch(() => {});
  return promise;
}

/** The requests that a running call sends to the node that holds it. */
export class Callbacks {
  /** @type {Map<string, { answer(answer: { status: number, body: any }): void, fail(err: unknown): void }>} */
  #waiting = new Map();
  /** @type {(() => void)[]} */
  #queue = [];
  /** @type {unknown} */
  #ended;

  /**
   * @param {(callback: wire.Callback) => void} send
   * @param {{ opened(id: string): void, withdrawn(id: string): void }} [questions] told when the wait for people begins, and when it
   *   ends without an answer
   */
  constructor(send, questions) {
    this.send = send;
    this.questions = questions;
  }

  /**
   * @param {string} id
   * @param {wire.Callback["method"]} method
   * @param {string} path
   * @param {wire.JSON} [body]
   * @param {{ signal?: AbortSignal }} [options]
   */
  request(id, method, path, body, options) {
    return quietly(method === "POST" && path === askPath ? this.#asked(id, body, options?.signal) : this.#request(id, method, path, body, options?.signal));
  }

  /**
   * A request that asks people. Where its wait ends without an answer, the question is withdrawn.
   * @param {string} id @param {wire.JSON} [body] @param {AbortSignal} [signal]
   */
  async #asked(id, body, signal) {
    this.questions?.opened(id);
    try {
      return await this.#request(id, "POST", askPath, body, signal);
    } catch (err) {
      if (this.#ended || signal?.aborted) this.questions?.withdrawn(id);
      throw err;
    }
  }

  /**
   * @param {string} id
   * @param {wire.Callback["method"]} method
   * @param {string} path
   * @param {wire.JSON} [body]
   * @param {AbortSignal} [signal]
   */
  async #request(id, method, path, body, signal) {
    if (Buffer.byteLength(JSON.stringify(body) ?? "") > maxCallbackBytes) throw new RangeError(`the body of ${id} has more than ${maxCallbackBytes} bytes`);
    while (!this.#ended && !signal?.aborted && this.#waiting.size >= maxCallbacks) await this.#turn(signal);
    if (this.#ended) throw this.#ended;
    signal?.throwIfAborted();
    if (this.#waiting.has(id)) throw new Error(`a request with the id ${id} waits for its answer`);
    const send = () => this.send({ id, method, path, body });
    const timer = setInterval(send, callbackRepeatMs);
    let abort = () => {};
    try {
      return await new Promise((answer, fail) => {
        this.#waiting.set(id, { answer, fail });
        abort = () => fail(signal?.reason);
        signal?.addEventListener("abort", abort);
        send();
      });
    } finally {
      signal?.removeEventListener("abort", abort);
      clearInterval(timer);
      this.#waiting.delete(id);
      this.#queue.shift()?.();
    }
  }

  /** @param {string} id @param {wire.Trace} event */
  trace(id, event) {
    return quietly(this.#request(id, "POST", "/v1/trace", /** @type {any} */ (event)).then(({ status }) => status));
  }

  /**
   * @param {string} id
   * @param {string} question
   * @param {wire.JSON} [details]
   * @param {{ signal?: AbortSignal }} [options]
   * @returns {Promise<wire.Answer>}
   */
  ask(id, question, details, options) {
    return quietly(this.#ask(id, details === undefined ? { question } : { question, details }, options?.signal));
  }

  /** @param {string} id @param {wire.JSON} body @param {AbortSignal} [signal] @returns {Promise<wire.Answer>} */
  async #ask(id, body, signal) {
    const ask = () => this.#asked(id, body, signal);
    let { status, body: answer } = await ask();
    while (status === 404) { // a node of a version without questions: the question stays open until another node has the call
      await new Promise((later) => setTimeout(later, callbackRepeatMs));
      ({ status, body: answer } = await ask());
    }
    if (status !== 200) throw new Failure(`the node does not ask: status ${status}, ${JSON.stringify(answer?.detail)}`, { class: "unavailable" });
    if (typeof answer?.granted !== "boolean") throw new Failure("the answer has no granted", { class: "unavailable" });
    return answer;
  }

  /** Waits until one request less waits for its answer. @param {AbortSignal} [signal] */
  async #turn(signal) {
    let wake = () => {};
    await new Promise((free) => {
      wake = () => free(undefined);
      this.#queue.push(wake);
      signal?.addEventListener("abort", wake);
    });
    signal?.removeEventListener("abort", wake);
    if (!signal?.aborted) return;
    this.#queue = this.#queue.filter((other) => other !== wake);
    if (this.#waiting.size < maxCallbacks) this.#queue.shift()?.(); // it may have been this one's turn
  }

  /** @param {wire.CallbackAnswer} answer */
  answer({ id, status, body }) {
    this.#waiting.get(id)?.answer({ status, body });
  }

  /** Rejects the requests that wait, and all later ones. @param {unknown} reason */
  end(reason) {
    this.#ended ??= reason;
    for (const { fail } of this.#waiting.values()) fail(reason);
    for (const free of this.#queue.splice(0)) free();
  }
}
