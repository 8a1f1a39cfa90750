// Package task decides about background tasks and monitors: what is appended,
// given the session's state and what was asked for. It is pure: no goroutine,
// clock, randomness or network. It imports events and projector only.
//
// The table of a task's states is that of host specification 7.3:
//
//	            running  waiting  cancel_requested  completed  failed  cancelled
//	pending        x        x            x              x        x         x
//	running                 x            x              x        x         x
//	waiting        x                     x              x        x         x
//	cancel_req.                                         x        x         x
//
// What is not in it changes nothing and is no error: no events. A decision
// that somebody must know about is refused with one of the errors here.
package task
