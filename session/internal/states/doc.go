// Package states keeps the folded states of the sessions that a process worked on last, one state a session: it loads a
// state once, applies the live commits of a session to it, and waits until a state meets a condition.
package states
