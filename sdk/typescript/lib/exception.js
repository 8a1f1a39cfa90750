import { maxFailureMessage } from "./limits.js";

/**
 * The longest start of the text that has at most so many bytes of UTF-8.
 * @param {Buffer} bytes
 * @param {number} most
 */
export function clip(bytes, most) {
  if (bytes.length <= most) return bytes;
  let end = most;
  while (end > 0 && (bytes[end] & 0xc0) === 0x80) end--;
  return bytes.subarray(0, end);
}

/** The message of anything that was thrown. @param {any} err */
export function messageOf(err) {
  let text = "an exception that has no text";
  try {
    text = String(err?.message ?? err);
  } catch {
    // an object that cannot become a text
  }
  return clip(Buffer.from(text), maxFailureMessage).toString();
}

/** Logs, also what cannot be shown. @param {any[]} all */
export function report(...all) {
  try {
    console.error(...all);
  } catch {
    console.error(...all.map(messageOf));
  }
}
