// Package session is the host: it decides requests on a session's state and appends their events. Any number of hosts
// may work on the same session at once, from any process.
//
// The log decides. A host decides a request on folded state and appends its events with the session's last sequence.
// The request is accepted when its event is in the session's stream, and only if the session has not changed since
// the decision. Where it has, the host folds the new commits and decides again. After the append the host publishes a
// wake, a hint that a node should read the session ([Host.Wake]). A lost wake delays the turn, and loses nothing.
//
// Plugins take part in some decisions: configurations, appended nodes and messages, tools, actions, compaction. A
// host without plugins refuses these requests as [plugin.ErrUnavailable], unless [Config.NoPlugins] says that no node
// has such plugins. It accepts a turn's input and the protocol of a new session; the worker that starts the turn
// calls the plugins for them.
//
// Packages below do the rest, and import only downwards:
//
//	session                     decide and append
//	session/watch               observe, wait for turns
//	session/reader              read
//	session/internal/stack      the plugins of sessions
//	session/internal/states     one cache of states, waiting for a condition
//	session/check, hint, blob   refusals and limits; wakes and timers; bodies outside the log
//
// # Order and durability
//
//   - Commands do not wait in a queue. Each is one commit, and takes effect in the order of the log, also while a turn
//     runs. An input that comes after a command is processed after it.
//   - A session does not exist without a log. Where the log is out of reach every append is an error, and nothing is
//     written.
//   - A key stands for one command. The same key with a different command is [api.ErrDifferent]. projector.Verifier finds
//     a reply to a prompt that the history does not have.
//   - A stream of a turn's events never delays the turn: it reads the log and the published deltas. A client may read it
//     late, in part or not at all.
package session
