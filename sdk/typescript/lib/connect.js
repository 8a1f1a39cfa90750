import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { AuthorizationError, ConnectionError, TimeoutError, UserAuthenticationExpiredError, connect as dial, nkeyAuthenticator } from "@nats-io/transport-node";
import { maxInstanceName } from "./limits.js";

/** @import * as api from "../index.js" */
/** @import { NodeConnectionOptions } from "@nats-io/transport-node" */

const retry = 1000;

/**
 * Reads the variables LASH_PLUGIN*, and connects.
 * @param {api.Plugin} plugin
 * @param {Record<string, string | undefined>} env
 */
export async function connect(plugin, env) {
  const { url, inbox, seed, tls_ca: caFile, tls_cert: certFile, tls_key: keyFile } = await connection(env);
  const servers = (url ?? "").split(",").map((s) => s.trim()).filter(Boolean);
  if (servers.length === 0) throw plain(new Error("LASH_PLUGIN_CONNECTION or LASH_PLUGIN_NATS is missing: it names the servers"));
  const name = env.LASH_PLUGIN || plugin.name;
  const id = instanceId(env.LASH_PLUGIN_INSTANCE);
  const tls = caFile || certFile || servers.some((s) => s.startsWith("tls://"));
  const nc = await first(servers, {
    servers: servers.map((s) => s.replace(/^(nats|tls):\/\//, "")),
    name: `${name}/${id}`,
    inboxPrefix: inbox || undefined,
    maxReconnectAttempts: -1,
    tls: tls ? { caFile: caFile || undefined, certFile: certFile || undefined, keyFile: keyFile || undefined } : undefined,
    authenticator: seed ? nkeyAuthenticator(Buffer.from(seed.trim())) : undefined,
  });
  return { nc, name, id, prefix: env.LASH_PLUGIN_PREFIX || "lash" };
}

/**
 * The connection that the variables name, by a file or each value by itself.
 * @param {Record<string, string | undefined>} env
 * @returns {Promise<{ url?: string, inbox?: string, seed?: string, tls_ca?: string, tls_cert?: string, tls_key?: string }>}
 */
async function connection(env) {
  const { LASH_PLUGIN_CONNECTION: file, LASH_PLUGIN_NKEY: key } = env;
  if (file) return named("LASH_PLUGIN_CONNECTION", async () => JSON.parse(await readFile(file, "utf8")));
  return {
    url: env.LASH_PLUGIN_NATS, inbox: env.LASH_PLUGIN_INBOX,
    seed: key ? await named("LASH_PLUGIN_NKEY", () => seedOf(key)) : undefined,
    tls_ca: env.LASH_PLUGIN_TLS_CA, tls_cert: env.LASH_PLUGIN_TLS_CERT, tls_key: env.LASH_PLUGIN_TLS_KEY,
  };
}

/** @param {string} file */
async function seedOf(file) {
  const seed = (await readFile(file, "utf8")).trim();
  if (!/^S[A-Z2-7]+$/.test(seed)) throw new Error(`${file} has no seed of an nkey, which begins with S; LASH_PLUGIN_CONNECTION takes a JSON file`);
  return seed;
}

/**
 * What a file that a variable names has. An error names the variable.
 * @template T
 * @param {string} variable
 * @param {() => Promise<T>} read
 */
async function named(variable, read) {
  try {
    return await read();
  } catch (/** @type {any} */ err) {
    const advice = err.code === "ENOENT" && variable === "LASH_PLUGIN_CONNECTION" ? ": a node with --external-plugins writes plugins/NAME.json in its store when it starts" : "";
    throw plain(new Error(`${variable}: ${err.message}${advice}`));
  }
}

/**
 * An error that says what to do. Node prints its text alone: a stack would hide that.
 * @template {Error} E
 * @param {E} err
 * @returns {E}
 */
export function plain(err) {
  err.stack = `${err.name}: ${err.message}`;
  return err;
}

/**
 * Connects. Where no server answers it says so once, and tries again.
 * @param {string[]} urls
 * @param {NodeConnectionOptions} options
 */
async function first(urls, options) {
  for (let waits = false; ; waits = true) {
    try {
      return await dial(options);
    } catch (err) {
      const shown = urls.map((url) => url.replace(/\/\/[^/@]*@/, "//")).join(",");
      if (err instanceof AuthorizationError || err instanceof UserAuthenticationExpiredError)
        throw plain(new Error(`${shown} refuses the credentials: LASH_PLUGIN_CONNECTION, LASH_PLUGIN_NKEY or LASH_PLUGIN_TLS_CERT names the plugin's`));
      if (!(err instanceof ConnectionError || err instanceof TimeoutError)) throw err;
      if (!waits) console.error(`no server answers at ${shown} (${err.message}): waiting for one; start it, or lash-node serve, which has one`);
      await sleep(retry);
    }
  }
}

/** The limit of an id, 64, without the random part and the hyphen before it. */

/**
 * A new id, which no other start has: a program that starts again must not get calls of the program before.
 * @param {string} [name] begins the id
 */
export function instanceId(name) {
  if (name && name.length > maxInstanceName)
    throw new Error(`LASH_PLUGIN_INSTANCE has ${name.length} characters, limit is ${maxInstanceName}`);
  return name ? `${name}-${randomBytes(6).toString("hex")}` : randomBytes(16).toString("hex");
}
