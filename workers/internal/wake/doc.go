// Package wake finds the sessions that need a worker, and lets workers send each other requests. It has the peers of a
// worker ([Peers]), the sweep that repairs lost hints ([Sweeper]), and the attempts that the history cannot count
// ([Trials]).
//
// Everything here is a hint. The history decides what a session needs ([turn.NeedsWorker]). The event turn.started decides
// which worker runs a turn, and the guarded append is the only fence.
//
// The package comment of workers has the diagrams of a wake and of a takeover.
package wake
