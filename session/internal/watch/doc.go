// Package watch observes sessions: their commits and deltas in order, the events of one turn, and the end of a turn.
// Hosts and clients use it. It writes nothing.
//
//	Observe, observer        observe.go        commits and deltas as they happen; the log fills what was lost
//	history                  history.go        whether the log still has the last commit that an observer has
//	replyProgress            replyprogress.go  which delta of the reply in progress is the next
//	printing                 printing.go       which output of the running calls is the next
//	WatchTurn, turnStream    turnstream.go     the observations of one turn, with their bodies
//	eventStream              eventstream.go    session events from these observations, without any other input;
//	                                           also eventstreamdelta.go and eventstreamapproval.go
//	Run, Await               wait.go           the end of a turn, by a [states.Waiter]
package watch
