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
// A worker acks a message only when the session owes nothing more, so turns
// that were queued behind the one it ran are covered by that same message.
//
// The session's plugins are built once in a process and brought to what the
// history has before they are asked. What they decide at a point is an effect
// like a model's reply: it is recorded with what follows from it, and only then
// counts. A turn that waits for an approval or a pending call is parked: no
// worker holds it, and the answer's own command brings one.
//
// Background tasks and monitors are run by [Tasks] in the same way: the claim
// is task.started, the queue's message stands as long as the task lives. Before
// a worker takes a task over it asks the one that has it: no answer means gone.
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
// Who runs what is decided by sequences and by the queue, never by comparing
// the clocks of two machines. Wall clocks are recorded (the time of a commit,
// of traces) and measured with (durations, by the monotonic clock). One place
// compares: whether a session is idle, for the archiver, holds the node's clock
// against the time that a server gave the last commit. A clock that is ahead
// makes sessions cold early, which costs time and loses nothing.
package workers
