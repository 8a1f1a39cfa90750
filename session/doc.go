// Package session is the host: it creates sessions, submits turns, appends to
// the graph, injects, cancels, forks and observes. Any number of hosts may
// work on the same session at once, from any process.
//
// The log decides. A request for a turn is decided on folded state and
// appended with the session's last sequence, as everything else is: it is
// accepted when its event is in the session's stream, and only if the session
// has not moved since the decision. Where it has, the host folds what is new and
// decides again. After that the host publishes a wake, a hint that some node
// should read the session ([Host.Wake]); a wake that is lost delays the turn,
// and loses nothing.
//
// A session's plugins have a say in some decisions: the configuration, nodes and messages that are appended, the
// tools, actions, compaction. A host without plugins makes none of these but refuses them, as [plugin.ErrUnavailable], unless
// [Config.NoPlugins] says that there are no such plugins. What it accepts all the same, a turn's input and
// the protocol that a new session names, the worker that starts the turn asks the plugins about.
//
// # Where others queue, or do without a log
//
//   - Commands do not wait in a queue. Each takes effect at its place in the
//     order of the log, in a commit of its own, also while a turn runs. An input
//     that comes after a command is taken after it.
//   - There is no session without a log. Where the log is out of reach every
//     append is an error, and nothing is written.
//   - A key stands for one command. The same key with another one is
//     [api.ErrDifferent], and a reply that answers another prompt than the history
//     gives is found by projector.Verifier.
//   - A stream of a turn's events never holds the turn up: it reads the log and
//     what is published, and may be read late, in part or not at all.
package session
