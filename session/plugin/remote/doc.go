// Package remote runs a plugin as a program of its own, which is connected to NATS only. The code of the tools is the
// same as in a node's process:
//
//	weather := plugin.OfTool(plugin.Tool{Name: "weather"}, forecast)
//
//	// in a node:
//	plugin.NewBuilder(plugin.BuilderConfig{Factories: []plugin.Factory{weather}})
//	// or as a program of its own, with a node that has "weather" in external.Config.Plugins:
//	instance, err := remote.Start(ctx, remote.Config{Conn: conn, Plugin: weather, Version: "1.0.0"})
//	err = instance.Run(ctx)
//
// [Instance.Run] drains the instance at the end of its context, for example after SIGTERM, and when a message at drain says so:
// running calls end here, and new ones go to other instances.
//
// An instance registers, sends signs of life, runs calls, and keeps outcomes until the history has them. It writes
// nothing durable. Package wire has the messages, and the faults that the protocol survives.
//
// # Limits
//
// A plugin may register tools, the hooks BeforeTurn, BeforeModelCall, BeforeToolCall, AfterToolCall, Checkpoint and AfterTurn, and
// Lifecycle functions. One with more is refused: it can run in a node only. The prompt is text, [Config.Prompt], and no
// function, as nodes build prompts while no instance runs.
//
// Tools get no capabilities of the session (Call.Host is nil), and make no nested calls. Their call has no Holder, does not
// say whether it is Inner, and is always the first Attempt: the node repeats it under the same Key. They have requests of the HTTP
// API instead, see Call.Request, and store and read bodies of the call's session, see Call.StoreBody. Their results have no switch of frames, and are not pending; package wire has their
// limits.
//
// Hooks get what package wire sends. Their Host is [plugin.Absent]; the View, the State and the Change of their inputs
// are zero, and the turn's input and results are text. They cannot create sessions, or enqueue more than texts. All
// hooks of a point have one time limit, [HookOptions]. Hooks run at once with each other and with calls.
//
// # What an observing plugin gets
//
// Lifecycle functions get the events of all sessions: those of the last day that happened while no instance ran, too.
// They run one after the other, in the order in which nodes stored the events, each on one instance. An event may come
// twice. If a function returns an error, it is called again, five times at most for one event.
package remote
