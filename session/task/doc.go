// Package task decides about background tasks and monitors: it computes the events to append from the session's state
// and a request. It is pure: no goroutines, clock, randomness or network. It imports events, projector, session/api and
// session/turn.
//
// The transitions of a task's state:
//
//	            running  waiting  cancel_requested  completed  failed  cancelled
//	pending        x        x            x              x        x         x
//	running                 x            x              x        x         x
//	waiting        x                     x              x        x         x
//	cancel_req.                                         x        x         x
//
// Other transitions have no events and are no error. Refusals that a caller must see are the errors of this package.
package task
