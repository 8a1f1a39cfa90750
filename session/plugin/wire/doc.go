// Package wire has the messages between nodes and plugins that run as programs of their own. A program in any language
// that can connect to NATS and read JSON can be a plugin: integration/external/testdata/notes.mjs is one in JavaScript,
// without an SDK. PROTOCOL.md describes the messages for readers of any language. The package is pure, and imports events
// only.
//
// # Why the history and one request, and no queue
//
// The history of the session records the open call, as it does for any tool. Where the tool must not run twice, the
// event tool.called names the instance of the plugin that has the call. A node sends the call to that instance and
// waits for its answers. The instance keeps the outcome under the id of the call. So a plugin writes nothing that
// must be durable, and nothing durable exists twice.
//
// The other shape that was tried gives each call a job in a work queue and a ledger of its own. Both were measured
// with raw NATS in one process (nats-server 2.15.2, one file store, two cores), each between the two appends that the
// session's history needs:
//
//	                            p50 of a call   calls a second, 64 at once   durable writes
//	a plain append              16 µs
//	queue and ledger            380 µs          3 000 to 5 200               7
//	request to the instance     52 µs           31 000 to 35 000             2
//
// # Decisions
//
// The figures are medians of three runs on two cores with nats-server 2.15.2, beside other programs (load average 4 to
// 13). The benchmarks of integration/external print them; BENCHMARKS.md has all of them.
//
//  1. There is no ledger of calls: the stream of the session has the call. A model's reply and one call of an instance take
//     two commits, as with any tool, and one where the next reply follows within 2 ms and the tool may repeat. From the
//     reply to the model's next request, with these commits, a repeatable call takes 3.7 raw requests, and one that must
//     not run twice 4.2.
//  2. [Lease] gives a repeatable call of a dead instance to another one: 3 s without an answer about the call. The other
//     instance began 3.0 s after the first was killed or frozen. A JetStream work queue with its default AckWait of 30 s
//     took 30.0 s in the same run.
//  3. Only nodes append to the history of a session, never a plugin. An instance answers the node that asks, and its user
//     has no permission for any other subject than those below and its inbox.
//  4. Messages are JSON, which most languages read with their standard library. To encode and decode them in Go takes 15 µs
//     for a call with 1 KB of arguments, 4.4 µs for a progress and 54 µs for an outcome of 4 KB: 2.3, 0.7 and 6.5 % of a
//     call. MessagePack takes 3.7, 2.6 and 7.2 µs, and is at most 10 % smaller.
//  5. The calls of one reply run at once, unless the tool is serial. Four calls of 100 ms take 102 ms, and 407 ms if the tool
//     is serial.
//
// # One call
//
//	node                                        instance
//	tool.called names the instance ─► history
//	call ──────────────────────────────────────► unknown id: the tool runs
//	     ◄───────────────── progress: sign of life, every second
//	     ◄───────────────── outcome; the instance keeps it
//	tool.returned ─► history
//	recorded ──────────────────────────────────► the instance drops the outcome
//
//	fault                                   how the system survives it
//	the node dies                           the next node sends the call to the same instance: a call that runs is joined,
//	                                        an outcome that the instance keeps is returned
//	the node freezes, and continues later   the instance knows the id: nothing runs twice. The log refuses the late append
//	the call is lost                        the next node's call is the first one that the instance receives
//	the instance dies                       no subscriber, or no sign of life for [Lease]: the call is lost, or it runs on
//	                                        another instance where its declared effects allow it
//	the instance freezes                    the same after [Lease]. What it sends later has no reader
//	the outcome's message is lost           no sign of life follows: the node sends the call again, and gets the outcome
//	the instance has dropped the outcome    it says so, if the node says that the call may have run: the call is lost
//
// # Messages
//
// Subjects begin with the prefix of the fleet, "lash" by default. PLUGIN and INSTANCE are tokens.
//
//	subject                                   sender    content
//	lash.plugins.PLUGIN.register              instance  request [Registration], answered by one node with [Registered]
//	lash.plugins.PLUGIN.fire                  instance  request [Fire], answered by one node with [Fired]
//	lash.plugin-live.PLUGIN.INSTANCE          instance  [Sign], every [SignEvery]
//	lash.plugin.PLUGIN.INSTANCE.call          node      [Call], answered with many [Progress]
//	lash.plugin.PLUGIN.INSTANCE.callback      node      [CallbackAnswer], to a [Callback] in a [Progress]
//	lash.plugin.PLUGIN.INSTANCE.cancel        node      [Cancel]
//	lash.plugin.PLUGIN.INSTANCE.recorded      node      [CallID]: the outcome is in the history
//	lash.plugin.PLUGIN.INSTANCE.hook          node      [HookCall], answered with [HookResult]
//	lash.plugin.PLUGIN.INSTANCE.session_start node      [SessionStart], answered with [Placed]
//	lash.plugin.PLUGIN.INSTANCE.idle          node      [Idle], answered with [IdleAnswer]
//	lash.plugin.PLUGIN.INSTANCE.drain         operator  nothing: the instance drains. lash-node plugin check sends it, no node does
//	lash.plugin.PLUGIN.INSTANCE.register      node      nothing: the manifest is lost, the instance registers again
//	lash.plugin.PLUGIN.all.sign               node      nothing: each instance sends its sign now
//
// Every answer goes to the reply subject of its request, and to no other subject. In the operator's server
// configuration each plugin has an account of its own, which has these subjects of its plugin and nothing else.
package wire
