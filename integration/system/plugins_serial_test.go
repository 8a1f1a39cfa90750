package system

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// concurrentCalls has the tools p1 and p2, which run concurrently and wait for each other, and s1 and s2, which must run
// alone.
type concurrentCalls struct {
	t    *testing.T
	met  sync.WaitGroup // of p1 and p2
	mu   sync.Mutex
	now  int
	done []string // in the order of their ends, "p" for either p
}

func newCrowd(t *testing.T) *concurrentCalls {
	c := &concurrentCalls{t: t}
	c.met.Add(2)
	return c
}

func (c *concurrentCalls) register(r plugin.ToolAdder) {
	for _, tool := range []plugin.Tool{{Name: "s1", Serial: true}, {Name: "p1"}, {Name: "s2", Serial: true, Effects: events.EffectsNone}, {Name: "p2"}} {
		plugin.AddTool(r, tool, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			c.enter(tool)
			if !tool.Serial {
				c.met.Done()
				c.met.Wait()
			}
			c.end(tool)
			return tool.Name, ctx.Err()
		})
	}
}

func (c *concurrentCalls) enter(tool plugin.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now++; tool.Serial && c.now > 1 {
		c.t.Errorf("%s: got it beside %d calls, want it alone", tool.Name, c.now-1)
	}
}

func (c *concurrentCalls) end(tool plugin.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now--; tool.Serial && c.now > 0 {
		c.t.Errorf("%s: got %d calls that began beside it, want it alone", tool.Name, c.now)
	}
	name := tool.Name
	if !tool.Serial {
		name = "p"
	}
	c.done = append(c.done, name)
}

// TestSerialCalls runs serial tools alone, in order, after the others.
func TestSerialCalls(t *testing.T) {
	t.Parallel()
	b, c := harness.StartIdle(t), newCrowd(t)
	c.register(b.Tools)
	harness.CallEach(t, b, "s1", "p1", "s2", "p2", "s1")
	runtest.EqualLists(t, "order", c.done, []string{"p", "p", "s1", "s2", "s1"})
	runtest.Equal(t, "results", b.Model.Prompt(1)[2], "user k=s1 k=p1 k=s2 k=p2 k=s1")
}

// TestSerialBatch runs the serial calls of a batch alone, in order, after its others.
func TestSerialBatch(t *testing.T) {
	t.Parallel()
	args := `{"tool_calls":[{"tool":"s1"},{"tool":"p1"},{"tool":"s2"},{"tool":"p2"},{"tool":"s1"}]}`
	b, c := harness.StartIdle(t, harness.Reply(harness.Call("k", "batch", args)), harness.Reply(harness.Text("done"))), newCrowd(t)
	b.StartNode(standard.Batch(), harness.PluginOf("crowd", func(r *plugin.Registrar) { c.register(r) }))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "order", c.done, []string{"p", "p", "s1", "s2", "s1"})
	var got []struct{ Tool, Result string }
	runtest.WantError(t, "result", json.Unmarshal([]byte(b.CallResult(id, "k")), &got), nil)
	for i, name := range []string{"s1", "p1", "s2", "p2", "s1"} {
		runtest.Equal(t, "tool", got[i].Tool, name)
		runtest.Equal(t, "result", got[i].Result, name)
	}
}

// TestSerialKilled kills a node in the first of two serial calls. Calls that had returned do not run again; the
// serial ones continue in order.
func TestSerialKilled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "second", "{}"), harness.Call("2", "free", "{}"), harness.Call("3", "second", "{}")), harness.Reply(harness.Text("done")))
	started := make(chan struct{})
	runs := make(map[events.EffectID]int)
	var mu sync.Mutex
	count := func(c plugin.Call) int {
		mu.Lock()
		defer mu.Unlock()
		runs[c.Effect]++
		return runs[c.Effect]
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "free", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ struct{}) (int, error) {
		return count(c), nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "second", Effects: events.EffectsIdempotent, Serial: true}, func(ctx context.Context, c plugin.Call, _ struct{}) (int, error) {
		n := count(c)
		if n == 1 && c.Effect == "t1/0/0" {
			close(started)
			<-ctx.Done()
		}
		return n, ctx.Err()
	})
	kill := b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	b.AwaitState(id, "the free call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 3 && s.Turn().Calls[1].Done
	})
	kill()
	b.StartWorker(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "results", b.Messages(id)[2], "user 1=2 2=1 3=1")
}

// TestSerialToolsWithApproval runs the serial calls after one that waits for an approval at once, and that one alone later.
func TestSerialToolsWithApproval(t *testing.T) {
	t.Parallel()
	b, c := harness.StartIdle(t, harness.Reply(harness.Call("1", "s1", "{}"), harness.Call("2", "s2", "{}")), harness.Reply(harness.Text("done"))), newCrowd(t)
	b.StartNode(harness.PluginOf("crowd", func(r *plugin.Registrar) {
		c.register(r)
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "s1" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("really?")}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.AwaitState(id, "the other call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 2 && s.Turn().Calls[1].Done
	})
	runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true}), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "order", c.done, []string{"s2", "s1"})
	runtest.Equal(t, "results", b.Messages(id)[2], "user 1=s1 2=s2")
}
