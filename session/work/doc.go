// Package work decides what a worker does for one session. It is pure, and imports events, projector and session/turn.
//
// A [Machine] says one [Ready] at a time. The driver does what it says, tells the machine what came of it, and asks
// again. Two drivers exist: package workers/internal/run, over the bus, and integration/sim, over a log with faults.
//
//	Ready            the driver                                        tells
//	Wait             waits for an input, at most until Ready.Until     Result, Record, Tick
//	Add              stores bodies, and folds each event: Fold         Added, or Failed
//	Append           appends the events at the sequence of Durable     Signed, then Appended
//	Reread           folds the commits that the append conflicts with  Reread
//	Read             folds the commits of others                       Synced, or Unanswered
//	Look             reads the last sequence of the log                Looked
//	Ask              asks the turn's worker whether it runs the turn   Unclaimed, or Later
//	Claim            makes its claim of a turn                         Input, or GiveUp
//	Open             builds the plugins of the turn                    (Facts.Open), or Later
//	Start            starts the effects that do not run yet            Launch
//	Answer           tells an effect what became of its events
//	Branch           creates the session of a turn                     Append, or Later
//	Notify           calls plugins about ended turns                   (Facts.Calling, Facts.Told)
//	Drop             drops the turn, which another worker has          Drop
//	HandOver, Yield  ends the run; its wake goes to another worker, or to the end of the queue
//	Fail             ends the run with Ready.Err
//	End              stores the timer; ends unless [Machine.HasNews]
//
// # The order
//
// Inputs become events first, then the batch is appended, then an effect that recorded events gets its answer. Only
// then the state decides: a turn that this run has not claimed, turns that ended, a turn to branch, a time that is due, a
// turn to claim, and last the effects of the run's turn, so that an effect starts on a state that no earlier step changes.
//
// # Guards
//
//   - At most one append is under way, with the sequence that the state has without it.
//   - A call starts only when its intent is in the log: the batch is empty, and calls that must not run twice are recorded.
//     A model call and hooks may start on a batch that lingers; the reply then counts only if it has the same prompt in the log.
//   - An effect starts only if the log ended at the state less than [Config.Trusted] ago.
//   - A run ends only if no wake and no notification came since the request that confirmed the end of the log.
//   - A result counts only for the effect that runs, of the turn that runs in the attempt that this run claimed.
package work
