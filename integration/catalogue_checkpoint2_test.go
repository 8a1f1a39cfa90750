package integration

import (
	"context"
	"fmt"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// atCheckpoints is a plugin that is asked at checkpoints.
func atCheckpoints(hook func(plugin.CheckpointContext) ([]plugin.Directive, error)) plugin.Factory {
	return declares("watcher", func(r *plugin.Registrar) {
		r.Checkpoint(func(_ context.Context, in plugin.CheckpointContext) ([]plugin.Directive, error) { return hook(in) })
		simple(r, "noop")
	})
}

func testCheckpointAbort(t *testing.T) {
	for at, script := range map[events.CheckpointKind][]step{
		events.AtAfterWork:        {reply(call("k", "noop", "{}")), reply(text("next"))},
		events.AtBeforeCompletion: {reply(text("answer")), reply(text("next"))},
	} {
		for _, fails := range []bool{false, true} {
			b := setupIdle(t, script...)
			id := events.SessionID("s")
			b.node(atCheckpoints(func(in plugin.CheckpointContext) ([]plugin.Directive, error) {
				if in.Turn != "t1" {
					return nil, nil
				}
				b.inject(id, "i1", "also")
				if fails {
					return nil, errRefusal
				}
				return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "not said")), plugin.Abort("enough", "stop it")}, nil
			}))
			b.open(api.CreateRequest{ID: id})
			b.inject(id, "i0", "early")
			r := b.run(id, "t1", text("hello"))
			equal(t, "end", r.End, events.EndRuntimeError)
			equal(t, "kind", r.Issue.Kind, "plugin")
			code := "enough"
			if fails {
				code = "plugin_checkpoint"
			}
			equal(t, "code", r.Issue.Code, code)
			equal(t, "model calls", r.ModelCalls, 1)
			equal(t, "inputs that wait", len(b.state(id).Inputs), 1)
			b.run(id, "t2", text("go on"))
			got := b.model.prompt(1)
			equal(t, "messages of the next prompt at "+string(at), fmt.Sprint(got[:2], got[len(got)-2:]), "[user early user hello] [user also user go on]")
			equalLists(t, "accepted", b.accepted(id), []string{"start [i0]", "start [i1]"})
		}
	}
}

func testCheckpointLoop(t *testing.T) {
	b := setupIdle(t, reply(text("one")), reply(text("two")), reply(text("three")))
	b.node(atCheckpoints(func(plugin.CheckpointContext) ([]plugin.Directive, error) {
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "more"))}, nil
	}))
	id := b.open(api.CreateRequest{Config: events.Config{MaxIterations: 3}})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndMaxTurns)
	equal(t, "model calls", r.ModelCalls, 3)
	equalLists(t, "last prompt", b.model.prompt(2), []string{"user hello", "assistant one", "user more", "assistant two", "user more"})
	equalLists(t, "messages", b.messages(id), []string{
		"user hello", "assistant one", "user more", "assistant two", "user more", "assistant three", "user more", "system turn limit reached (3)",
	})
}

func testCheckpointAssistant(t *testing.T) {
	b := setupIdle(t, reply(call("k", "noop", "{}")), reply(text("done")))
	b.node(atCheckpoints(func(plugin.CheckpointContext) ([]plugin.Directive, error) {
		return []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleAssistant, "I did it"))}, nil
	}))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("hello"))
	equal(t, "end", r.End, events.EndFinished)
	equal(t, "model calls", r.ModelCalls, 2)
	equalLists(t, "messages", b.messages(id), []string{"user hello", "assistant k:noop{}", "user k=noop", "assistant done"})
	_, err := b.Inject(b.ctx, id, api.InjectRequest{Role: events.RoleAssistant, Parts: []events.Part{text("I did it")}})
	must(t, "inject as the assistant", err, events.ErrInvalid)
}

// testCheckpointOrder has it with a checkpoint hook and without one, and with the worker killed while the model is asked on it.
func testCheckpointOrder(t *testing.T) {
	for _, hooked := range []bool{true, false} {
		begun := make(chan struct{})
		b := setupIdle(t, reply(call("k", "busy", "{}")), hangs(begun), reply(text("done")))
		id := events.SessionID("s")
		queue := declares("queue", func(r *plugin.Registrar) {
			plugin.AddTool(r, plugin.Tool{Name: "busy"}, func(context.Context, plugin.Call, struct{}) (string, error) {
				b.inject(id, "i1", "i")
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
		_, kill := b.nodeOn(bustest.Open(t, b.server), queue)
		b.open(api.CreateRequest{ID: id})
		var got []string
		for _, e := range b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
			if e.Type == api.EventInputAccepted {
				receive(b, "begun", begun)
				kill()
				b.node(queue)
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
		shown, told := []string{"user hello", "assistant k:busy{}", "user k=ok", "user q"}, "injected_messages_committed q"
		if hooked {
			shown, told = append(shown, "system h"), told+" h"
		}
		equalLists(t, "events of the checkpoint", got, []string{"injected_turn_input_accepted i", told})
		equalLists(t, "prompt", b.model.prompt(2), append(shown, "user i"))
		equalLists(t, "messages", b.messages(id), append(shown, "user i", "assistant done"))
	}
}
