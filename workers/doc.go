// Package workers is a node: what one process runs for the sessions of a bus.
// Embedders make one with [NewNode], give it providers, plugins, runners and
// roles, and start and stop it. The work is done by the packages below
// internal: wake (who owes work, and who lives), run (turns), call (one model
// call, one tool call), task (background tasks and monitors), trace.
//
// # Who decides
//
// The log decides. A host that accepts a command appends its event, guarded,
// and answers; then it publishes a wake, an empty message that says "this
// session owes work". The claim of a turn is the event turn.started, and the
// guarded append is the only fence. A wake that is lost, doubled, late or acked by the wrong
// worker costs time, and nothing else.
//
// # Life of a wake
//
// The queue holds at most one wake of each session, and one of each task.
//
//	              publish: replaces the wake that is there, held
//	              or not, and goes to the end of the queue
//	                  │
//	 (none) ─────────►▼
//	   ▲          ┌─────────┐   deliver    ┌──────┐  progress, every third of AckWait
//	   │          │ waiting │─────────────►│ held │◄──┐
//	   │          └─────────┘              └──────┘───┘
//	   │               ▲                    │ │ │ │
//	   │               │ 1. silent for AckWait, or given back
//	   │               └────────────────────┘ │ │ │
//	   │ 2. ack: the state at the end of the log owes nothing
//	   ├──────────────────────────────────────┘ │ │
//	   │ 3. handed over: the worker that runs the turn holds it from now on
//	   │                                held ◄──┘ │
//	   │ 4. the stream is purged or deleted       │
//	   └──────────────────────────────────────────┘
//
//	transition            the fault that it survives
//	a publish is lost     the sweep finds a session that owes work and has no wake
//	a publish is doubled  one message a subject: the second replaces the first
//	3 wrong worker        a wake that reaches another worker is handed to the one that has the turn
//	1 the holder dies     its neighbour in the ring publishes a wake of the session's turns half a second later; the queue delivers a wake of a task after AckWait
//	1 given back          by a pool that is full or stops, or lacks a plugin: another worker, or this one later, gets it
//	1 the holder hangs    the queue delivers after AckWait; the holder's next append conflicts
//	2 a stale ack         is for a message that was replaced: the new one stays
//	2 an append meanwhile has a wake of its own, published after the append: it is later than the ack
//	4 the queue is lost   a worker makes the stream again, the sweep publishes the wakes
//	2 acked unread        of a session that does not exist, or has a dead letter: whoever retries the letter wakes it
//
// A timer becomes a wake:
//
//	the history owes something at a time
//	   │ host, run at its end, sweep: store or replace the session's one timer
//	   ▼
//	timer waits ──► its time: delivered to any worker ──► a run of the session here is told, or a wake is stored ──► acked
//
//	fault                               what it survives by
//	the timer is not stored             the sweep stores it, and forgets the session only then; a run stores it again when it looks
//	the worker dies before the ack      the timer is delivered again; a second wake replaces the first
//	the wake is replaced by another     the run, at its end or its next look, stores the timer again: it fires at once
//	lash-timers is lost                 the worker that finds it gone, or a node that starts, has every timer stored again, of cold sessions too
//
// # Life of a takeover
//
//	holder                       log                 another worker, with a wake
//	turn.started, attempt 1 ────►│
//	effects, appends ───────────►│
//	(dies, hangs, or not)        │◄─ folds to the end: the turn is the holder's
//	  ◄──────────────────────────── asks: do you run attempt 1? here is the wake
//	"mine" ────────────────────────► drops the wake; the holder keeps it alive
//	"not mine", no listener,     │
//	or no answer in 250 ms ────────► turn.started, attempt 2; goes on with what is owed
//	the next append conflicts ◄──┤   the holder folds, is superseded, and writes nothing
//
//	step                               the fault that it survives
//	the question or answer is lost     the asking worker takes over, and the guard decides
//	the holder dies after "mine"       the wake comes again after AckWait, or its neighbour publishes one
//	two workers take over at once      both append attempt 2 at one sequence: one conflicts, and asks again
//	the holder ends the turn first     the claim conflicts; the asking worker folds, owes nothing, and acks
//
// A worker that stops in order appends turn.released, so that its attempt does
// not count as a failed one.
//
// # How long a takeover takes
//
// Nodes watch each other in a ring: the servers know at once that no process
// listens for one that is gone, so its neighbour wakes its sessions half a
// second after a kill. A node that comes back under the same [Config.Name] does
// that at once. A process that is frozen keeps its connection: the queue
// delivers its wakes after [bus.AckWait]. A wake that is lost with its worker is
// repaired by the sweep, which looks every 3 s at sessions that are quiet for 4 s.
// The node that sweeps may be the one that is gone: its successor sweeps at once,
// first the sessions whose directory row says that they owe work.
//
// # Clocks
//
// Sequences decide who runs what. Wall clocks are recorded, and durations are
// measured by the monotonic clock. Where two machines' clocks are compared, one
// that is wrong costs time: a wait between attempts is cut short, sessions become
// cold early or late, a node whose clock is behind leaves timers to others. What
// is due is the servers' to tell: a wake that a timer led to says which time has
// passed. Retention, which erases, asks a server for the time.
package workers
