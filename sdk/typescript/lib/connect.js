import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { ConnectionError, TimeoutError, connect as dial, nkeyAuthenticator } from "@nats-io/transport-node";
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
  const servers = (env.LASH_PLUGIN_NATS ?? "").split(",").map((s) => s.trim()).filter(Boolean);
  if (servers.length === 0) throw new Error("LASH_PLUGIN_NATS is missing: it names the servers");
  const name = env.LASH_PLUGIN || plugin.name;
  const id = instanceId(env.LASH_PLUGIN_INSTANCE);
  const { LASH_PLUGIN_TLS_CA: caFile, LASH_PLUGIN_TLS_CERT: certFile, LASH_PLUGIN_TLS_KEY: keyFile, LASH_PLUGIN_NKEY: seed } = env;
  const tls = caFile || certFile || servers.some((s) => s.startsWith("tls://"));
  const nc = await first(servers, {
    servers: servers.map((s) => s.replace(/^(nats|tls):\/\//, "")),
    name: `${name}/${id}`,
    inboxPrefix: env.LASH_PLUGIN_INBOX || undefined,
    maxReconnectAttempts: -1,
    tls: tls ? { caFile: caFile || undefined, certFile: certFile || undefined, keyFile: keyFile || undefined } : undefined,
    authenticator: seed ? nkeyAuthenticator(Buffer.from((await readFile(seed, "utf8")).trim())) : undefined,
  });
  return { nc, name, id, prefix: env.LASH_PLUGIN_PREFIX || "lash" };
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
      if (!(err instanceof ConnectionError || err instanceof TimeoutError)) throw err;
      const shown = urls.map((url) => url.replace(/\/\/[^/@]*@/, "//")).join(",");
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
