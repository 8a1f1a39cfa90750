import { X509Certificate, createPrivateKey } from "node:crypto";
import { readFile, stat } from "node:fs/promises";
import { nkeyAuthenticator } from "@nats-io/transport-node";
import { maxInstanceName } from "./limits.js";

/** @typedef {Record<string, string | undefined>} Env */
/** @typedef {{ url?: string, inbox?: string, seed?: string, tls_ca?: string, tls_cert?: string, tls_key?: string }} Connection */

const maxFileBytes = 16 << 20;

/** A variable LASH_PLUGIN* whose value is wrong. Its message is one line: the variable, and the rule. */
export class WrongVariable extends Error {
  /** @param {string} variable @param {unknown} reason */
  constructor(variable, reason) {
    super(`${variable}: ${String(/** @type {any} */ (reason)?.message ?? reason).replaceAll("\n", " ")}`);
    this.name = "WrongVariable";
    this.variable = variable;
    this.stack = `${this.name}: ${this.message}`; // a stack would hide what to do
  }
}

/** @param {string} value */
function checkToken(value) {
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(value)) throw new Error("must be 1 to 64 characters of A-Z a-z 0-9 _ -");
}

/** @param {string} name */
export function checkInstance(name) {
  if (name.length > maxInstanceName) throw new Error(`has ${name.length} characters, limit is ${maxInstanceName}`);
  checkToken(name);
}

/** @param {string} list */
function checkServers(list) {
  for (const one of list.split(",").map((s) => s.trim())) {
    const url = one.includes("://") ? one : `nats://${one}`;
    if (!/^(nats|tls):\/\/./.test(url) || !URL.canParse(url) || new URL(url).hostname === "")
      throw new Error("want nats://HOST:PORT or tls://HOST:PORT, separated by commas");
  }
}

/** @param {string} inbox */
function checkInbox(inbox) {
  if (inbox.split(".").some((part) => part === "" || /[*>\s]/.test(part)))
    throw new Error("want a prefix of subjects, as _INBOX.USER: without empty parts, blanks, * and >");
}

/** Reads a file that a user names: a pipe or a device would be read for ever. @param {string} file */
async function read(file) {
  const info = await stat(file);
  if (!info.isFile()) throw new Error(`${file} is not a regular file: name a file`);
  if (info.size > maxFileBytes) throw new Error(`${file} is above the limit of ${maxFileBytes} bytes`);
  return readFile(file, "utf8");
}

/** @param {string} text */
function isSeed(text) {
  if (!/^S[A-Z2-7]+$/.test(text)) return false;
  try {
    nkeyAuthenticator(Buffer.from(text))("nonce");
    return true;
  } catch {
    return false;
  }
}

/** @param {string} file */
async function seedOf(file) {
  const seed = (await read(file)).trim();
  if (!isSeed(seed)) throw new Error(`${file} has no seed of an nkey, which begins with S; LASH_PLUGIN_CONNECTION takes a JSON file`);
  return seed;
}

/** @param {string} file */
async function certificateOf(file) {
  const text = await read(file);
  try {
    return new X509Certificate(text);
  } catch {
    throw new Error(`${file} has no certificate in PEM`);
  }
}

/** @param {string} certificate @param {string} key */
async function checkPair(certificate, key) {
  const cert = await certificateOf(certificate), text = await read(key);
  let secret;
  try {
    secret = createPrivateKey(text);
  } catch {
    throw new Error(`${key} has no private key in PEM`);
  }
  if (!cert.checkPrivateKey(secret)) throw new Error(`${certificate} is not the certificate of ${key}`);
}

/** The fields of a connection's file, checked. @param {string} file @returns {Promise<Connection>} */
async function connectionOf(file) {
  const text = await read(file);
  let c;
  try {
    c = JSON.parse(text);
  } catch (/** @type {any} */ err) {
    throw new Error(`${file}: ${err.message}`);
  }
  try {
    await checkConnection(c);
  } catch (/** @type {any} */ err) {
    throw new Error(`${file}: ${err.message}`);
  }
  return c;
}

