// Package events defines the history of a session: identifiers, event kinds with their payloads, commits, the codec,
// the archive file and the [Log] contract. It imports no other package of this repository and does no I/O; time and
// randomness are arguments.
//
// A [Commit] is one message of the session's stream. It has one or more events, which become part of the history all or
// none. Its sequence is the stream's sequence; its events are numbered by index. FORMAT.md is the wire specification.
//
// # Adding a kind
//
// CONTRIBUTING.md lists the places. The row in kinds.go says what other packages know of the kind: whether the turn machine
// decides its events, whether they are progress of a turn, and whether they wake a worker. Tests name the missing parts that
// every kind has.
//
// # Design
//
// A commit has the values that all its events share: session, time, actor and cause. An event's id is the commit's id
// with the event's index. For commits of one event this saves about 90 bytes per event.
//
// A failed tool call is an outcome inside tool.returned, not a kind. Calls that finish together must be in one event,
// in call order, whatever their outcomes.
//
// The encoder is that of the msgpack library, with the shortest form of each value. The decoder (cursor.go, fill.go) is our own, because it
// has to accept any input: the library's allocates as many elements as the input claims, recurses with the input's
// nesting, and panics on some input.
//
// # Size
//
// The package is large because the format is one closed set. About half are the payload types of all kinds, which share
// parts, limits and identifiers. The codec reads the table of kinds, and the archive and [MemLog] store encoded commits.
// A part in a package of its own would import all the others, or export their internals.
package events
