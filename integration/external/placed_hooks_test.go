package external

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/harness"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/remote"
	"github.com/lash-go/lash/session/plugin/wire"
)

// hooked is a plugin with a hook at each point of a turn, and a tool. It records the points that were called, and the
// sessions that were started.
type hooked struct {
	plugin.Factory

	mu     sync.Mutex
	called []string
	starts []int64 // epochs
}

func (h *hooked) call(point string) ([]plugin.Directive, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.called = append(h.called, point)
	return nil, nil
}

// StartSession implements [remote.SessionStarter].
func (h *hooked) StartSession(_ context.Context, in wire.SessionStart) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.starts = append(h.starts, in.Epoch)
	return nil
}

// recorded are the different points that were called, sorted, and the epochs of the session.
func (h *hooked) recorded() (points []string, starts []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	points = slices.Clone(h.called)
	slices.Sort(points)
	return slices.Compact(points), slices.Clone(h.starts)
}

func newHooked() *hooked {
	h := &hooked{}
	h.Factory = plugin.Func("notes", func(r *plugin.Registrar) error {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return h.call("before_turn") })
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return h.call("before_tool_call")
		})
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
			return h.call("after_tool_call")
		})
		r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) {
			return h.call("checkpoint")
		})
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return h.call("after_turn")
		})
		plugin.AddTool(r, plugin.Tool{Name: "write"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "noted", nil })
		return nil
	})
	return h
}

// TestHooksOfEachScope runs a turn with a hook at each point, for plugins of each scope. All hooks are called, and a
// session of scope session was started once before.
func TestHooksOfEachScope(t *testing.T) {
	t.Parallel()
	for scope, starts := range map[wire.Scope][]int64{"": nil, wire.ScopeSession: {1}} {
		t.Run(fmt.Sprintf("%q", scope), func(t *testing.T) {
			t.Parallel()
			s := start(t, calling("write", "{}")...)
			s.nodeOf([]string{"notes"})
			h := newHooked()
			s.instance(remote.Config{Plugin: h, Scope: scope})
			id := s.begin()
			harness.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
			harness.Equal(t, "result", s.CallResult(id, "k"), "noted")
			points, epochs := h.recorded()
			harness.DeepEqual(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "before_turn", "checkpoint"})
			harness.DeepEqual(t, "epochs", epochs, starts)
		})
	}
}
