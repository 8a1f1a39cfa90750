/** @import * as api from "../index.js" */
/** @import * as wire from "../wire.js" */

/** @type {typeof api.tool} */
export const tool = (definition) => definition;

/** @type {typeof api.definePlugin} */
export const definePlugin = (plugin) => plugin;

export class Failure extends Error {
  /**
   * @param {string} message
   * @param {{ class?: wire.Failure["class"], code?: string, safe?: boolean }} [options]
   */
  constructor(message, options = {}) {
    super(message);
    this.name = "Failure";
    this.class = options.class;
    this.code = options.code;
    this.safe = options.safe;
  }
}

export class Refused extends Error {
  /** @param {wire.Error} error */
  constructor(error) {
    super(`${error.code}${error.field ? ` (${error.field})` : ""}: ${error.message}`);
    this.name = "Refused";
    this.code = error.code;
    this.field = error.field;
  }
}

/** @type {typeof api.abortTurn} */
export const abortTurn = (code, message) => ({ kind: "abort_turn", code, message });

/** @type {typeof api.enqueueMessages} */
export const enqueueMessages = (...messages) => ({ kind: "enqueue_messages", messages });

/** @type {typeof api.replaceToolArgs} */
export const replaceToolArgs = (args) => ({ kind: "replace_tool_args", args });

/** @type {typeof api.askApproval} */
export const askApproval = (message, options) => ({ kind: "ask_approval", message, within_ms: options?.withinMs });

/** @type {typeof api.shortCircuitTool} */
export const shortCircuitTool = (text, outcome) => ({ kind: "short_circuit_tool", result: { text, outcome } });

/** @type {typeof api.contribute} */
export const contribute = (...contributions) => ({ kind: "contribute", contributions });

/** @type {typeof api.systemPrompt} */
export const systemPrompt = (text) => ({ kind: "system_prompt", text });

/** @type {typeof api.switchFrame} */
export const switchFrame = (frame, task, ...messages) => ({ kind: "switch_frame", frame, task, messages });

/** @type {typeof api.emitEvents} */
export const emitEvents = (...events) => ({ kind: "emit_events", events });

/** @type {typeof api.emitTrace} */
export const emitTrace = (name, payload, context) => ({ kind: "emit_trace", name, payload, context });

/**
 * The manifest of a plugin.
 * @param {api.Plugin} plugin
 * @returns {wire.Manifest}
 */
export function manifest({ version, scope, tools = {}, hooks = {}, prompt }) {
  return {
    version,
    scope,
    tools: Object.entries(tools).map(([name, { description, schema, effects, timeoutMs, serial }]) => ({
      name, description, schema, effects, timeout_ms: timeoutMs, serial,
    })),
    hooks: Object.entries(hooks).map(([name, { point, tools, timeoutMs, failOpen }]) => ({
      name, point, tools, timeout_ms: timeoutMs, fail_open: failOpen,
    })),
    prompt,
  };
}
