// Package remote runs a plugin as a program of its own, which is connected to NATS only. The code of the tools is the
// same as in a node's process:
//
//	weather := plugin.OfTool(plugin.Tool{Name: "weather"}, forecast)
//
//	// in a node:
//	plugin.NewHost(plugin.HostConfig{Factories: []plugin.Factory{weather}})
//	// or as a program of its own, with a node that has "weather" in external.Config.Plugins:
//	remote.Start(ctx, remote.Config{Conn: conn, Plugin: weather, Version: "1.0.0"})
//
// An instance registers, sends signs of life, runs calls, and keeps outcomes until the history has them. It writes
// nothing durable. Package wire has the messages, and the faults that the protocol survives.
//
// # Limits
//
// A plugin may register tools only: a plugin with hooks, prompts or actions is refused. Its tools get no capabilities
// of the session (Call.Host is nil), make no nested calls, and return text of at most 900 KiB or a failure.
package remote
