// Package session is the host: it decides requests on a session's state and appends their events. Any number of hosts
// may work on the same session at once, from any process.
//
// The log decides. A host decides a request on folded state and appends its events with the session's last sequence.
// The request is accepted when its event is in the session's stream, and only if the session has not changed since
// the decision. Where it has, the host folds the new commits and decides again. After the append the host publishes a
// wake, a hint that a node should read the session (package session/hint). A lost wake delays the turn, and loses nothing.
//
// # First lines
//
// A host needs a bus only. It decides from any process, and a worker of any process runs the turns:
//
//	own, err := busembed.ReadAccess(".lash") // the key of a store; servers without keys need none
//	b, err := bus.Open(ctx, bus.Config{URL: "nats://127.0.0.1:4222", Options: []nats.Option{own.Option()}})
//	host, err := session.New(session.Config{Bus: b, Actor: "me", Plugins: session.NoPlugins()})
//	id, err := host.Create(ctx, api.CreateRequest{})
//	turn, err := host.Submit(ctx, id, api.Ask("What is 2 + 2?"))
//	result, err := host.Await(ctx, id, turn)
//	fmt.Println(result.End, result.Text, err)
//
// Programs that need no host of their own use package client, which has the same methods over NATS. Package
// workers/embedded has server, worker and host in one process. The examples of [New] and [Host.Submit] are programs.
//
// # The order of calls
//
//  1. [New] makes the host. It writes nothing, and needs no end: close the bus.
//  2. [Host.Create] opens a session, [Host.Fork] opens one with the conversation of another.
//  3. [Host.Submit] requests a turn; [Host.Run] also waits for its end, and [Host.StartTurnStream] has its events. While
//     a turn runs: [Host.Inject], [Host.Approve], [Host.ResolveTool], [Host.Cancel].
//  4. The methods of [api.Reader], such as State and View, read at any time, and also after the end. [Host.Await] waits
//     for a turn, [Host.Observe] yields commits as they happen.
//  5. [Host.CloseSession] ends the session. Its history stays; [Host.Erase] deletes it.
//
// # Errors to expect
//
//	events.ErrNoSession        no such session, or it was erased (events.ErasedError)
//	events.ErrInvalid          the request; an events.FieldError names the field
//	events.ErrOutcomeUnknown   the append may have happened: repeat the request with the same ids
//	api.ErrExists, ErrClosed   the session's id is in use; the session is closed
//	api.ErrDifferent           the id or the key was used with other content
//	api.ErrTurnRunning         not while a turn runs
//	api.LimitError             a limit is reached; the same request may succeed later
//	plugin.ErrUnavailable      this host has no plugins, and the request needs them
//
// A turn that fails is no error: its result has the end and the issue.
//
// # Plugins
//
// Plugins take part in some decisions: configurations, appended nodes and messages, tools, actions, compaction. A
// host without plugins refuses these requests as [plugin.ErrUnavailable], unless [NoPlugins] says that no node
// has such plugins. It accepts a turn's input and the protocol of a new session; the worker that starts the turn
// calls the plugins for them.
//
// # Where to look next
//
// Package session/api has the requests, results and errors; session/plugin what authors of plugins import. The
// largest of the packages below, which do the rest of a host's work:
//
//	session                     decide and append
//	session/internal/watch      observe, wait for turns
//	session/internal/reader     read
//	session/internal/stack      the plugins of sessions
//	session/internal/states     one cache of states, waiting for a condition
//	session/internal/check      refusals and limits
//	session/hint, blob          wakes and timers; bodies outside the log
//
// Files are grouped by subject:
//
//	decide and append   host.go commitmeta.go append.go
//	sessions            create.go creation.go creationbase.go parents.go branch.go close.go erase.go redact.go
//	                    grant.go snapshot.go configure.go deadletter.go
//	turns               turns.go schedule.go cancel.go approval.go input.go
//	conversation        graph.go frame.go systemmessages.go compact.go blob.go completion.go
//	plugins and tools   plugins.go pluginfirst.go action.go extension.go overlay.go toolsource.go toolstate.go
//	tasks, monitors     task.go taskown.go taskrun.go taskchild.go taskhidden.go taskleave.go tasktransfer.go monitor.go
//	what plugins call   runtimehost.go runtimehosttask.go runtimehostcompletion.go childusage.go childanswer.go
//	observe, workers    watch.go worker.go trace.go
//
// # The path of a turn's request
//
//	SubmitTurn                turns.go
//	  prepareTurn             turns.go       checks the input, and moves its large bodies to blobs: its digest is of the result
//	  requestTurn             turns.go       makes the decision
//	    decideUntilAppended   host.go        again after each conflict
//	      tryDecide           host.go        once
//	        states.LockYielding              the session's cached state, under its lock
//	        decideOrRepeat    commitmeta.go  finds a repeat by its key, else calls the decision
//	        appendLocked      append.go
//	          commit          host.go        builds the commit, and moves large bodies to blobs that a decision added
//	          appendSigned    append.go      encrypts and signs it; bus.Log.Append expects the state's sequence; folds it with State.Apply
//	          hints.Commit                   publishes the wake
//
// [Host.Cancel], [Host.Approve] and the other requests take the same path from decideUntilAppended on.
//
// # Order and durability
//
//   - When a call returns without an error, its events are in the session's stream, and survive the faults that the
//     server's profile names (package bus/busembed). A call whose result the history has already appends nothing.
//   - Commands do not wait in a queue. Each is one commit, and takes effect in the order of the log, also while a turn
//     runs. An input that comes after a command is processed after it.
//   - A session does not exist without a log. Where the log is out of reach every append is an error, and nothing is
//     written.
//   - A key stands for one command. The same key with a different command is [api.ErrDifferent]. projector.Verifier finds
//     a reply to a prompt that the history does not have.
//   - A stream of a turn's events never delays the turn: it reads the log and the published deltas. A client may read it
//     late, in part or not at all.
//
// # Tests
//
// The operations are tested by the suite integration/internal/servicetest, on hosts, clients and HTTP: a file for each
// subject, such as graph.go, turn.go and task.go. integration/catalogue tests what plugins do to them. The tests here
// concern several hosts, limits, rights, hints and timers.
//
// # Why one package
//
// The package has more than 5 000 lines because the operations are the methods of one type, [Host], and share one way to
// decide and append, with its cache, keys and rights. What has no method of Host is in packages below: reading,
// watching, stacks of plugins, limits, bodies. Tasks and tool sources could be cut as packages that decide on a state.
// Their decisions call each other where a session closes or a task moves, so a cut would export those calls.
package session
