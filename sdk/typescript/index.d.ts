import type * as wire from "./wire.js";

/** Any JSON value. */
export type JSON = wire.JSON;

/** A JSON schema of a tool's arguments. Written in place, it gives the arguments their type. */
export type Schema = { readonly type: "object"; readonly [keyword: string]: unknown };

type Flat<T> = { [K in keyof T]: T[K] };
type Required<S> = S extends { required: readonly (infer R)[] } ? R : never;
type FromProperties<P, R> = Flat<
  { -readonly [K in keyof P as K extends R ? K : never]: FromSchema<P[K]> } & { -readonly [K in keyof P as K extends R ? never : K]?: FromSchema<P[K]> }
>;

/** The type of the values that a JSON schema accepts. What it does not cover (such as `anyOf`) is `any`. */
export type FromSchema<S> =
  S extends { const: infer C } ? C
  : S extends { enum: readonly (infer E)[] } ? E
  : S extends { type: "string" } ? string
  : S extends { type: "integer" | "number" } ? number
  : S extends { type: "boolean" } ? boolean
  : S extends { type: "null" } ? null
  : S extends { type: "array"; items: infer I } ? FromSchema<I>[]
  : S extends { type: "object"; properties: infer P } ? FromProperties<P, Required<S>>
  : any;

/** What a tool is given beside its arguments. */
export interface Call {
  readonly session: string;
  readonly turn: string;
  /** Unique in the session, the same for every attempt. */
  readonly id: string;
  /** The id that the model gave the call. */
  readonly modelCall: string;
  /** Idempotency key: the same for every attempt. */
  readonly key: string;
  /** The call may have reached this instance before. */
  readonly again: boolean;
  /** The call must not run twice, whatever the tool declares. */
  readonly once: boolean;
  /** Aborts when the call is cancelled. Its reason is an `AbortError` with `graceMs`, the time that the tool has to end. */
  readonly signal: AbortSignal;
  /** Shows text to the people that watch the call. It never waits, and text may be lost: the result counts. */
  print(text: string, stream?: "stdout" | "stderr" | "log" | "progress"): void;
  /**
   * Performs a request of lash's HTTP API, which the operator must allow. The id is a token, unique in the call: equal
   * code must give equal requests equal ids, so that a second attempt gets the answers of the first one.
   * It rejects when the call is cancelled, and when `signal` aborts.
   */
  request(id: string, method: wire.Callback["method"], path: string, body?: JSON, options?: { signal?: AbortSignal }): Promise<{ status: number; body: any }>;
  /**
   * Asks people, who see the details with the question, and waits for their answer: maybe for days. The operator must allow
   * `ask`. The id is as that of a request. It rejects when the call is cancelled, and where the call cannot wait. When `signal`
   * aborts, or the tool returns before people answer, the question is withdrawn.
   */
  ask(id: string, question: string, details?: JSON, options?: { signal?: AbortSignal }): Promise<wire.Answer>;
  /**
   * Writes a trace event, which the operator of the node reads. The operator must allow `trace`. The id is as that of a request.
   * It resolves to the status of HTTP: 204, also where no trace is written.
   */
  trace(id: string, event: wire.Trace): Promise<number>;
  /**
   * Stores bytes in the call's session, at most 20 MiB, and returns what an attachment refers to. The operator must allow `storeBlob`.
   * Equal bytes are stored once for all attempts of the call.
   */
  storeBody(data: Uint8Array): Promise<{ digest: string; size: number }>;
  /** Reads bytes that the call's session has, at most 20 MiB. The operator must allow `getBlob`. */
  readBody(digest: string): Promise<Uint8Array>;
}

/** A picture or a file: its bytes, or a body that the call's session has. */
export type Attachment =
  | { mediaType: string; data: Uint8Array; digest?: undefined; size?: undefined }
  | { mediaType: string; digest: string; size: number; data?: undefined };

/** The result of a tool, where text is not enough. */
export interface Result {
  /** For the model. */
  text?: string;
  /** Their bytes are at most 5 MiB each and 20 MiB in all. */
  attachments?: Attachment[];
  /** `finish` ends the turn with this result, `fail` fails it. */
  control?: "finish" | "fail";
  /** Events for the clients that watch the session. */
  emit?: JSON[];
  /** The tool ended because of a cancel; `text` is what it has. */
  cancelled?: boolean;
}

