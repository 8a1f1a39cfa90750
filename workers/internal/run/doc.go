// Package run does the work that sessions need. It fetches wakes from the queue, does what the machine of package work says for
// each session, starts effects and appends the events that follow.
//
// A [Pool] has at most one run for each session. A run stores nothing that is not in the history: the claim of a turn
// is the event turn.started, and the guarded append is the fence. A run that loses its turn notices it at its next
// append or read of the log, and then continues as if its wake had just arrived.
//
// # The loop of a run
//
//	load: the cached state, or the fold of the log
//	  └─► advance: does what the machine says, step by step
//	        ├─► wait: for a result, a wake, a notification, a tick ─► advance
//	        └─► end: the session needs nothing
//
// # Files
//
//	pool.go           wakes to runs, capacity, start and stop
//	run.go            one run: load, and the loop
//	advance.go        the steps of the machine
//	claim.go          claims and takeovers of turns
//	attempt.go        attempts that may kill their worker
//	handover.go       a run gives its session up: to the turn's worker, to the queue, or because the pool stops
//	finish.go         the wake of a run that ended
//	commit.go         the batch, its append, and what follows from a conflict
//	effects.go        starts of model calls, tool calls and hooks
//	record.go         events that a running effect needs recorded first
//	wait.go           what a run waits for, and reads of the log
//	endcalls.go       calls to plugins about ended turns
//	stack.go          the plugins of the run's session
//	branch.go         turns that continue in a session of their own
//
// # How long a state is valid
//
// The log cannot fence the start of an effect: a worker that was superseded may be about to start one. If the last
// append or read of the log began more than [trusted] ago, a run asks the leader before it starts an effect. Where the
// answers themselves take longer than that, the third one counts from its arrival. Effects that two workers start
// within that time run twice, like an effect whose worker dies.
//
// The race between the ack of a wake and a new append:
//
//  1. The run reads or appends, and knows the end of the log.
//  2. Another process appends, and publishes a wake or a notification.
//  3. The run counts arrivals. If one came since the count before step 1, the run
//     reads the log again; a new wake replaces the one that the run has.
//  4. Else the run acknowledges its wake. A wake of step 2 that arrives now was
//     published later, so this ack does not remove it.
//
// # Fairness
//
// The queue has one wake for each session, or two for one of an agent. A run that did [fairTurns] turns while its pool is full publishes a new
// wake and ends without an ack: the new wake is the last of the queue.
//
// # Failure
//
// [wake.Trials] count the attempts at a turn until it makes progress, with the starts that the history has
// ([projector.Turn.Starts]). At the limit the turn fails in the history, with the reason, if it and not a neighbour on its
// nodes is the cause. A worker that cannot
// build a session's plugins returns the wake to the others. If no worker can for [Config.Patience], the turn fails.
package run
