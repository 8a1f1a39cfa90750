// Package run works on what sessions owe: it takes wakes from the queue, steps
// the turn's state machine, starts effects and appends what follows. It imports
// everything below workers, and the packages wake, call and trace beside it.
//
// A [Pool] has at most one run a session. A run keeps nothing that matters: the
// claim of a turn is the event turn.started in the session's history, and the
// guarded append is the fence. A run that loses the turn finds out at its next
// append or look, and goes on as if its wake had just come.
//
// # A run's loop
//
//	load: the state at hand, or the fold of the log
//	  └─► advance: what does the state owe?
//	        nothing            look once more if a wake came since, else ack and end
//	        a time that is due append what follows from it
//	        a turn to branch   make the session where it goes on, end it here
//	        a queued turn      claim it: turn.started
//	        another's turn     hand the wake over, or take the turn over: turn.started, attempt + 1
//	        effects of ours    start those that do not run yet
//	  └─► wait: for a completion, a wake, a notification, a tick ─► advance
//
// # What a state may be trusted for
//
// An effect that starts cannot be fenced by the log: a worker that was overtaken
// may be about to start it. A run asks the leader before it starts an effect when
// its last append or look began more than [trusted] ago. What two workers start
// within that time runs twice, as an effect does whose worker dies.
//
// A session's end is known from an answered append, or from a look that began
// after the wake came. Only then a wake is acknowledged; a wake that comes
// meanwhile takes the place of the one that the run holds, and makes it look again.
//
// # Fairness
//
// The queue holds one wake a session. A run that had [fairTurns] turns while its
// pool is full publishes a new wake and ends without an ack: replacing puts the
// session at the end of the queue.
//
// # Failure
//
// Attempts that append nothing but their start are counted by the starts in the
// history ([projector.Turn.Starts]); attempts that append nothing at all by
// [wake.Trials]. The turn ends in the history with the reason. A worker that
// cannot build a session's plugins gives the wake back to the others, and ends
// the turn when no worker could for [Config.Patience].
package run
