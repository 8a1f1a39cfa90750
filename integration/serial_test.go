package integration

import (
	"context"
	"encoding/json"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// crowd has the tools p1 and p2, which run beside each other and wait for it,
// and s1 and s2, which want to be alone.
type crowd struct {
	t    *testing.T
	met  sync.WaitGroup // of p1 and p2
	mu   sync.Mutex
	now  int
	done []string // in the order of their ends, "p" for either p
}

func newCrowd(t *testing.T) *crowd {
	c := &crowd{t: t}
	c.met.Add(2)
	return c
}

func (c *crowd) register(r plugin.Registry) {
	for _, tool := range []plugin.Tool{{Name: "s1", Serial: true}, {Name: "p1"}, {Name: "s2", Serial: true, Effects: events.EffectsNone}, {Name: "p2"}} {
		plugin.AddTool(r, tool, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			c.enter(tool)
			if !tool.Serial {
				c.met.Done()
				c.met.Wait()
			}
			c.leave(tool)
			return tool.Name, ctx.Err()
		})
	}
}

func (c *crowd) enter(tool plugin.Tool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now++; tool.Serial && c.now > 1 {
		c.t.Errorf("%s: got it beside %d calls, want it alone", tool.Name, c.now-1)
	}
}

func (c *crowd) leave(tool plugin.Tool) {
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
	b, c := setupIdle(t), newCrowd(t)
	c.register(b.tools)
	oneCall(t, b, "s1", "p1", "s2", "p2", "s1")
	equalLists(t, "order", c.done, []string{"p", "p", "s1", "s2", "s1"})
	equal(t, "results", b.model.prompt(1)[2], "user k=s1 k=p1 k=s2 k=p2 k=s1")
}

// TestSerialBatch runs the serial calls of a batch alone, in order, after its others.
func TestSerialBatch(t *testing.T) {
	t.Parallel()
	args := `{"tool_calls":[{"tool":"s1"},{"tool":"p1"},{"tool":"s2"},{"tool":"p2"},{"tool":"s1"}]}`
	b, c := setupIdle(t, reply(call("k", "batch", args)), reply(text("done"))), newCrowd(t)
	b.node(standard.Batch(), declares("crowd", func(r *plugin.Registrar) { c.register(r) }))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	equalLists(t, "order", c.done, []string{"p", "p", "s1", "s2", "s1"})
	var got []struct{ Tool, Result string }
	must(t, "result", json.Unmarshal([]byte(b.result(id, "k")), &got), nil)
	for i, name := range []string{"s1", "p1", "s2", "p2", "s1"} {
		equal(t, "tool", got[i].Tool, name)
		equal(t, "result", got[i].Result, name)
	}
}

// TestSerialKilled kills a node in the first of two serial calls. What had
// returned does not run again; the serial ones go on in order.
func TestSerialKilled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("1", "second", "{}"), call("2", "free", "{}"), call("3", "second", "{}")), reply(text("done")))
	begun := make(chan struct{})
	runs := make(map[events.EffectID]int)
	var mu sync.Mutex
	count := func(c plugin.Call) int {
		mu.Lock()
		defer mu.Unlock()
		runs[c.Effect]++
		return runs[c.Effect]
	}
	plugin.AddTool(b.tools, plugin.Tool{Name: "free", Effects: events.EffectsNone}, func(_ context.Context, c plugin.Call, _ struct{}) (int, error) {
		return count(c), nil
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "second", Effects: events.EffectsIdempotent, Serial: true}, func(ctx context.Context, c plugin.Call, _ struct{}) (int, error) {
		n := count(c)
		if n == 1 && c.Effect == "t1/0/0" {
			close(begun)
			<-ctx.Done()
		}
		return n, ctx.Err()
	})
	kill := b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	b.await(id, "the free call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 3 && s.Turn().Calls[1].Done
	})
	kill()
	b.work(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "results", b.messages(id)[2], "user 1=2 2=1 3=1")
}

// TestSerialAsks lets the serial calls after one that waits for an approval run at once, and that one alone later.
func TestSerialAsks(t *testing.T) {
	t.Parallel()
	b, c := setupIdle(t, reply(call("1", "s1", "{}"), call("2", "s2", "{}")), reply(text("done"))), newCrowd(t)
	b.node(declares("crowd", func(r *plugin.Registrar) {
		c.register(r)
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "s1" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("really?")}, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.await(id, "the other call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 2 && s.Turn().Calls[1].Done
	})
	must(t, "approve", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: "t1/0/0", Granted: true}), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "order", c.done, []string{"s2", "s1"})
	equal(t, "results", b.messages(id)[2], "user 1=s1 2=s2")
}
