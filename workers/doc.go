// Package workers is a node: the part of lash that runs in one process for the sessions of a bus. An embedder makes a
// node with [NewNode], configures its providers, plugins, task runners and roles, and starts and stops it. Package
// embedded does so in one call, with a server in the same process.
//
// The packages below internal do the work: wake (which sessions need a worker, which workers live), run (turns), call (one
// model call, one tool call), task (background tasks and monitors), trace.
//
// # The log decides
//
// A host that accepts a command appends its event with a guard and responds. Then it publishes a wake: an empty
// message which says that the session needs a worker. A worker claims a turn with the event turn.started. The guarded
// append is the only fence of a session: it fails if another append came first. A wake that is lost, duplicated, late, or
// acknowledged by the wrong worker costs time and nothing else.
//
// # States of a wake
//
// The queue stores at most one wake for each session, two for one of an agent, and one for each task.
//
//	          publish: replaces the stored wake in any state;
//	          the new wake is the last of the queue
//	              │
//	(none) ──────►▼
//	  ▲       ┌────────┐   deliver   ┌───────────┐  progress, every third of AckWait
//	  │       │ queued │────────────►│ delivered │◄──┐
//	  │       └────────┘             └───────────┘───┘
//	  │            ▲                   │ │ │ │
//	  │            │ 1. no progress for AckWait, or returned by the worker
//	  │            └───────────────────┘ │ │ │
//	  │ 2. ack: the state at the end of the log needs nothing
//	  ├──────────────────────────────────┘ │ │
//	  │ 3. transfer: the worker that runs the turn has the wake
//	  │                        delivered ◄─┘ │
//	  │ 4. the stream is purged or deleted   │
//	  └──────────────────────────────────────┘
//
//	transition, fault                      how the system survives it
//	a publish is lost                      the sweep finds a session that needs a worker and has no wake
//	a publish is duplicated                one message for each subject: the second replaces the first
//	1 the worker dies, session's wake      the worker that watches it publishes the wake again after half a second
//	1 the worker dies, task's wake         the queue delivers it again after AckWait
//	1 the worker hangs                     the queue delivers it again after AckWait; the worker's next append conflicts
//	1 returned: the pool is full or stops  another worker, or the same one later, receives it
//	1 returned: a plugin cannot be built   likewise
//	1 returned: the attempt failed         the queue delivers it again after the wait of [Config.JobRetry]
//	2 the ack is for a replaced message    the new wake stays
//	2 an append happens before the ack     its own wake, published after the append, is later than the ack
//	2 the session does not exist           it needs nothing
//	2 the session has a dead letter        the command that retries the dead letter publishes a wake
//	3 delivered to the wrong worker        that worker transfers it to the worker that runs the turn
//	4 the queue is lost                    a worker creates the stream again, the sweep publishes the wakes
//
// A timer becomes a wake:
//
//	the history needs a worker at a time
//	   │ the host, the run at its end, the sweep: store or replace the session's one timer
//	   ▼
//	timer stored ──► due: delivered to any worker ──► the session's run is notified, or a wake is stored ──► acked
//
//	fault                               how the system survives it
//	the timer is not stored             the sweep stores it before it drops the session; a run stores it again when it reads the log
//	the worker dies before the ack      the timer is delivered again; the second wake replaces the first
//	another wake replaces the wake      the run stores the timer again at its end or its next read of the log: it fires at once
//	the stream lash-timers is lost      the worker that notices, or a node that starts, stores all timers again, of cold sessions too
//
// # Takeover of a turn
//
//	worker A                     log                 worker B, which received the wake
//	turn.started, attempt 1 ────►│
//	effects, appends ───────────►│
//	(dies, hangs, or runs on)    │◄─ folds to the end: A has the turn
//	  ◄──────────────────────────── request: do you run attempt 1? with the wake
//	"yes" ─────────────────────────► B drops the wake; A keeps it alive
//	"no", no subscriber,         │
//	or no response in 250 ms ──────► turn.started, attempt 2; B runs what the state needs
//	A's next append conflicts ◄──┤   A folds, finds that it is superseded, and writes nothing
//
//	step                                 how the system survives it
//	the request or response is lost      B takes over, and the guard decides
//	A dies after "yes"                   the queue delivers the wake again after AckWait, or the worker that watches A publishes it
//	two workers take over at once        both append attempt 2 at the same sequence: one conflicts, and sends a request to the other
//	every attempt kills its worker       after the attempts of [Config.JobRetry] the turn fails in the history
//	A ends the turn before B's claim     the claim conflicts; B folds, the session needs nothing, B acks
//
// A worker that stops in order appends turn.released. Its attempt then does not count as a failed one.
//
// # How long a takeover takes
//
//	fault                          the session's wake is delivered after
//	the process is killed          0.5 s: the worker that watches it, the next by id, notices that its subject has no subscriber
//	it is killed, and restarts     at the start of a node with the same [Config.Name]
//	the process hangs              [bus.AckWait]: its connection stays open
//	the wake is lost with it       the sweep: every 3 s, sessions without a commit for 4 s
//	the sweeping node is killed    the next node sweeps at once, first those that need a worker by their directory row
//
// # Clocks
//
// Sequences decide which worker runs what. Commits have the servers' time ([bus.Bus.Now]): each node asks for it every 30 s, and continues
// it with its monotonic clock. Nodes' wall clocks decide nothing about what is due, the waits between attempts, or what retention erases.
// What an effect lasted is measured with a monotonic clock. What a turn lasted is between two commits, and never negative.
package workers
