// Package watch observes sessions: their commits and deltas in order, the events of one turn, and the end of a turn. A
// host and a client observe with it. It writes nothing.
package watch
