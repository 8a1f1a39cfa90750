import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure } from "./define.js";
import { maxBodyBytes, maxBodyPiece } from "./limits.js";

/** @import * as wire from "../wire.js" */

/** Before a request that a limit in time refused is sent again. */
const pauseMs = 200;

/** Tries to store a body whose pieces nodes lost. */
const most = 10;

/** @typedef {(id: string, method: wire.Callback["method"], path: string, body?: any) => Promise<{ status: number, body: any }>} Request */

/** Stores and reads the bodies of a call's session, one at a time: the node has one body in pieces. */
export class Bodies {
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {string} session @param {Request} request */
  constructor(session, request) {
    this.path = `/v1/sessions/${session}/blobs`;
    this.request = request;
  }

  /** @param {Uint8Array} data @returns {Promise<{ digest: string, size: number }>} */
  store(data) {
    return this.#alone(() => this.#store(Buffer.from(data.buffer, data.byteOffset, data.byteLength)));
  }

  /** @param {string} digest @returns {Promise<Uint8Array>} */
  read(digest) {
    return this.#alone(() => this.#read(digest));
  }

  /** @template T @param {() => Promise<T>} run @returns {Promise<T>} */
  #alone(run) {
    const mine = this.#last.then(run, run);
    this.#last = mine;
    mine.catch(() => {}); // a tool that returns does not wait for it
    return mine;
  }

  /** @param {Buffer} data */
  async #store(data) {
    const size = data.length;
    if (size === 0 || size > maxBodyBytes) throw new RangeError(`a body of ${size} bytes: it has 1 to ${maxBodyBytes}`);
    const digest = createHash("sha256").update(data).digest("hex");
    let tries = 1;
    for (let offset = 0; ; ) {
      const piece = data.subarray(offset, offset + maxBodyPiece);
      const { status, body } = await this.#send("POST", this.path, { digest, size, offset, data: piece.toString("base64") });
      if (status === 201) return { digest, size };
      if (status === 202) offset += piece.length;
      else if (status === 409 && offset > 0 && tries++ < most) offset = 0; // another node has the call
      else throw refused("store", status, body);
    }
  }

  /** @param {string} digest */
  async #read(digest) {
    /** @type {Buffer[]} */
    const pieces = [];
    for (let offset = 0; ; ) {
      const { status, body } = await this.#send("GET", `${this.path}/${encodeURIComponent(digest)}?offset=${offset}`);
      if (status !== 200 || !body?.data) throw refused("read", status, body);
      const piece = Buffer.from(body.data, "base64");
      pieces.push(piece);
      offset += piece.length;
      if (offset >= body.size) return Buffer.concat(pieces);
    }
  }

  /** @param {wire.Callback["method"]} method @param {string} path @param {wire.BodyPiece} [piece] */
  async #send(method, path, piece) {
    for (;;) {
      const answer = await this.request(randomUUID(), method, path, piece);
      if (answer.status !== 429 && answer.status !== 410) return answer;
      await sleep(pauseMs);
    }
  }
}

/** @param {string} what @param {number} status @param {any} body */
function refused(what, status, body) {
  const failureClass = status === 403 ? "permission_denied" : status === 413 || status === 507 ? "resource_limit" : "external";
  return new Failure(`${what} body: status ${status}: ${body?.detail}`, { class: failureClass });
}
