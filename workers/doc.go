// Package workers runs what sessions owe: it takes commands from the queue,
// steps the turn's state machine, starts model and tool calls, and records
// what came of them.
//
// A worker keeps nothing that matters. The claim of a turn is the event
// turn.started in the session's history; the queue's message, kept by
// progress acks, only tells when a worker has gone quiet. Whoever gets the
// message then folds the history, appends turn.started with the next attempt
// and goes on with what the state still owes. The guarded append is the fence:
// the old worker's next one conflicts, it folds again, sees another worker's
// name and stops ([ErrSuperseded]).
//
// The fence is in the log, so it cannot stop an effect that an overtaken worker
// is about to begin. Such a worker learns late of what it appended, or has waited for a
// call: the other one has then run what follows, and recorded it. Where the last
// append or look of a run began more than 150 ms ago ([trusted]) it asks the
// leader before it begins an effect. What two workers begin within that time
// runs twice, as an effect does whose worker dies.
//
// A worker acks a message only when the session owes nothing more, so turns
// that were queued behind the one it ran are covered by that same message. The
// queue takes an ack of whoever had a message, however late. So no queued turn is
// claimed, and no other message's turn taken over, under a message that came
// before to somebody who fell quiet: the worker puts a new command there that
// asks for nothing, and covers them, and acks the old one.
//
// A turn that is asked for while another one runs or waits is recorded by
// whoever has its message, and what its policy makes of the two in the same
// guarded append: a death leaves both undone or done. What may follow (the end
// of an interrupted turn that no worker holds, the session of one that branches)
// is owed by the state from then on, and the message stays until it is done or
// the running turn's message covers it.
//
// The session's plugins are built once in a process and brought to what the
// history has before they are asked. What they decide at a point is an effect
// like a model's reply: it is recorded with what follows from it, and only then
// counts. A turn that waits for an approval or a pending call is parked: no
// worker holds it, and the answer's own command brings one.
//
// Attempts that come to nothing are counted durably ([JobRetry]); what a turn
// records begins the count anew. Once it is full the job becomes a dead letter,
// and what it is about ends in the history with the reason.
//
// Background tasks and monitors are run by [Tasks] in the same way: the claim
// is task.started, the queue's message stands as long as the task lives. Before
// a worker takes a task over it asks the one that has it: no answer means gone.
//
// # Fairness
//
// The queue hands commands out in the order they came. So that a flood of one
// session's holds nobody up, a worker without a free slot goes on looking, for
// what no other worker waits for: commands of sessions that run here are
// recorded behind their turns, the others wait in its room for a slot, or for a
// worker that asks. A run that had eight turns while its worker is full makes
// place: a new command, which asks for nothing and stands behind all that wait,
// covers what the session has queued. Where nobody waits in its own room, the
// worker first has another give back the session that waits longest in that
// one's: so each eight turns of a flood let somebody in, however slow the worker
// is that came to him first.
//
// # Drain
//
// A worker that is stopped begins nothing more. Calls in flight may land until
// its time is over, and those that the history says have begun are run, as
// nobody else may; then the job is given back, and the next worker goes on at
// once. What a node cannot hand over, the queue does, [bus.AckWait] later.
// Where the queue itself lost a command, a [Sweeper] finds out.
//
// # How long a takeover takes
//
// The queue delivers a job again [bus.AckWait] after the last sign of life.
// Nodes need not wait for that where a process has ended: they watch each
// other in a ring, the servers know at once that nobody listens for one that
// is gone, and its jobs are given back to the queue on its behalf, half a
// second after a kill. A node that comes back under the same [Config.Name]
// does that for its own last run at once. A process that is frozen is not gone:
// it keeps its connection, and the queue alone tells. A worker that is wrongly
// believed gone is superseded, as one that went quiet: that costs the effects
// under way.
//
// # Clocks
//
// Who runs what is decided by sequences and by the queue. Wall clocks are
// recorded (the time of a commit, of traces) and measured with (durations, by the
// monotonic clock). Where two machines' clocks are compared, one that is wrong
// costs time: sessions become cold early or late, a sweep looks early, a wait
// between attempts is cut short, a late delivery is tried once more, a deadline that a
// hook gives for an approval is reckoned from its node's clock. Timers are the
// server's to fire. What erases for good, retention, asks a server for the time,
// and holds it against the time that the appending node gave the last commit.
package workers
