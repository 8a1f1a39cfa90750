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
package session
