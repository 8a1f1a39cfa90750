package external

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
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
			runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", s.CallResult(id, "k"), "noted")
			points, epochs := h.recorded()
			runtest.DeepEqual(t, "points", points, []string{"after_tool_call", "after_turn", "before_tool_call", "before_turn", "checkpoint"})
			runtest.DeepEqual(t, "epochs", epochs, starts)
		})
	}
}

// TestHookOfAFrozenInstance freezes the instance that has a hook: another one gets it when the lease of the first one is
// over, and the turn goes on. A hook that observes reads that it may have had the event before.
func TestHookOfAFrozenInstance(t *testing.T) {
	t.Parallel()
	for _, scope := range []wire.Scope{"", wire.ScopeSession} {
		t.Run(fmt.Sprintf("%q", scope), func(t *testing.T) {
			t.Parallel()
			s := start(t, calling("write", "{}")...)
			s.nodeOf([]string{"notes"})
			c := s.client()
			m := wire.Manifest{Version: "1", Scope: scope, Tools: []wire.Tool{{Name: "write"}}, Hooks: []wire.Hook{
				{Name: "guard", Point: "before_tool_call"}, {Name: "seen", Point: "turn_finalized"},
			}}
			var mu sync.Mutex
			frozen := make(map[string]string) // by hook: the instance that had it first
			seen := make(chan wire.HookCall, 10)
			for _, instance := range []string{"b1", "b2", "b3"} {
				if got := c.request("notes", "register", &wire.Registration{Protocol: wire.Version, Instance: instance, Manifest: m}); got.Error != nil {
					t.Fatalf("register: %+v", got.Error)
				}
				stop := s.signing(c, "notes", instance, m.Hash())
				answers := func(verb string, answer func(in *wire.HookCall) any) {
					_, err := c.nc.Subscribe(c.prefix+".plugin.notes."+instance+"."+verb, func(msg *nats.Msg) {
						var in wire.HookCall
						_ = json.Unmarshal(msg.Data, &in)
						if out := answer(&in); out != nil {
							data, _ := json.Marshal(out)
							_ = msg.Respond(data)
						}
					})
					runtest.WantError(t, "subscribe", err, nil)
				}
				answers("session_start", func(*wire.HookCall) any { return wire.Placed{} })
				answers("call", func(*wire.HookCall) any { return wire.Progress{Outcome: &wire.Outcome{Text: "noted"}} })
				answers("hook", func(in *wire.HookCall) any {
					mu.Lock()
					defer mu.Unlock()
					if frozen[in.Hook] == "" {
						frozen[in.Hook] = instance
						stop()
						return nil
					}
					if in.Hook == "seen" {
						seen <- *in
					}
					return wire.HookResult{}
				})
			}
			s.known(s.first, "notes", 3)
			id := s.begin()
			runtest.Equal(t, "end", s.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", s.CallResult(id, "k"), "noted")
			in := harness.Receive(s.System, "event", seen)
			mu.Lock()
			defer mu.Unlock()
			if frozen["guard"] == "" || frozen["seen"] == "" || !in.Redelivered {
				t.Errorf("frozen: got %v, and then %+v, want an instance for each hook, and a redelivered event", frozen, in)
			}
		})
	}
}
