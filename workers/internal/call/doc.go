// Package call runs the effects that turns owe: one model call ([Model]), one
// tool call with the calls inside it ([Tool]), the hooks of one point ([Hooks]).
// It also runs the tool calls of turns on other nodes ([Env.RunRemote]) and
// answers the model calls of plugins ([Env.Complete]).
//
// An effect reads a [Snapshot] and returns a [turn.Input]: it decides nothing of
// the turn and appends nothing to the log by itself. What must be durable before
// an effect goes on is passed to [Tool.Record].
//
// # Guarantees
//
// A panic of a provider, of a tool or of code fails its own call, a panic of the
// protocol ends the turn, and neither leaves Run. An effect whose context has
// ended returns nil, and starts nothing more.
//
// A call inside another is recorded before its result is returned; one whose
// tool must not run twice is recorded before it starts. What an effect creates
// (sessions, tasks) has names that follow from the effect, so an effect that runs
// again after a crash creates nothing twice.
//
// A result can be recorded: a result with a body that is larger than
// [events.MaxBlobBytes] becomes a failure of its call, of class resource_limit.
//
// The package imports events, bus, projector, session and what is below that,
// and workers/llm. It does not import workers.
package call
