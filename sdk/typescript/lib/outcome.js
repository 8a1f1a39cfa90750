import { Failure } from "./define.js";
import { clip, messageOf, report } from "./exception.js";
import { keepMs, maxAttachment, maxAttachmentCount, maxAttachments, maxFailureMessage, maxInlineBytes, maxKeptBytes, maxKnownCalls, maxOutcomeBytes } from "./limits.js";

/** @import * as api from "../index.js" */
/** @import * as wire from "../wire.js" */

/** @param {number} bytes @param {number} most @param {string} what */
function limit(bytes, most, what) {
  if (bytes > most) throw new Failure(`${what} of ${bytes} bytes, the limit is ${most}`, { class: "resource_limit" });
}

/**
 * The JSON of the outcome of a tool. What does not fit into a limit becomes a failure.
 * @param {() => ReturnType<api.Tool["run"]>} run
 * @param {AbortSignal} signal
 * @returns {Promise<{ json: Buffer, failed: boolean }>}
 */
export async function outcome(run, signal) {
  try {
    const json = Buffer.from(JSON.stringify(ofResult(await run())));
    limit(json.length, maxOutcomeBytes, "the result has a JSON");
    return { json, failed: false };
  } catch (err) {
    const outcome = ofException(err, signal);
    return { json: Buffer.from(JSON.stringify(outcome)), failed: outcome.failure !== undefined }; // texts only
  }
}

/**
 * @param {string | api.Result | void | null} result
 * @returns {wire.Outcome}
 */
function ofResult(result) {
  if (result === undefined || result === null) return {};
  if (typeof result === "string") return { text: result };
  if (typeof result !== "object") throw new TypeError(`the tool returned a ${typeof result}, not text or a result`);
  const { text, attachments, control, emit, cancelled } = result;
  const count = attachments?.length ?? 0;
  if (count > maxAttachmentCount) throw new Failure(`attachments: the result has ${count}, limit is ${maxAttachmentCount}`, { class: "resource_limit" });
  for (const { data } of attachments ?? []) limit(data?.byteLength ?? 0, maxAttachment, "the result has an attachment");
  limit((attachments ?? []).reduce((sum, { data }) => sum + (data?.byteLength ?? 0), 0), maxAttachments, "the result has attachments");
  return { text, control, emit, cancelled, attachments: attachments?.map(ofAttachment) };
}

/** @param {api.Attachment} attachment @returns {wire.Attachment} */
function ofAttachment({ mediaType, data, digest, size }) {
  if (!data) return { media_type: mediaType, digest, size };
  return { media_type: mediaType, data: Buffer.from(data.buffer, data.byteOffset, data.byteLength).toString("base64") };
}

/**
 * @param {any} err
 * @param {AbortSignal} signal
 * @returns {wire.Outcome}
 */
function ofException(err, signal) {
  const message = messageOf(err);
  try {
    if (signal.aborted && (err === signal.reason || err?.name === "AbortError")) return { cancelled: true };
    if (err instanceof Failure) return { failure: { class: textOf(err.class), code: textOf(err.code), message, safe: err.safe === true || undefined } };
  } catch {
    // an object that does not let itself be read
  }
  report(err);
  return { failure: { class: "internal", message } };
}

/** @param {any} value */
function textOf(value) {
  return value === undefined ? undefined : /** @type {any} */ (clip(Buffer.from(`${value}`), maxFailureMessage).toString());
}

/**
 * The messages that carry an outcome: one, or pieces of it and their number.
 * @param {Buffer} json
 * @returns {Generator<string>}
 */
export function* messages(json) {
  if (json.length <= maxInlineBytes) {
    yield `{"outcome":${json}}`;
    return;
  }
  let n = 0;
  for (let at = 0; at < json.length; at += maxInlineBytes) {
    yield JSON.stringify({ piece: { n: n++, data: json.subarray(at, at + maxInlineBytes).toString("base64") } });
  }
  yield JSON.stringify({ pieces: n });
}

/** The outcomes of calls that nodes may ask for again, and the ids of calls whose outcome is dropped. */
export class Outcomes {
  /** @type {Map<string, { json: Buffer, since: number }>} */
  #kept = new Map();
  /** @type {Set<string>} */
  #dropped = new Set();
  #bytes = 0;
  /** Whether ids were forgotten. */
  forgot = false;

  /** @param {{ millis?: number, bytes?: number, ids?: number }} [most] */
  constructor({ millis = keepMs, bytes = maxKeptBytes, ids = maxKnownCalls } = {}) {
    this.most = { millis, bytes, ids };
  }

  /** @param {string} id */
  get(id) {
    return this.#kept.get(id)?.json;
  }

  /** @param {string} id */
  dropped(id) {
    return this.#dropped.has(id);
  }

  /** The number of outcomes that are not recorded. */
  get size() {
    return this.#kept.size;
  }

  /** @param {string} id @param {Buffer} json @param {number} now */
  keep(id, json, now) {
    this.#kept.set(id, { json, since: now });
    this.#bytes += json.length;
    this.expire(now);
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= this.most.ids) break;
      this.drop(oldest);
    }
  }

  /** @param {string} id */
  drop(id) {
    const kept = this.#kept.get(id);
    if (!kept) return;
    this.#kept.delete(id);
    this.#bytes -= kept.json.length;
    this.#dropped.add(id);
    for (const oldest of this.#dropped) {
      if (this.#dropped.size <= this.most.ids) break;
      this.#dropped.delete(oldest);
      this.forgot = true;
    }
  }

  /** Drops what is too old, and the oldest outcomes where all have too many bytes. @param {number} now */
  expire(now) {
    for (const [id, { since }] of this.#kept) {
      if (this.#bytes <= this.most.bytes && now - since < this.most.millis) break;
      this.drop(id);
    }
  }
}
