package catalogue

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// atCheckpoints is a plugin with a hook at checkpoints.
func atCheckpoints(hook func(plugin.CheckpointContext) ([]plugin.Directive, error)) plugin.Factory {
	return harness.PluginOf("watcher", func(r *plugin.Registrar) {
		r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) { return hook(in) })
		harness.NamedTools(r, "noop")
	})
}

func testCheckpointAbort(t *testing.T) {
	for at, script := range map[events.CheckpointKind][]harness.Step{
		events.AtAfterWork:        {harness.Reply(harness.Call("k", "noop", "{}")), harness.Reply(harness.Text("next"))},
		events.AtBeforeCompletion: {harness.Reply(harness.Text("answer")), harness.Reply(harness.Text("next"))},
	} {
		for _, fails := range []bool{false, true} {
			b := harness.StartIdle(t, script...)
			id := events.SessionID("s")
			b.StartNode(atCheckpoints(func(in plugin.CheckpointContext) ([]plugin.Directive, error) {
				if in.Turn != "t1" {
					return nil, nil
				}
				inject(b, id, "i1", "also")
				if fails {
					return nil, harness.ErrPlugin
				}
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "not said")), plugin.Abort("enough", "stop it")}, nil
			}))
			b.Open(api.CreateRequest{ID: id})
			inject(b, id, "i0", "early")
			r := b.RunTurn(id, "t1", harness.Text("hello"))
			runtest.Equal(t, "end", r.End, events.EndRuntimeError)
			runtest.Equal(t, "kind", r.Issue.Kind, "plugin")
			code := "enough"
			if fails {
				code = "plugin_checkpoint"
			}
			runtest.Equal(t, "code", r.Issue.Code, code)
			runtest.Equal(t, "model calls", r.ModelCalls, 1)
			runtest.Equal(t, "inputs that wait", len(b.StateOf(id).Inputs), 1)
			b.RunTurn(id, "t2", harness.Text("go on"))
			got := b.Model.Prompt(1)
			runtest.Equal(t, "messages of the next prompt at "+string(at), fmt.Sprint(got[:2], got[len(got)-2:]), "[user early user hello] [user also user go on]")
			runtest.EqualLists(t, "accepted", accepted(b, id), []string{"start [i0]", "start [i1]"})
		}
	}
}

func testCheckpointLoop(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Reply(harness.Text("three")))
	b.StartNode(atCheckpoints(func(plugin.CheckpointContext) ([]plugin.Directive, error) {
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "more"))}, nil
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{MaxIterations: 3}})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndMaxTurns)
	runtest.Equal(t, "model calls", r.ModelCalls, 3)
	runtest.EqualLists(t, "last prompt", b.Model.Prompt(2), []string{"user hello", "assistant one", "user more", "assistant two", "user more"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{
		"user hello", "assistant one", "user more", "assistant two", "user more", "assistant three", "user more", "system turn limit reached (3)",
	})
}

func testCheckpointAssistant(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "noop", "{}")), harness.Reply(harness.Text("done")))
	b.StartNode(atCheckpoints(func(plugin.CheckpointContext) ([]plugin.Directive, error) {
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleAssistant, "I did it"))}, nil
	}))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "end", r.End, events.EndFinished)
	runtest.Equal(t, "model calls", r.ModelCalls, 2)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "assistant k:noop{}", "user k=noop", "assistant done"})
	_, err := b.Inject(b.Ctx, id, api.InjectRequest{Role: events.RoleAssistant, Parts: []events.Part{harness.Text("I did it")}})
	runtest.WantError(t, "inject as the assistant", err, events.ErrInvalid)
}

// testCheckpointOrder runs with a checkpoint hook and without one, and with the worker killed during the next
// model call.
func testCheckpointOrder(t *testing.T) {
	for _, hooked := range []bool{true, false} {
		started := make(chan struct{})
		b := harness.StartIdle(t, harness.Reply(harness.Call("k", "busy", "{}")), harness.Hang(started), harness.Reply(harness.Text("done")))
		id := events.SessionID("s")
		queue := harness.PluginOf("queue", func(r *plugin.Registrar) {
			plugin.AddTool(r, plugin.Tool{Name: "busy"}, func(context.Context, plugin.Call, struct{}) (string, error) {
				inject(b, id, "i1", "i")
				return "ok", nil
			})
			r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "q"))}, nil
			})
			if hooked {
				r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) {
					if in.At != events.AtAfterWork {
						return nil, nil
					}
					return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleSystem, "h"))}, nil
				})
			}
		})
		_, kill := b.StartNodeOn(bustest.Open(t, b.Server), queue)
		b.Open(api.CreateRequest{ID: id})
		var got []string
		for _, e := range b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
			if e.Type == api.EventInputAccepted {
				harness.Receive(b, "the start", started)
				kill()
				b.StartNode(queue)
			}
		}) {
			line := string(e.Type)
			for _, m := range e.Messages {
				line += " " + m.Parts[0].Text
			}
			for _, in := range e.Inputs {
				line += " " + in.Message.Parts[0].Text
			}
			if e.Checkpoint == events.AtAfterWork {
				got = append(got, line)
			}
		}
		shown, notification := []string{"user hello", "assistant k:busy{}", "user k=ok", "user q"}, "injected_messages_committed q"
		if hooked {
			shown, notification = append(shown, "system h"), notification+" h"
		}
		runtest.EqualLists(t, "events of the checkpoint", got, []string{"injected_turn_input_accepted i", notification})
		runtest.EqualLists(t, "prompt", b.Model.Prompt(2), append(shown, "user i"))
		runtest.EqualLists(t, "messages", b.Messages(id), append(shown, "user i", "assistant done"))
	}
}
