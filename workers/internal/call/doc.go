// Package call runs the effects of turns: one model call ([ModelCall]), one tool call with its nested calls ([ToolCall]), the
// hooks of one point ([Hooks]). It also runs the tool calls of turns on other nodes ([Env.RunPortable]) and the direct
// completions of plugins ([Env.Complete]).
//
// An effect reads a [Snapshot] and returns a [turn.Input]: it makes no decision of the turn and appends nothing to
// the log by itself. It passes what must be durable before it continues to [ToolCall.Record].
//
// # Guarantees
//
// A panic of a provider, of a tool or of code fails its own call, and a panic of the protocol ends the turn. Neither
// leaves Run. An effect whose context has ended returns nil, and starts nothing more.
//
// A nested call is recorded before its result is returned; a call whose tool must not run twice is recorded before it
// starts. The ids of what an effect creates (sessions, tasks) follow from the effect, so an effect that runs again
// after a crash creates nothing twice.
//
// Every result can be recorded: a result with a body larger than [events.MaxBlobBytes] becomes a failure of its call,
// of class resource_limit.
//
// # Why one package
//
// The package has more than 3 000 lines because its effects share unexported parts: the snapshot with its loaded
// conversation, the directives of hooks, the limits of what an event can hold, and the conversion of results. A call of
// the model, one inside of another, one in the background and a portable one are the same dispatch. Model calls
// (model.go, room.go, modeltrace.go, stream.go, streamedparts.go, delta.go, direct.go) could be cut. Then the snapshot and the
// directives would be exported, for one caller each.
package call