/** @param {any} c */
async function checkConnection(c) {
  if (typeof c !== "object" || c === null || Array.isArray(c)) throw new Error("want a JSON object");
  for (const field of ["url", "inbox", "seed", "tls_ca", "tls_cert", "tls_key"])
    if (c[field] !== undefined && typeof c[field] !== "string") throw new Error(`${field}: want a text`);
  if (!c.url) throw new Error("url: is required");
  await inField("url", () => checkServers(c.url));
  if (c.inbox) await inField("inbox", () => checkInbox(c.inbox));
  if (c.seed && !isSeed(c.seed.trim())) throw new Error("seed: is no seed of an nkey, which begins with S");
  if (c.tls_ca) await inField("tls_ca", () => certificateOf(c.tls_ca));
  if (c.tls_cert || c.tls_key) {
    if (!c.tls_cert || !c.tls_key) throw new Error("tls_cert: goes with tls_key");
    await inField("tls_cert", () => checkPair(c.tls_cert, c.tls_key));
  }
}

/** @param {string} field @param {() => unknown} check */
async function inField(field, check) {
  try {
    await check();
  } catch (/** @type {any} */ err) {
    throw new Error(`${field}: ${err.message}`);
  }
}

/** The rules of the variables, which a test lists. @type {Record<string, (value: string) => unknown>} */
export const rules = {
  LASH_PLUGIN: checkToken, LASH_PLUGIN_PREFIX: checkToken, LASH_PLUGIN_INSTANCE: checkInstance,
  LASH_PLUGIN_CONNECTION: connectionOf, LASH_PLUGIN_NATS: checkServers, LASH_PLUGIN_INBOX: checkInbox, LASH_PLUGIN_NKEY: seedOf,
  LASH_PLUGIN_TLS_CA: certificateOf, LASH_PLUGIN_TLS_CERT: read, LASH_PLUGIN_TLS_KEY: read,
};

const always = ["LASH_PLUGIN", "LASH_PLUGIN_PREFIX", "LASH_PLUGIN_INSTANCE", "LASH_PLUGIN_CONNECTION"];

/**
 * The connection that the variables name, by a file or each value by itself. It rejects with {@link WrongVariable}.
 * @param {Env} env
 * @returns {Promise<Connection>}
 */
export async function connection(env) {
  /** @type {Record<string, any>} */
  const checked = {};
  for (const [variable, check] of Object.entries(rules)) {
    const value = env[variable];
    if (!value || (env.LASH_PLUGIN_CONNECTION && !always.includes(variable))) continue;
    try {
      checked[variable] = await check(value);
    } catch (/** @type {any} */ err) {
      throw new WrongVariable(variable, variable === "LASH_PLUGIN_CONNECTION" && err.code === "ENOENT"
        ? `${err.message}: a node with external plugins writes plugins/NAME.json in its store when it starts` : err);
    }
  }
  if (env.LASH_PLUGIN_CONNECTION) return checked.LASH_PLUGIN_CONNECTION;
  if (!env.LASH_PLUGIN_NATS) throw new WrongVariable("LASH_PLUGIN_NATS", "is required: the URLs of the servers, or LASH_PLUGIN_CONNECTION with a file");
  const { LASH_PLUGIN_TLS_CERT: certificate, LASH_PLUGIN_TLS_KEY: key } = env;
  if (key && !certificate) throw new WrongVariable("LASH_PLUGIN_TLS_CERT", "is required with LASH_PLUGIN_TLS_KEY");
  if (certificate && !key) throw new WrongVariable("LASH_PLUGIN_TLS_KEY", "is required with LASH_PLUGIN_TLS_CERT");
  if (certificate && key) await checkPair(certificate, key).catch((err) => { throw new WrongVariable("LASH_PLUGIN_TLS_CERT", err); });
  return {
    url: env.LASH_PLUGIN_NATS, inbox: env.LASH_PLUGIN_INBOX, seed: checked.LASH_PLUGIN_NKEY,
    tls_ca: env.LASH_PLUGIN_TLS_CA, tls_cert: certificate, tls_key: key,
  };
}
