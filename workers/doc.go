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
package workers
