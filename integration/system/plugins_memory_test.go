package system

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/httpapi"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// memoryPoints has the places at which plugins were called, and whether what they read there has a limit.
type memoryPoints struct {
	mu      sync.Mutex
	limited map[string]bool
}

// at notes a place: no node has memory for what it wants to read.
func (p *memoryPoints) at(ctx context.Context, place string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	limited := errors.Is(memory.Take(ctx, 1<<50), events.ErrTooLarge)
	before, known := p.limited[place]
	p.limited[place] = limited && (before || !known)
}

// restored is a protocol whose restores are places.
type restored struct {
	harness.Protocol
	points *memoryPoints
}

func (p restored) Restore(ctx context.Context, _ plugin.ProtocolSession, _ *projector.State) error {
	p.points.at(ctx, "restore")
	return nil
}

func (p restored) AppendNodes(ctx context.Context, _ plugin.ProtocolSession, _ []api.AppendNode) error {
	p.points.at(ctx, "append")
	return nil
}

func (p restored) BeforeModelCall(ctx context.Context, _ plugin.ModelCallContext) (*events.FrameSwitch, error) {
	p.points.at(ctx, "model call")
	return nil, nil //nolint:nilnil // no switch, no error
}

func (p *memoryPoints) register(r *plugin.Registrar) {
	r.TransformContext(0, func(ctx context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
		p.at(ctx, "transform")
		return now, nil
	})
	r.BeforeTurn(func(ctx context.Context, _ plugin.TurnContext) ([]plugin.Directive, error) {
		p.at(ctx, "before turn")
		return nil, nil
	})
	r.Prompt(func(ctx context.Context, _ plugin.PromptContext) ([]events.Contribution, error) {
		p.at(ctx, "prompt")
		return nil, nil
	})
	r.BeforeModelCall(func(ctx context.Context, _ plugin.ModelContext) ([]plugin.Directive, error) {
		p.at(ctx, "before model call")
		return nil, nil
	})
	r.Response(func(ctx context.Context, _ events.SessionID, now plugin.Response) (plugin.Response, []json.RawMessage, error) {
		p.at(ctx, "response")
		return now, nil, nil
	})
	r.BeforeToolCall(func(ctx context.Context, _ plugin.ToolContext) ([]plugin.Directive, error) {
		p.at(ctx, "before tool")
		return nil, nil
	})
	r.AfterToolCall(func(ctx context.Context, _ plugin.ToolResultContext) ([]plugin.Directive, error) {
		p.at(ctx, "after tool")
		return nil, nil
	})
	r.ProjectToolResult(func(ctx context.Context, in plugin.ToolResultContext) (plugin.View, error) {
		p.at(ctx, "projector")
		return in.View(), nil
	})
	r.Checkpoint(func(ctx context.Context, _ plugin.CheckpointContext) ([]plugin.Directive, error) {
		p.at(ctx, "checkpoint")
		return nil, nil
	})
	r.AfterTurn(func(ctx context.Context, _ plugin.TurnResultContext) ([]plugin.Directive, error) {
		p.at(ctx, "after turn")
		return nil, nil
	})
	r.Lifecycle(func(ctx context.Context, e plugin.Lifecycle) error {
		p.at(ctx, "lifecycle "+string(e.Kind))
		return nil
	})
	r.Compact(0, func(ctx context.Context, _ plugin.TransformContext) (plugin.Compaction, error) {
		p.at(ctx, "compactor")
		return plugin.Compaction{}, nil
	})
	plugin.AddTool(r, plugin.Tool{Name: "look", Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		p.at(ctx, "tool")
		return "seen", nil
	})
	r.Action(plugin.ActionDef{Name: "act"}, func(ctx context.Context, _ plugin.ActionContext, _ json.RawMessage) (plugin.Result, error) {
		p.at(ctx, "action")
		return plugin.Result{}, nil
	})
}

