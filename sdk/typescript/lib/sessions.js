import { maxSessions } from "./limits.js";

/** @import * as api from "../index.js" */
/** @import * as wire from "../wire.js" */

/** The sessions whose placement is on this instance, of a plugin of scope session. */
export class Sessions {
  /** @type {Map<string, { epoch: number, started: Promise<void>, open: boolean, used: number, hooks: number, idleMs: number, kept: boolean, ended: boolean, deciding?: Promise<unknown> }>} */
  #placed = new Map();

  /** Whether calls of a session run. @type {(session: string) => boolean} */
  runs = () => false;

  /** @param {api.Plugin} plugin */
  constructor(plugin) {
    this.plugin = plugin;
  }

  /**
   * Why a call or hook of the session is refused.
   * @param {string} session
   * @param {number} [epoch]
   * @returns {wire.Error | undefined}
   */
  refuse(session, epoch) {
    if (this.plugin.scope !== "session") return undefined;
    const placed = this.#placed.get(session);
    if (placed?.open && placed.epoch === epoch) return void this.#touch(session, placed);
    return { code: "not_owner", field: "epoch", message: `session ${session} has ${placed?.open ? `epoch ${placed.epoch}` : "no placement"} here, not epoch ${epoch}` };
  }

  /**
   * Begins a hook, or refuses it. Hooks that observe have no epoch: any instance gets them. Others wait while the plugin
   * decides about the session.
   * @param {string} session
   * @param {number} [epoch]
   * @returns {Promise<{ error?: wire.Error, end?: () => void }>}
   */
  async hook(session, epoch) {
    if (!epoch) return {};
    await this.#decided(session);
    const placed = this.#placed.get(session);
    const error = this.refuse(session, epoch);
    if (error || !placed) return { error };
    placed.hooks++;
    return {
      end: () => {
        placed.hooks--;
        this.ended(session);
      },
    };
  }

  /** Waits while the plugin decides about an idle session. @param {string} session */
  async #decided(session) {
    for (let at; (at = this.#placed.get(session)?.deciding); ) await at;
  }

  /** Notes the end of a call. @param {string} session */
  ended(session) {
    const placed = this.#placed.get(session);
    if (placed) this.#touch(session, placed);
  }

  /** Notes that a session was used: those that were not come first. @param {string} session @param {any} placed */
  #touch(session, placed) {
    placed.used = performance.now();
    placed.kept = false;
    this.#placed.delete(session);
    this.#placed.set(session, placed);
  }

  /** Makes room for one more session: the one used the longest ago goes, of those where nothing runs. */
  #room() {
    if (this.#placed.size < maxSessions) return;
    for (const [session, { open, ended, hooks }] of this.#placed) {
      if ((open || ended) && hooks === 0 && !this.runs(session)) return void this.#placed.delete(session);
    }
  }

  /** @param {wire.SessionStart} start @returns {Promise<wire.Placed>} */
  async start({ session, parent, epoch, labels = {}, idle_ms = 0 }) {
    await this.#decided(session);
    let placed = this.#placed.get(session);
    if (placed && (epoch < placed.epoch || (placed.ended && epoch === placed.epoch))) return { error: { code: "not_owner", field: "epoch", message: `session ${session} has epoch ${placed.epoch}` } };
    if (placed?.epoch !== epoch) {
      placed = { epoch, started: (async () => this.plugin.onSessionStart?.({ session, parent, epoch, labels }))(), open: false, used: performance.now(), hooks: 0, idleMs: idle_ms, kept: false, ended: false };
      if (!this.#placed.has(session)) this.#room();
      this.#placed.set(session, placed);
    }
    try {
      await placed.started;
      placed.open = true;
      return {};
    } catch (err) {
      if (this.#placed.get(session) === placed) this.#placed.delete(session);
      throw err;
    }
  }

  /** Decides about sessions that are idle for twice the time after which nodes say so: the node that would is gone. */
  tick() {
    for (const [session, { epoch, idleMs, open, kept, used }] of this.#placed) {
      const quiet_ms = 2 * idleMs;
      if (quiet_ms > 0 && open && !kept && performance.now() - used >= quiet_ms) {
        this.idle({ session, epoch, quiet_ms }, this.runs(session)).catch(console.error);
      }
    }
  }

  /** @param {wire.Idle} idle @param {boolean} busy @returns {Promise<wire.IdleAnswer>} */
  async idle({ session, epoch, quiet_ms }, busy) {
    const placed = this.#placed.get(session);
    if (busy || !placed?.open || placed.kept || placed.hooks > 0 || placed.epoch !== epoch) return { ended: false };
    if (performance.now() - placed.used < quiet_ms) return { ended: false }; // another node has sent a call since
    placed.open = false; // a call that arrives meanwhile needs a new placement where the session ends
    let ended = false;
    const decision = (async () => (await this.plugin.onIdle?.(session)) === true)();
    placed.deciding = decision.catch(() => {});
    try {
      ended = await decision;
    } finally {
      placed.open = placed.kept = !ended;
      placed.deciding = undefined;
    }
    placed.ended = ended; // it stays known: a late repeat of its start must not start it again
    return { ended };
  }
}
