// Package client is the session service for programs that are no node: the
// same methods as the in-process host's, over NATS.
//
// What decides something is asked of a node, of any that serves (package
// service). What reads is done here, from the same streams and buckets that
// nodes read: so a watcher sees a session while every node is dead, and it
// takes no permission to write a stream, nor to read the work queue.
//
//	decides   request to <prefix>.api.<operation>, answered by one node of a queue group: [operation.Remote]
//	reads     State, StateAt, View, ViewAt, Observe, Sessions, Turns, PendingApprovals, Approvals, Tasks, Task,
//	          ToolOutput, AssembledTurn, FindBlob, ReadBlob, and the waiting of Run, Await and StartTurnStream
//
// A turn that was accepted is in the history: Await of one that the history
// does not have is [api.ErrUnknownTurn], and asks no node.
//
// # Encoding
//
// Requests and answers are msgpack as in events ([events.EncodePayload]): texts
// and bodies travel as they are, which counts where a message has at most
// 1 MiB, and the decoder is the one that reads histories, which is bounded and
// fuzzed. They are decoded strictly: an unknown field is refused, as it would
// be part of what is asked. Programs in other languages use HTTP and JSON.
//
// A request has at most [api.MaxRequestBytes]; above, it is an
// [*events.FieldError] that is [events.ErrTooLarge], here. Large bodies of
// parts are put into blobs first ([Client.PutBlob]), and named by their
// references.
//
// # Asking again
//
// A request whose answer does not come is asked again, the same bytes, of
// whichever node gets it, until ctx ends; then the error is
// [events.ErrOutcomeUnknown], or [bus.ErrNobody] alone where no node ever took
// it: then it was not done. A node that takes long says so, and is waited for.
// A repeat, also one that arrives late or while the first is worked on, has no
// second effect, and the same answer. How it is known is a column of the table
// of operations ([operation.Repeat]):
//
//	by its id    of what it makes: a turn, an input, nodes. The same id with the same content is the same one
//	by its key   of the commit that the first made: the repeat finds it, and is answered from the state
//	             before it. What was taken is so never lost with a reply; a request for updates takes only
//	             updates older than the request. A completion's reply is read back, and no model asked. A repeat
//	             about a task, or of AppendNodes, is answered with the present state
//	looks        there is nothing to repeat: asking again is as good
//	once         an action is sent once, and again only if no node received it. A lost reply is [events.ErrOutcomeUnknown]
//
// An extension of which the protocol kept nothing leaves no key, and nothing to repeat.
//
// With the key the commit records a digest of the request: its caller,
// operation, target and body. The fold knows all keys of a session and where
// they were used, and every append is guarded by the state that was looked at:
// the key in any other request is [api.ErrDifferent], whatever it makes. An id
// names a thing and no request: another request may have it as its key.
//
// The key is made here for each call, unless the request has one. A request that
// changed nothing, or was refused, leaves no key behind: if a paused
// node processes one try after another node has answered, it decides that try on
// the state of that moment. A caller that calls a method again after it
// gave up makes a new request, unless the ids and keys in it are its own.
//
// # Completions as they come
//
// [plugin.CompletionRequest.Stream] gets the pieces of a completion, which come to this client's inbox alone, before Complete
// returns the whole, which is as without it. It must not block: what it does not take in time is dropped. Pieces are sent once.
// Where one was lost, or another node is asked since the first does not answer, what came is taken back with a Reset.
// When ctx ends, the node cancels the call of its model. It does so 10 s after the last word of a client that is gone.
//
// # Tasks of this program
//
// A task that [Client.RegisterTask] registers is run by the program that calls
// it. No worker looks at it: its record has neither a runner nor a worker, and its state is running.
// The program says how it goes:
//
//	running ──ProgressTask──► running
//	running ──RequestCancelTask, by anybody──► cancel_requested
//	running, cancel_requested ──EndTask──► completed, failed, cancelled
//	running, cancel_requested ──CancelTask, CancelTasks, close of the session──► cancelled
//
// Nothing calls the program back. It sees that it should stop, or that the
// task has ended, in the session: Observe shows task.cancel_requested and
// task.ended, State and Task have the state, and ProgressTask returns it.
package client
