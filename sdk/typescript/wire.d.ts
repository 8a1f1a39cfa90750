// The messages of the plugin protocol, as session/plugin/wire/PROTOCOL.md describes them.

/** Any JSON value. */
export type JSON = null | boolean | number | string | JSON[] | { [name: string]: JSON };

export interface Registration {
  protocol: 1;
  instance: string;
  term?: string;
  manifest: Manifest;
  rollback?: boolean;
}

export interface Registered {
  error?: Error;
  hash?: string;
  term?: string;
  sign_ms?: number;
  lease_ms?: number;
}

export interface Manifest {
  version: string;
  scope?: "session";
  tools: Tool[];
  hooks?: Hook[];
  prompt?: Fragment[];
}

export interface Tool {
  name: string;
  description?: string;
  schema?: object;
  effects?: "none" | "idempotent";
  timeout_ms?: number;
  serial?: boolean;
}

export interface Hook {
  name: string;
  point: string;
  tools?: string[];
  timeout_ms?: number;
  fail_open?: boolean;
}

export interface Fragment {
  slot: "intro" | "execution" | "guidance" | "project_instructions" | "runtime_context" | "environment";
  title?: string;
  priority?: number;
  content: string;
  tools?: string[];
}

export interface Sign {
  hash: string;
  term?: string;
  draining?: boolean;
  machine?: string;
  running: number;
  calls?: number;
  failures?: number;
  withdrawn?: Question[];
}

export interface Error {
  code: "bad_request" | "conflict" | "unsupported_version" | "unknown_tool" | "draining" | "not_owner" | "too_large" | "unauthorized" | "busy" | "rate_limited" | "internal";
  field?: string;
  message: string;
}

export interface CallID {
  session: string;
  call: string;
}

export interface Question extends CallID {
  id: string;
}

export interface Call extends CallID {
  turn: string;
  model_call: string;
  key: string;
  tool: string;
  args: JSON;
  epoch?: number;
  again?: boolean;
  once?: boolean;
  term?: string;
}

export interface Progress {
  output?: Output;
  callback?: Callback;
  piece?: Piece;
  outcome?: Outcome;
  pieces?: number;
  error?: Error;
  forgotten?: boolean;
}

export interface Outcome {
  text?: string;
  attachments?: Attachment[];
  control?: "finish" | "fail";
  emit?: JSON[];
  failure?: Failure;
  cancelled?: boolean;
}

export interface Attachment {
  media_type: string;
  data?: string;
  digest?: string;
  size?: number;
}

export interface Failure {
  class?: "invalid_request" | "unavailable" | "permission_denied" | "timeout" | "execution" | "external" | "resource_limit" | "internal";
  code?: string;
  message: string;
  safe?: boolean;
}

export interface Piece {
  n: number;
  data: string;
}

export interface Output {
  seq: number;
  off: number;
  stream?: "stdout" | "stderr" | "log" | "progress";
  text: string;
}

export interface Cancel extends CallID {
  reason?: string;
  grace_ms: number;
}

export interface Callback {
  id: string;
  method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  path: string;
  body?: JSON;
}

export interface CallbackAnswer extends CallID {
  id: string;
  status: number;
  body?: JSON;
}

export interface BodyPiece {
  digest: string;
  size: number;
  offset: number;
  data: string;
}

export interface Ask {
  question: string;
  details?: JSON;
}

export interface Answer {
  granted: boolean;
  reason?: string;
  by?: string;
}

export interface Trace {
  name: string;
  payload?: JSON;
  context?: TraceContext;
}

export interface TraceContext {
  llm_call?: string;
  tool_call?: string;
  metadata?: { [key: string]: string };
}

export interface HookCall {
  hook: string;
  point: string;
  invocation: string;
  session: string;
  turn?: string;
  epoch?: number;
  term?: string;
  deadline_ms: number;
  redelivered?: boolean;
  iteration?: number;
  last_prompt?: number;
  window?: number;
  messages?: number;
  input?: string;
  call?: HookedCall;
  at?: "after_work" | "before_completion";
  ending?: Ending;
  fired_by?: string;
  data?: JSON;
}

export interface Ending {
  end: string;
  kind?: string;
  code?: string;
  message?: string;
  tool?: string;
}

export interface HookedCall {
  call: string;
  model_call: string;
  key?: string;
  again?: boolean;
  once?: boolean;
  inner?: boolean;
  tool: string;
  args: JSON;
  result?: HookedResult;
  millis?: number;
}

export interface HookedResult {
  text: string;
  outcome?: string;
}

export interface HookResult {
  directives?: Directive[];
  error?: Error;
}

export interface Directive {
  kind: "abort_turn" | "enqueue_messages" | "replace_tool_args" | "ask_approval" | "short_circuit_tool" | "emit_events" | "emit_trace" | "contribute" | "system_prompt" | "switch_frame";
  code?: string;
  message?: string;
  within_ms?: number;
  messages?: Said[];
  args?: JSON;
  result?: HookedResult;
  events?: JSON[];
  name?: string;
  payload?: JSON;
  context?: TraceContext;
  contributions?: Fragment[];
  text?: string;
  frame?: string;
  task?: string;
}

export interface Said {
  role: "user" | "system";
  text: string;
}

export interface Fire {
  point: string;
  session?: string;
  data?: JSON;
}

export interface Fired {
  error?: Error;
  reached: string[];
}

export interface SessionStart {
  session: string;
  parent?: string;
  epoch: number;
  term?: string;
  labels?: Record<string, string>;
  idle_ms?: number;
}

export interface Placed {
  error?: Error;
}

export interface Idle {
  session: string;
  epoch: number;
  quiet_ms: number;
}

export interface IdleAnswer {
  ended: boolean;
}
