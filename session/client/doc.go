// Package client is the session service for programs that are not nodes: the methods of the in-process host, over
// NATS.
//
// # First lines
//
//	own, err := busembed.ReadAccess(".lash") // the key of a store; servers without keys need none
//	b, err := bus.OpenReader(ctx, bus.Config{URL: "nats://127.0.0.1:4222", Options: []nats.Option{own.Option()}})
//	c, err := client.New(client.Config{Bus: b, Actor: "me"})
//	id, err := c.Create(ctx, api.CreateRequest{})
//	turn, err := c.Submit(ctx, id, api.Ask("What is 2 + 2?"))
//	result, err := c.Await(ctx, id, turn)
//	fmt.Println(result.End, result.Text, err)
//
// The order of calls is that of package session: create, submit, then inject, approve or cancel while the turn runs, and
// close. Reads are possible at any time. A client has no end of its own: close the bus. When a call returns without an
// error, its events are in the history. The examples of [New] and [Client.Observe] are programs.
//
// # Errors to expect
//
// Errors of sessions are those of the host: see package session. A client adds
//
//	bus.ErrNoResponder         no node received the request until ctx ended: it had no effect
//	events.ErrOutcomeUnknown   a node received it, and its answer was lost: repeat it with the same ids
//	api.ErrForbidden           the caller has no right to it
//	api.RemoteError            any other error of the node, with its code
//
// # Requests and reads
//
// A request that decides something goes to any node that serves (package service). Reads use the same streams and
// buckets that nodes read. An observer needs no permission to write to a stream or to read the work queue. In the nodes'
// own account, as on an embedded server, it reads them itself, and sees a session also while every node is down. In an
// account of deploy/nats it has no access to the servers' API: any node that serves makes its reads.
//
//	decides   request to <prefix>.api.<operation>, answered by one node of a queue group: operation.Requests
//	reads     State, StateAt, View, ViewAt, Observe, Sessions, Turns, PendingApprovals, Search, Approvals, Tasks, Task,
//	          ToolOutput, AssembledTurn, FindBlobs, ReadBlob, and the waiting of Run, Await and StartTurnStream
//	either    ToolState, ToolCatalog: a node has the plugins. While none serves, the tools are those that a projector wrote last
//
// An accepted turn is in the history. Await of a turn that the history does not have is [api.ErrUnknownTurn], without
// a request to a node.
//
// # Encoding
//
// Requests and answers are msgpack as in events ([events.EncodePayload]). Texts and bodies keep their size, which
// matters because a message has at most 1 MiB. The decoder is the one that reads histories, which is bounded and
// fuzzed. Decoding is strict: it refuses an unknown field, because an ignored field would change the meaning of the
// request. Programs in other languages use HTTP and JSON.
//
// A request has at most [api.MaxRequestBytes]. Above that the client refuses it with an [*events.FieldError] that is
// [events.ErrTooLarge]. Large bodies of parts go to blobs first ([Client.PutBlob]), and the request has their
// references.
//
// # Repeats
//
// The client repeats a request without an answer, the same bytes, to any node, until ctx ends. The error is then
// [events.ErrOutcomeUnknown], or [bus.ErrNoResponder] alone where no node received the request: then it had no effect. A
// node that takes long sends signs of life, and the client waits for it. A repeat has no second effect and gets the
// same answer, also when it arrives late or while the first try is in progress. A column of the table of operations
// says how the service recognises a repeat ([operation.Repeat]):
//
//	ByID       what the request creates has an id: a turn, an input, nodes. The same id with the same content is the
//	           same one
//	ByKey      the commit of the first try has the key. The repeat finds it, and is answered from the state before
//	           it. A lost answer therefore loses no drained updates, and a request for updates drains only updates
//	           older than the request. The reply of a completion is read from the history, without a model call.
//	           A repeat about a task is answered from the current state
//	ReadOnly   the request changes nothing, so a repeat needs no key
//	Once       an action is sent once, and again only if no node received it. A lost answer is
//	           events.ErrOutcomeUnknown
//
// An extension whose protocol stored nothing leaves no key, and its repeat is a new request.
//
// The commit records the key and a digest of the request: its caller, operation, target and body. The folded state
// has all keys of a session and their commits, and each append is guarded by the state of its decision. The key in
// any other request is [api.ErrDifferent]. An id identifies a thing and not a request: another request may have it as
// its key.
//
// The client creates a key for each call, unless the request has one. A request that changed nothing, or was refused,
// leaves no key: if a paused node processes one try after another node has answered, it decides that try on the state
// of that moment. A method call after a call that ended without an answer is a new request, unless the caller sets
// the ids and keys itself.
//
// # Streamed completions
//
// [plugin.CompletionRequest.Stream] receives the deltas of a completion over this client's inbox, before Complete
// returns the whole reply. It must not block: deltas that it does not accept in time are dropped. Each delta is sent
// once. After a lost delta, or a repeat to another node, a Reset retracts the earlier deltas. When ctx ends, the node
// cancels its model call. It does so 10 s after the last sign of life of a client that has stopped.
//
// # Tasks of this program
//
// A task of [Client.RegisterTask] runs in the calling program. No worker processes it: its record has neither a
// runner nor a worker, and its state is running. The program reports its progress and end:
//
//	running ──ProgressTask──► running
//	running ──TransitionOwnTask──► waiting, and back
//	running ──RequestCancelTask, by any caller──► cancel_requested
//	running, cancel_requested ──EndOwnTask──► completed, failed, cancelled
//	running, cancel_requested ──CancelTask, CancelTasks, close of the session──► cancelled
//
// UnregisterOwnTask removes the task from the session's list, in any state. No node calls the program. It reads from the session that it should stop, or that the task has ended: Observe shows
// task.cancel_requested and task.ended, State and Task have the state, and ProgressTask returns it.
//
// # Where to look next
//
// Package session/api has the requests and results, session/operation the table of operations, session/service the
// part of a node that answers, session/httpapi the same over HTTP. The programs examples/twonodes and examples/slack
// use a client.
package client