export interface ToolDefinition<S> {
  /** For the model. */
  description?: string;
  /** Missing: any object. */
  schema?: S;
  /** `none`: a call changes nothing. `idempotent`: a repeat with the same `key` does no harm. Missing: a call runs at most once. */
  effects?: "none" | "idempotent";
  /** Limit of one call. Missing: none. */
  timeoutMs?: number;
  /** Runs alone, after the other calls of its reply. */
  serial?: boolean;
  /**
   * Runs the tool. It may throw {@link Failure}; any other exception is a failure of class `internal`, and an
   * `AbortError` after a cancel is a cancelled call.
   */
  run(args: FromSchema<S>, call: Call): string | Result | void | Promise<string | Result | void>;
}

export type Tool = ToolDefinition<any>;

/** Gives `args` of `run` the type of the schema. */
export function tool<const S extends Schema>(definition: ToolDefinition<S>): Tool;

/** The failure of a tool. The model reads the message. */
export class Failure extends Error {
  constructor(message: string, options?: { class?: wire.Failure["class"]; code?: string; safe?: boolean });
  /** Missing: `execution`. */
  readonly class?: wire.Failure["class"];
  /** Of your choice. */
  readonly code?: string;
  /** A retry does no harm. */
  readonly safe?: boolean;
}

type Of<K extends wire.Directive["kind"]> = wire.Directive & { kind: K };
type Emits = Of<"emit_events" | "emit_trace">;

/** The directives that a hook at each point may return. */
export interface Directives {
  before_turn: Of<"abort_turn" | "enqueue_messages"> | Emits;
  before_model_call: Of<"abort_turn" | "contribute" | "system_prompt" | "switch_frame"> | Emits;
  before_tool_call: Of<"abort_turn" | "replace_tool_args" | "ask_approval" | "short_circuit_tool"> | Emits;
  after_tool_call: Of<"abort_turn" | "enqueue_messages" | "short_circuit_tool"> | Emits;
  checkpoint: Of<"abort_turn" | "enqueue_messages"> | Emits;
  after_turn: Of<"enqueue_messages"> | Emits;
  turn_finalized: never;
  turn_persisted: never;
  session_restored: never;
  session_config_changed: never;
  [custom: `custom.${string}`]: never;
}

interface HookedCall {
  readonly id: string;
  readonly modelCall: string;
  /** The same as the tool's; empty from an earlier node. */
  readonly key: string;
  /** An earlier node may have started the call. */
  readonly again: boolean;
  /** The call must not run twice, whatever the tool declares. */
  readonly once: boolean;
  /** Another call made it, or it runs in the background. */
  readonly inner: boolean;
  readonly tool: string;
  readonly args: any;
}

/** What hooks at each point are given, beside {@link HookEvent}. */
export interface HookData {
  before_turn: { readonly input: string; readonly messages: number };
  /** `iteration` is the index of the model call in the turn, from 0. `lastPrompt` and `window` are tokens, 0 where unknown. */
  before_model_call: { readonly iteration: number; readonly messages: number; readonly lastPrompt: number; readonly window: number };
  before_tool_call: { readonly call: HookedCall };
  after_tool_call: { readonly call: HookedCall & { readonly result: wire.HookedResult; readonly millis: number } };
  checkpoint: { readonly at: "after_work" | "before_completion" };
  after_turn: { readonly ending: wire.Ending };
  turn_finalized: { readonly ending: wire.Ending; readonly data: any };
  turn_persisted: { readonly ending: wire.Ending; readonly data: any };
  session_restored: { readonly data: any };
  session_config_changed: { readonly data: any };
  /** `firedBy` is the plugin that fired the point. The session is the one that it names. */
  [custom: `custom.${string}`]: { readonly firedBy: string; readonly data: any };
}

export type Point = keyof HookData;

/** What every hook is given. */
export interface HookEvent {
  readonly session: string;
  readonly turn: string;
  /** The same for every repeat. */
  readonly invocation: string;
  /** An observing hook may have had this event before. */
  readonly redelivered: boolean;
  /** Aborts when the node no longer waits for the answer. */
  readonly signal: AbortSignal;
}

type Answer<D> = D | D[] | void;

