// Package watch observes sessions: their commits and deltas in order, the events of one turn, and the end of a turn.
// Hosts and clients use it. It writes nothing.
package watch
