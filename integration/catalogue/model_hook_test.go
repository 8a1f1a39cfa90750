package catalogue

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// beforeModelCall is a plugin with a hook before the model calls of turn t1.
func beforeModelCall(id string, decide func(iteration int64) []plugin.Directive) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeModelCall(func(_ context.Context, in plugin.ModelContext) ([]plugin.Directive, error) {
			if in.Turn != "t1" {
				return nil, nil
			}
			return decide(in.Iteration), nil
		})
	})
}

func contribute(slot events.Slot, texts ...string) plugin.Directive {
	list := make([]events.Contribution, len(texts))
	for i, text := range texts {
		list[i] = events.Contribution{Slot: slot, Content: text}
	}
	return plugin.Contribute(list...)
}

func testBeforeModelCall(t *testing.T) {
	var runs atomic.Int64
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done")), harness.Reply(harness.Text("again")))
	b.StartNode(harness.CountingTools(&runs, "look"),
		harness.PluginOf("always", func(r *plugin.Registrar) {
			r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) {
				return []events.Contribution{{Slot: events.SlotIntro, Content: "Always."}}, nil
			})
		}),
		beforeModelCall("A", func(n int64) []plugin.Directive {
			return []plugin.Directive{contribute(events.SlotIntro, fmt.Sprint("A", n)), plugin.SystemPrompt(fmt.Sprint("By A", n)), plugin.Emit([]byte(`"seen"`))}
		}),
		beforeModelCall("B", func(n int64) []plugin.Directive {
			if n > 0 {
				return nil
			}
			return []plugin.Directive{contribute(events.SlotIntro, "B0", "B1"), plugin.SystemPrompt("By B")}
		}),
	)
	id := b.Open(api.CreateRequest{Config: events.Config{Instructions: "You help."}})
	for _, turn := range []events.TurnID{"t1", "t2"} {
		runtest.Equal(t, "end", b.RunTurn(id, turn, harness.Text("go")).End, events.EndFinished)
	}
	for n, want := range []string{"By B\n\nAlways.\n\nA0\n\nB0\n\nB1", "By A1\n\nAlways.\n\nB0\n\nB1\n\nA1", "You help.\n\nAlways."} {
		runtest.Equal(t, fmt.Sprint("system text of call ", n), b.Model.Prompt(n)[0], "system "+want)
	}
	var iterations []int64
	for _, ran := range harness.Find[*events.HookRan](b, id) {
		if ran.Point == events.PointBeforeModel {
			iterations = append(iterations, ran.Iteration)
		}
	}
	runtest.EqualLists(t, "records", iterations, []int64{0, 1, 0})
	harness.VerifyHistory(t, b.Bus, id)
}

func testSwitchBeforeModelCall(t *testing.T) {
	var runs atomic.Int64
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done")))
	b.StartNode(harness.CountingTools(&runs, "look"), beforeModelCall("switcher", func(n int64) []plugin.Directive {
		if n == 0 {
			return nil
		}
		return []plugin.Directive{
			plugin.SystemPrompt("Ends here."),
			plugin.SwitchFrame(events.FrameSwitch{Frame: "next", Task: "the rest", Nodes: []events.NewNode{harness.SeedNode("s1", events.RoleAssistant, "noted")}}),
		}
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Instructions: "You help."}})
	first := b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", first.End, events.EndSwitched)
	runtest.Equal(t, "runs of the tool", runs.Load(), 1)
	runtest.Equal(t, "end of the follow-on", b.AwaitTurn(id, "t1-frame-1").End, events.EndFinished)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(1), []string{"system You help.", "assistant noted", "user the rest"})
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 2)
	harness.VerifyHistory(t, b.Bus, id)
}
