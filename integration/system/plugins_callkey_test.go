package system

import (
	"context"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// seenCall is a plugin's view of a call, at one place.
type seenCall struct {
	Place, Key string
	Once       bool
	Inner      bool
	Effect     events.EffectID
}

// seenCalls collects the views of calls by tool.
type seenCalls struct {
	mu     sync.Mutex
	byTool map[string][]seenCall
}

func (s *seenCalls) add(place, tool string, c *plugin.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byTool[tool] = append(s.byTool[tool], seenCall{Place: place, Key: c.Key, Once: c.Once, Inner: c.Inner, Effect: c.Effect})
}

// factory is a plugin with tools that may repeat, that must not, and that needs an approval; its hooks are around all.
func (s *seenCalls) factory() plugin.Factory {
	return harness.PluginOf("seeing", func(r *plugin.Registrar) {
		for name, effects := range map[string]events.Effects{
			"repeats": events.EffectsIdempotent, "single": events.EffectsNonIdempotent, "careful": events.EffectsNonIdempotent,
		} {
			plugin.AddTool(r, plugin.Tool{Name: name, Effects: effects}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
				s.add("tool", name, &c)
				return name, nil
			})
		}
		harness.OuterTool(r, plugin.NestedCall{Tool: "repeats"}, plugin.NestedCall{Tool: "single"}, plugin.NestedCall{Tool: "careful"})
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			s.add("before", in.Tool, &in.Call)
			if in.Tool == "careful" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		r.AuthorizeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			s.add("authorize", in.Tool, &in.Call)
			return nil, nil
		})
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			s.add("after", in.Tool, &in.Call)
			return nil, nil
		})
	})
}

// TestHooksSeeTheCallOfTheTool has hooks around calls of the model and around nested ones, with an approval and without.
// The hooks before a call, the tool and the hooks after it get the same key, and the same answer whether it runs once.
func TestHooksSeeTheCallOfTheTool(t *testing.T) {
	t.Parallel()
	for _, nested := range []bool{false, true} {
		name := "model"
		reply := harness.Reply(harness.Call("a", "repeats", "{}"), harness.Call("b", "single", "{}"), harness.Call("c", "careful", "{}"))
		if nested {
			name, reply = "nested", harness.Reply(harness.Call("k", "outer", "{}"))
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := &seenCalls{byTool: make(map[string][]seenCall)}
			b := harness.StartIdle(t, reply, harness.Reply(harness.Text("done")))
			b.StartNode(seen.factory())
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			request := b.AwaitState(id, "question", harness.HasAsk).Turn().Asks[0]
			runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: request.Effect, Granted: true}), nil)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			seen.check(t, nested)
		})
	}
}

func (s *seenCalls) check(t *testing.T, nested bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	keys := make(map[string]string)
	for tool, once := range map[string]bool{"repeats": false, "single": true, "careful": true} {
		places := make(map[string]bool)
		for _, c := range s.byTool[tool] {
			places[c.Place] = true
			want := seenCall{Place: c.Place, Key: s.byTool[tool][0].Key, Once: once, Inner: nested, Effect: s.byTool[tool][0].Effect}
			if c != want || c.Key == "" {
				t.Errorf("%s: got %+v, want %+v with a key", tool, c, want)
			}
		}
		for _, place := range []string{"before", "authorize", "tool", "after"} {
			if !places[place] {
				t.Errorf("%s: %s did not see the call", tool, place)
			}
		}
		if other := keys[s.byTool[tool][0].Key]; other != "" {
			t.Errorf("%s and %s have the same key", tool, other)
		}
		keys[s.byTool[tool][0].Key] = tool
	}
}
