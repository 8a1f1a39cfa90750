package integration

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// returned reports whether these calls of a running program have recorded results.
func returned(list ...events.EffectID) func(*projector.State) bool {
	return func(s *projector.State) bool {
		return s.Turn() != nil && !slices.ContainsFunc(list, func(e events.EffectID) bool {
			c := s.Turn().NestedCall(e)
			return c == nil || !c.Done
		})
	}
}

// TestCodeGatherKilled kills a node while a program gathers: two calls have
// returned, one may run again, one must not.
func TestCodeGatherKilled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("n = 1\nr = gather([call(add, a=1), call(once), call(again), call(hang)], attempt=True)\nn += 1"),
		program("print(n)\nfor x in r: print(x.value, x.error)"), reply(text("done")))
	c := b.codeTools()
	begun := make(chan struct{}, 2)
	hangs := func(ctx context.Context, name string) (string, error) {
		if n := c.count(name); n > 1 {
			return fmt.Sprintf("%s-%d", name, n), nil
		}
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	plugin.AddTool(b.tools, plugin.Tool{Name: "again", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		return hangs(ctx, "again")
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "hang"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		return hangs(ctx, "hang")
	})
	kill := b.codeNode(bustest.Open(t, b.server))
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	receive(b, "a call", begun)
	receive(b, "another call", begun)
	b.await(id, "two results", returned("t1/0/0/0", "t1/0/0/1"))
	kill()
	b.codeNode(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "output", b.outputs(id)[1], "2\n1 \nonce-1 \nagain-2 \nNone "+projector.LostText+"\n")
	for name, want := range map[string]int{"add": 1, "once": 1, "again": 2, "hang": 1} {
		equal(t, "calls of "+name, c.of(name), want)
	}
	verified(t, b.bus, id)
}

// TestCodeKilledAnywhere kills the node in each effect of a turn of three
// programs: its three model calls, and its four calls of tools.
func TestCodeKilledAnywhere(t *testing.T) {
	t.Parallel()
	programs := []string{
		"r = attempt(tally)\nsums = gather([call(plus, n=1), call(plus, n=2)])",
		"sums.append(plus(n=3))\nprint(sums)",
		"finish({\"ok\": r.ok, \"sums\": sums})",
	}
	var effects effects
	b := setupIdle(t, slices.Repeat([]step{func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		effects.one(ctx)
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{block(programs[req.Iteration])}, Stop: events.StopEnd}}, ctx.Err()
	}}, 100)...)
	c := b.codeTools()
	plugin.AddTool(b.tools, plugin.Tool{Name: "tally"}, func(ctx context.Context, in plugin.Call, _ struct{}) (int, error) {
		n := c.count(string(in.Session))
		effects.one(ctx)
		return n, ctx.Err()
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "plus", Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, in struct {
		N int `json:"n"`
	},
	) (int, error) {
		effects.one(ctx)
		return in.N, ctx.Err()
	})
	for n := 1; n <= 7; n++ {
		reached := effects.stopAt(n)
		kill := b.codeNode(bustest.Open(t, b.server))
		id := b.open(inCode())
		b.submit(id, "t1", text("go"))
		select {
		case <-reached:
		case <-b.ctx.Done():
			t.Fatalf("effect %d: %v", n, context.Cause(b.ctx))
		}
		kill()
		kill = b.codeNode(bustest.Open(t, b.server))
		equal(t, "end", b.ended(id, "t1").End, events.EndSubmitted)
		equal(t, "attempts", b.ended(id, "t1").Attempts, 2)
		kill()
		// The second effect is the call that must not run twice: its fate is unknown.
		equal(t, fmt.Sprintf("value after effect %d", n), b.outcome(id, "t1").Value, fmt.Sprintf(`{"ok":%v,"sums":[1,2,3]}`, n != 2))
		equal(t, "calls that must not run twice", c.of(string(id)), 1)
		times := map[events.EffectID]int{}
		for _, p := range find[*events.ToolNestedReturned](b, id) {
			times[p.Effect]++
			equal(t, "results of "+string(p.Effect), times[p.Effect], 1)
		}
		equal(t, "nested calls", len(times), 4)
		verified(t, b.bus, id)
	}
}

// effects counts what a turn asks of the world, and holds one of it up.
type effects struct {
	mu      sync.Mutex
	left    int
	reached chan struct{}
}

// stopAt holds the nth effect from here on up until its context ends, and tells when it is reached.
func (e *effects) stopAt(n int) (reached <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.reached = n, make(chan struct{})
	return e.reached
}

func (e *effects) one(ctx context.Context) {
	e.mu.Lock()
	e.left--
	stop := e.left == 0
	e.mu.Unlock()
	if stop {
		close(e.reached)
		<-ctx.Done()
	}
}

// TestCodeApprovalsGathered has two calls of a gather wait for an approval, and
// the node killed between the answers. A third call, which must not run twice, ends after they asked: it is not lost.
func TestCodeApprovalsGathered(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("print(gather([call(add, a=1), call(once), call(once), call(slow)], attempt=True))"), reply(text("done")))
	c, asked := b.codeTools(), make(chan struct{})
	plugin.AddTool(b.tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		select {
		case <-asked:
		case <-ctx.Done():
		}
		return fmt.Sprintf("slow-%d", c.count("slow")), nil
	})
	ask := plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.tools)
	})
	node := func() (kill func()) {
		n, kill := b.nodeOn(bustest.Open(t, b.server), append(workers.Builtins()[1:], ask)...)
		b.Host = n.Host()
		return kill
	}
	kill := node()
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	s := b.await(id, "both questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	close(asked)
	b.await(id, "the third call", func(s *projector.State) bool {
		call := s.Turn().NestedCall("t1/0/0/3")
		return call != nil && call.Done
	})
	for i, asked := range s.Turn().Asks {
		kill()
		kill = node()
		must(t, "approve", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: asked.Effect, Granted: i == 0}), nil)
	}
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	output := b.outputs(id)[0]
	equal(t, "calls", c.of("once"), 1)
	equal(t, "calls of the third", c.of("slow"), 1)
	equal(t, "not lost: "+output, strings.Contains(output, "value=\"slow-1\""), true)
	equal(t, "granted: "+output, strings.Contains(output, "value=\"once-1\""), true)
	equal(t, "denied: "+output, strings.Contains(output, "the call was not approved"), true)
	verified(t, b.bus, id)
}

// TestCodeFork forks a session: its variables come along, and what becomes of them in the fork stays there.
func TestCodeFork(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program("x = 1"), reply(text("kept")), program("x = x + 1\nprint(x)"), reply(text("there")), program("print(x)"), reply(text("still there")))
	b.run(id, "t1", text("go"))
	fork, err := b.Fork(b.ctx, id, api.CreateRequest{})
	must(t, "fork", err, nil)
	b.run(fork, "t1", text("go"))
	equal(t, "in the fork", b.outputs(fork)[0], "2\n")
	b.run(id, "t2", text("go"))
	equal(t, "in the session", b.outputs(id)[1], "1\n")
}
