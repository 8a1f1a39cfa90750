import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { AuthorizationError, ConnectionError, TimeoutError, UserAuthenticationExpiredError, connect as dial, nkeyAuthenticator } from "@nats-io/transport-node";
import { checkInstance, connection } from "./environment.js";

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

/**
 * A new id, which no other start has: a program that starts again must not get calls of the program before.
 * @param {string} [name] begins the id
 */
export function instanceId(name) {
  if (name) checkInstance(name);
  return name ? `${name}-${randomBytes(6).toString("hex")}` : randomBytes(16).toString("hex");
}
