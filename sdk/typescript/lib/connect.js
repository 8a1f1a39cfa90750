import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import { connect as dial, nkeyAuthenticator } from "@nats-io/transport-node";

/** @import * as api from "../index.js" */

/**
 * Reads the variables LASH_PLUGIN*, and connects.
 * @param {api.Plugin} plugin
 * @param {Record<string, string | undefined>} env
 */
export async function connect(plugin, env) {
  const servers = (env.LASH_PLUGIN_NATS ?? "").split(",").map((s) => s.trim()).filter(Boolean);
  if (servers.length === 0) throw new Error("LASH_PLUGIN_NATS is missing: it names the servers");
  const name = env.LASH_PLUGIN || plugin.name;
  const id = env.LASH_PLUGIN_INSTANCE || randomUUID();
  const { LASH_PLUGIN_TLS_CA: caFile, LASH_PLUGIN_TLS_CERT: certFile, LASH_PLUGIN_TLS_KEY: keyFile, LASH_PLUGIN_NKEY: seed } = env;
  const tls = caFile || certFile || servers.some((s) => s.startsWith("tls://"));
  const nc = await dial({
    servers: servers.map((s) => s.replace(/^(nats|tls):\/\//, "")),
    name: `${name}/${id}`,
    inboxPrefix: env.LASH_PLUGIN_INBOX || undefined,
    maxReconnectAttempts: -1,
    tls: tls ? { caFile: caFile || undefined, certFile: certFile || undefined, keyFile: keyFile || undefined } : undefined,
    authenticator: seed ? nkeyAuthenticator(Buffer.from((await readFile(seed, "utf8")).trim())) : undefined,
  });
  return { nc, name, id, prefix: env.LASH_PLUGIN_PREFIX || "lash" };
}
