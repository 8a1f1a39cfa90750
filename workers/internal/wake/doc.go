// Package wake is how workers find out which sessions owe work, and tell each
// other: the peers of a worker ([Peers]), the sweep that repairs lost hints
// ([Sweeper]), and the attempts that the history cannot count ([Trials]). It
// imports events, bus, projector, session and session/turn.
//
// Everything here is a hint. What a session owes follows from its history
// ([turn.NeedsWorker]); who runs a turn is the event turn.started, and the guarded
// append is the only fence.
//
// The life of a wake and of a takeover are drawn in the package comment of
// workers.
package wake
