package external

import (
	"context"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
)

// seenCall is what a plugin knows of a call.
type seenCall struct {
	Tool, Key string
	Once      bool
	Effect    events.EffectID
}

// TestHooksOfProgramsSeeTheCall runs one plugin in the node and as a program of its own. In both its tools and its hooks see
// each call with one key, and the hooks know which calls must not run twice.
func TestHooksOfProgramsSeeTheCall(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"in_the_node", "program"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			seen := make(map[string][]seenCall) // by place and tool
			both := seeing(seen)
			s := start(t, harness.Reply(harness.Call("a", "repeats", "{}"), harness.Call("b", "single", "{}")), harness.Reply(harness.Text("done")))
			if where == "program" {
				s.nodeOf([]string{both.ID()})
				s.instance(remote.Config{Plugin: both})
			} else {
				s.nodeOf(nil, both)
			}
			s.turn()
			keys := make(map[string]bool)
			for tool, once := range map[string]bool{"repeats": false, "single": true} {
				for _, place := range []string{"before", "tool", "after"} {
					list := seen[place+" "+tool]
					if len(list) != 1 {
						t.Fatalf("%s %s: got %+v, want one call", place, tool, list)
					}
					called := seen["tool "+tool][0]
					runtest.DeepEqual(t, place+" "+tool, list[0], seenCall{Tool: tool, Key: called.Key, Once: once, Effect: called.Effect})
				}
				keys[seen["tool "+tool][0].Key] = true
			}
			if len(keys) != 2 || keys[""] {
				t.Errorf("keys: got %v, want one for each call", keys)
			}
		})
	}
}

// seeing is a plugin that notes what its tools and hooks know of each call.
func seeing(seen map[string][]seenCall) plugin.Factory {
	var mu sync.Mutex
	note := func(place, tool string, c *plugin.Call) {
		mu.Lock()
		defer mu.Unlock()
		seen[place+" "+tool] = append(seen[place+" "+tool], seenCall{tool, c.Key, c.Once, c.Effect})
	}
	return plugin.Func("seeing", func(r *plugin.Registrar) error {
		for name, effects := range map[string]events.Effects{"repeats": events.EffectsIdempotent, "single": events.EffectsNonIdempotent} {
			plugin.AddTool(r, plugin.Tool{Name: name, Effects: effects}, func(_ context.Context, c plugin.Call, _ struct{}) (string, error) {
				note("tool", name, &c)
				return name, nil
			})
		}
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			note("before", in.Tool, &in.Call)
			return nil, nil
		})
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			note("after", in.Tool, &in.Call)
			return nil, nil
		})
		return nil
	})
}
