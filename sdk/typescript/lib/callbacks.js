import { Failure } from "./define.js";
import { callbackRepeatMs, maxCallbackBytes, maxCallbacks } from "./limits.js";

/** @import * as wire from "../wire.js" */

/** The requests that a running call sends to the node that holds it. */
export class Callbacks {
  /** @type {Map<string, { answer(answer: { status: number, body: any }): void, fail(err: unknown): void }>} */
  #waiting = new Map();
  /** @type {(() => void)[]} */
  #queue = [];
  /** @type {unknown} */
  #ended;

  /** @param {(callback: wire.Callback) => void} send */
  constructor(send) {
    this.send = send;
  }

  /**
   * @param {string} id
   * @param {wire.Callback["method"]} method
   * @param {string} path
   * @param {wire.JSON} [body]
   */
  async request(id, method, path, body) {
    if (Buffer.byteLength(JSON.stringify(body) ?? "") > maxCallbackBytes) throw new RangeError(`the body of ${id} has more than ${maxCallbackBytes} bytes`);
    while (!this.#ended && this.#waiting.size >= maxCallbacks) await new Promise((free) => this.#queue.push(() => free(undefined)));
    if (this.#ended) throw this.#ended;
    if (this.#waiting.has(id)) throw new Error(`a request with the id ${id} waits for its answer`);
    const send = () => this.send({ id, method, path, body });
    const timer = setInterval(send, callbackRepeatMs);
    try {
      return await new Promise((answer, fail) => {
        this.#waiting.set(id, { answer, fail });
        send();
      });
    } finally {
      clearInterval(timer);
      this.#waiting.delete(id);
      this.#queue.shift()?.();
    }
  }

  /**
   * @param {string} id
   * @param {string} question
   * @param {wire.JSON} [details]
   * @returns {Promise<wire.Answer>}
   */
  async ask(id, question, details) {
    const ask = () => this.request(id, "POST", "/v1/ask", details === undefined ? { question } : { question, details });
    let { status, body } = await ask();
    while (status === 404) { // a node of a version without questions: the question stays open until another node has the call
      await new Promise((later) => setTimeout(later, callbackRepeatMs));
      ({ status, body } = await ask());
    }
    if (status !== 200) throw new Failure(`the node does not ask: status ${status}, ${body?.detail}`, { class: "unavailable" });
    return body;
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
