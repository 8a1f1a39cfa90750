import { clip } from "./exception.js";
import { maxOutputBytes, outputsPerSecond } from "./limits.js";

/** @import * as wire from "../wire.js" */

const streams = ["stdout", "stderr", "log", "progress"];
// Half of the outputs of a second while the tool runs, and fewer than the other half when it returns.
const interval = 2000 / outputsPerSecond;
const last = outputsPerSecond / 2 - 1;
const maxWaiting = 262144;

/** What a call prints: sent soon, collected meanwhile, and dropped where too much of it waits. */
export class Output {
  /** @type {Map<string, { off: number, bytes: Buffer[], size: number }>} */
  #waiting = new Map();
  /** @type {Map<string, number>} */
  #printed = new Map();
  #seq = 0;
  /** @type {NodeJS.Timeout | undefined} */
  #timer;
  #ended = false;

  /** @param {(output: wire.Output) => void} send */
  constructor(send) {
    this.send = send;
  }

  /** @param {string} text @param {string} stream */
  print(text, stream = "stdout") {
    if (!streams.includes(stream)) throw new TypeError(`no stream ${stream}`);
    /** @type {Buffer} */
    let bytes = Buffer.from(String(text));
    if (this.#ended || bytes.length === 0) return;
    const end = (this.#printed.get(stream) ?? 0) + bytes.length;
    this.#printed.set(stream, end);
    let waiting = this.#waiting.get(stream);
    if (!waiting || waiting.size + bytes.length > maxWaiting) {
      bytes = tail(bytes, maxWaiting);
      waiting = { off: end - bytes.length, bytes: [], size: 0 };
      this.#waiting.set(stream, waiting);
    }
    waiting.bytes.push(bytes);
    waiting.size += bytes.length;
    if (!this.#timer) this.#tick();
  }

  /** Sends what waits, as far as the limit allows, and ignores what is printed later. */
  end() {
    this.#ended = true;
    clearTimeout(this.#timer);
    for (let n = 0; n < last && this.#next(); n++);
    this.#waiting.clear();
  }

  #tick() {
    this.#timer = this.#next() ? setTimeout(() => this.#tick(), interval) : undefined;
  }

  /** Sends one output of the stream that waits the longest. */
  #next() {
    for (const [stream, { off, bytes }] of this.#waiting) {
      const all = Buffer.concat(bytes);
      const text = clip(all, maxOutputBytes);
      this.#waiting.delete(stream);
      if (text.length < all.length) {
        this.#waiting.set(stream, { off: off + text.length, bytes: [all.subarray(text.length)], size: all.length - text.length });
      }
      this.send({ seq: ++this.#seq, off, stream: /** @type {wire.Output["stream"]} */ (stream), text: text.toString() });
      return true;
    }
    return false;
  }
}

/** @param {Buffer} bytes @param {number} most */
function tail(bytes, most) {
  let begin = Math.max(0, bytes.length - most);
  while (begin < bytes.length && begin > 0 && (bytes[begin] & 0xc0) === 0x80) begin++;
  return bytes.subarray(begin);
}