export interface HookDefinition<P extends Point> {
  point: P;
  /** At the points of calls: only calls of these tools. Missing: all. */
  tools?: string[];
  /** At most 15 000. Missing: 5 000. */
  timeoutMs?: number;
  /** A failure skips the hook, and the history says so. Not at `before_tool_call`. */
  failOpen?: boolean;
  /** An exception is a failure of the hook. */
  run(event: HookEvent & HookData[P]): Answer<Directives[P]> | Promise<Answer<Directives[P]>>;
}

export type Hook = { [P in Point]: HookDefinition<P> }[Point];

/** Ends the turn; at the points of calls the call only. */
export function abortTurn(code: string, message?: string): Of<"abort_turn">;
export function enqueueMessages(...messages: wire.Said[]): Of<"enqueue_messages">;
export function replaceToolArgs(args: JSON): Of<"replace_tool_args">;
/** Asks a person. Without `withinMs` the answer may take any time. */
export function askApproval(message: string, options?: { withinMs?: number }): Of<"ask_approval">;
/** Gives the result in place of the tool; after the call it replaces the result. A missing outcome is success. */
export function shortCircuitTool(text: string, outcome?: string): Of<"short_circuit_tool">;
/** Adds to the system prompt for the rest of the turn, in place of what the plugin contributed at earlier model calls of it. */
export function contribute(...contributions: wire.Fragment[]): Of<"contribute">;
/** Replaces the session's instructions for the rest of the turn, where the operator allows it. */
export function systemPrompt(text: string): Of<"system_prompt">;
/** Goes on with the task in a new frame, in place of the model call, where the operator allows it. `frame` is new in the session. */
export function switchFrame(frame: string, task: string, ...messages: wire.Said[]): Of<"switch_frame">;
export function emitEvents(...events: JSON[]): Of<"emit_events">;
/** Writes a trace event for the operator. The node adds the place to the context. */
export function emitTrace(name: string, payload?: JSON, context?: wire.TraceContext): Of<"emit_trace">;

export interface SessionStart {
  readonly session: string;
  /** The session that this one is a child of. */
  readonly parent?: string;
  /** Which placement of the session this is: 1 for the first one, and more each time it moved or ended. */
  readonly epoch: number;
  readonly labels: Readonly<Record<string, string>>;
}

export interface Plugin {
  /** Used where the environment has no `LASH_PLUGIN`. */
  name: string;
  /** 1 to 64 bytes. All instances of one version have the same tools, hooks and prompt. */
  version: string;
  /** `session`: one instance serves a session. Missing: any instance serves any call. */
  scope?: "session";
  tools?: Record<string, Tool>;
  hooks?: Record<string, Hook>;
  prompt?: wire.Fragment[];
  /** With scope `session`: before the first call or hook of a session. An exception refuses the session. */
  onSessionStart?(start: SessionStart): void | Promise<void>;
  /** With scope `session`: it had no call for some time. True ends it: what you keep for it may go. */
  onIdle?(session: string): boolean | Promise<boolean>;
}

/** Gives the definition its types. */
export function definePlugin(plugin: Plugin): Plugin;

export interface Options {
  /** The variables `LASH_PLUGIN*`. Defaults to the environment of the process. */
  env?: Record<string, string | undefined>;
  /** Makes this version the current one, although a later one has replaced it. */
  rollback?: boolean;
}

export interface Instance {
  readonly id: string;
  /** Resolves when the instance has ended: with the reason, where it did not end by a drain. */
  readonly closed: Promise<Error | undefined>;
  /** Takes no new calls, serves those that run, and closes the connection. SIGTERM and SIGINT do so. */
  drain(): Promise<void>;
  /** Calls the hooks that other plugins have at the point `custom.NAME`. Returns the plugins whose hooks returned. */
  fire(point: `custom.${string}`, options?: { session?: string; data?: JSON }): Promise<string[]>;
}

/** Nodes refuse a request of the plugin. */
export class Refused extends Error {
  constructor(error: wire.Error);
  readonly code: wire.Error["code"];
  readonly field?: string;
}

/**
 * Connects, registers the plugin, and serves it until a drain. Returns when nodes have registered it, and says so on standard
 * error; it waits while no node runs. Rejects with {@link Refused} where the registration is refused. A variable LASH_PLUGIN*
 * whose value is wrong ends the program with status 2 and one line, which names the variable and the rule; in `options.env` it
 * makes the promise reject.
 */
export function serve(plugin: Plugin, options?: Options): Promise<Instance>;
