// Package session is the host: it creates sessions, submits turns, appends to
// the graph, injects, cancels, forks and observes. Any number of hosts may
// work on the same session at once, from any process.
//
// A request for a turn is one durable command in the queue; everything else
// is decided on folded state and appended with its sequence, so that a
// decision lands only if the session has not moved. Where it has, the host
// folds what is new and decides again.
package session