// TestReadsOfPluginsHaveMemory has a plugin at every point of a turn and of the requests around it, over each API: what it reads takes memory of
// the node. A session that was made elsewhere is restored first. A run that restores one never waits for memory, which its effects may have.
func TestReadsOfPluginsHaveMemory(t *testing.T) {
	t.Parallel()
	atTurns := []string{
		"transform", "before turn", "prompt", "before model call", "model call", "response", "before tool", "tool", "after tool", "projector", "checkpoint", "after turn",
		"lifecycle " + string(plugin.TurnFinalized), "lifecycle " + string(plugin.TurnPersisted),
	}
	all := []string{"restore", "lifecycle " + string(plugin.SessionRestored), "compactor", "action", "append"}
	for name, c := range map[string]struct {
		ask  func(b *harness.System, id events.SessionID)
		want []string // of which the first ones have no limit
		free int
	}{
		"a turn's node": {func(b *harness.System, id events.SessionID) { b.RunTurn(id, "t1", harness.Text("go")) }, append(all[:2:2], atTurns...), 2},
		"NATS": {func(b *harness.System, id events.SessionID) {
			c := harness.Dial(b.T, b.Bus)
			_, err := c.Compact(b.Ctx, id)
			runtest.WantError(b.T, "compact", err, nil)
			_, err = c.InvokeAction(b.Ctx, id, "act", nil)
			runtest.WantError(b.T, "action", err, nil)
			_, err = c.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("a")})
			runtest.WantError(b.T, "append", err, nil)
		}, all, 0},
		"HTTP": {func(b *harness.System, id events.SessionID) {
			d := b.ServeHTTP(httpapi.Config{})
			d.Want(200, "POST", "/v1/sessions/"+string(id)+"/compact", "")
			d.Want(200, "POST", "/v1/sessions/"+string(id)+"/actions", `{"name":"act"}`)
			d.Want(200, "POST", "/v1/sessions/"+string(id)+"/nodes", `{"nodes":[{"message":{"role":"user","parts":[{"type":"text","text":"a"}]}}]}`)
		}, all, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "look", "{}")), harness.Reply(harness.Text("done")))
			id := b.Open(api.CreateRequest{})
			p := &memoryPoints{limited: make(map[string]bool)}
			node := b.StartNodeWith(workers.Config{}, plugin.BuilderConfig{Factories: []plugin.Factory{
				harness.PluginOf(standard.ID, func(r *plugin.Registrar) { r.Protocol(restored{points: p}); r.Driver(harness.Protocol{}) }), harness.PluginOf("points", p.register),
			}})
			if name == "HTTP" {
				b.Host = node.Host()
			}
			c.ask(b, id)
			b.AwaitState(id, "what plugins are told", func(s *projector.State) bool { return s.Turn() == nil && len(s.Unnotified) == 0 })
			for place, limited := range p.limited {
				if free := slices.Contains(c.want[:c.free], place); limited == free {
					t.Errorf("%s: what a plugin reads takes memory of the node: %t, want %t", place, limited, !free)
				}
			}
			for _, place := range c.want {
				if _, seen := p.limited[place]; !seen {
					t.Errorf("%s: no plugin was called there", place)
				}
			}
		})
	}
}

// TestTurnLeavesMemoryToItsChild has a call of a turn wait for the turn of a child, whose conversation is as large as its own, on a node with memory
// for one of them.
func TestTurnLeavesMemoryToItsChild(t *testing.T) {
	t.Parallel()
	const size = 400 << 10
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "ask", "{}")), harness.Reply(harness.Text("child")), harness.Reply(harness.Text("parent")))
	asks := harness.PluginOf("asks", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "ask", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			s, err := c.Host.SnapshotCurrent(ctx)
			if err != nil {
				return "", err
			}
			if v, err := s.View(); err != nil || v.Spilled {
				return "", errors.New("the state has references")
			}
			child, err := c.Host.CreateSession(ctx, api.CreateRequest{ID: "child", Start: api.StartCurrent})
			if err != nil {
				return "", err
			}
			got, err := c.Host.StartTurn(ctx, child.Session, api.TurnRequest{ID: "c1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
			return got.Output.SafeText, err
		})
	})
	b.StartNodeWith(workers.Config{Memory: 4 * 3 * size}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{asks}})
	id := b.Open(api.CreateRequest{})
	_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: []api.AppendNode{{Message: &events.Message{Role: events.RoleUser, Parts: []events.Part{harness.Text(strings.Repeat("x", size))}}}}})
	runtest.WantError(t, "append", err, nil)
	runtest.Equal(t, "answer", b.RunTurn(id, "t1", harness.Text("go")).Text, "parent")
	runtest.Equal(t, "the call's result", b.CallResult(id, "k1"), "child")
}

// TestStreamWithoutMemory: the stream of a turn that it asked for, whose reply is too large for what is free, does not end as a request without
// effect does.
func TestStreamWithoutMemory(t *testing.T) {
	t.Parallel()
	const size = 400 << 10
	b := harness.StartIdle(t, harness.Reply(harness.Text(strings.Repeat("x", size))))
	b.StartNodeWith(workers.Config{}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}})
	id := b.Open(api.CreateRequest{})
	p := memory.NewPool(size, size)
	_, err := p.Take(b.Ctx, "other", size)
	runtest.WantError(t, "the memory of others", err, nil)
	_, list, err := b.StartTurnStream(p.Account("a", time.Millisecond).In(b.Ctx), id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
	runtest.WantError(t, "start", err, nil)
	for _, e := range list {
		err = e
	}
	if errors.Is(err, api.ErrMemory) || !errors.Is(err, events.ErrOutcomeUnknown) {
		t.Errorf("got %v, want %v", err, events.ErrOutcomeUnknown)
	}
}
