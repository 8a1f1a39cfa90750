import { keepMs, maxSignBytes } from "./limits.js";

/** @import * as wire from "../wire.js" */

// Questions that wait for a sign at once. Further ones replace the oldest.
const most = 256;

/** The questions that no tool waits for: signs of life name them until their calls are recorded. */
export class Withdrawn {
  /** @type {{ question: wire.Question, since: number }[]} those that the next sign has first */
  #list = [];

  get size() {
    return this.#list.length;
  }

  /** @param {wire.Question} question @param {number} now */
  add(question, now) {
    this.#list.push({ question, since: now });
    this.#list.splice(0, this.#list.length - most);
  }

  /** Keeps the questions that are wanted. @param {(question: wire.Question, since: number) => boolean} wanted */
  #keep(wanted) {
    this.#list = this.#list.filter(({ question, since }) => wanted(question, since));
  }

  /** The tool waits again. @param {wire.Question} again */
  remove(again) {
    this.#keep(({ session, call, id }) => session !== again.session || call !== again.call || id !== again.id);
  }

  /** @param {wire.CallID} ended */
  recorded(ended) {
    this.#keep(({ session, call }) => session !== ended.session || call !== ended.call);
  }

  /** @param {number} now */
  expire(now) {
    this.#keep((_, since) => now - since <= keepMs);
  }

  /** The JSON of a sign, with as many questions as fit. The next sign has the ones after them. @param {wire.Sign} sign */
  signed(sign) {
    let json = JSON.stringify(sign);
    /** @type {wire.Question[]} */
    const withdrawn = [];
    for (let left = this.#list.length; left > 0; left--) {
      const next = this.#list[0];
      withdrawn.push(next.question);
      const longer = JSON.stringify({ ...sign, withdrawn });
      const fits = Buffer.byteLength(longer) <= maxSignBytes;
      if (!fits && withdrawn.length > 1) break;
      this.#list.push(/** @type {typeof next} */ (this.#list.shift()));
      if (!fits) break; // it is too long for any sign
      json = longer;
    }
    return json;
  }
}
