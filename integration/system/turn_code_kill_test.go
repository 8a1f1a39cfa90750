package system

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
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

// TestCodeGatherKilled kills a node during a gather: two calls have returned and one has failed, one may run again, one must not.
func TestCodeGatherKilled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("n = 1\nr = gather([call(add, a=1), call(once), call(broken), call(again), call(hang)], attempt=True)\nn += 1"),
		harness.Program("print(n)\nfor x in r: print(x.value, x.error)"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	started := make(chan struct{}, 2)
	hangs := func(ctx context.Context, name string) (string, error) {
		if n := c.Add(name); n > 1 {
			return fmt.Sprintf("%s-%d", name, n), nil
		}
		started <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "again", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		return hangs(ctx, "again")
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "hang"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		return hangs(ctx, "hang")
	})
	kill := b.StartCodeNode(bustest.Open(t, b.Server))
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "a call", started)
	harness.Receive(b, "another call", started)
	b.AwaitState(id, "three results", returned("t1/0/0/0", "t1/0/0/1", "t1/0/0/2"))
	kill()
	b.StartCodeNode(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "output", b.Outputs(id)[1], "2\n1 \nonce-1 \nNone out of paper 1\nagain-2 \nNone "+projector.LostText+"\n")
	for name, want := range map[string]int{"add": 1, "once": 1, "broken": 1, "again": 2, "hang": 1} {
		runtest.Equal(t, "calls of "+name, c.Count(name), want)
	}
	harness.VerifyHistory(t, b.Bus, id)
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
	b := harness.StartIdle(t, slices.Repeat([]harness.Step{func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		effects.count(ctx)
		return scripted.Answer{Response: llm.Response{Parts: []events.Part{harness.CodeBlock(programs[req.Iteration])}, Stop: events.StopEnd}}, ctx.Err()
	}}, 100)...)
	c := b.AddCodeTools()
	plugin.AddTool(b.Tools, plugin.Tool{Name: "tally"}, func(ctx context.Context, in plugin.Call, _ struct{}) (int, error) {
		n := c.Add(string(in.Session))
		effects.count(ctx)
		return n, ctx.Err()
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "plus", Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, in struct {
		N int `json:"n"`
	},
	) (int, error) {
		effects.count(ctx)
		return in.N, ctx.Err()
	})
	for n := 1; n <= 7; n++ {
		reached := effects.stopAt(n)
		kill := b.StartCodeNode(bustest.Open(t, b.Server))
		id := b.Open(harness.CodeSession())
		b.StartTurn(id, "t1", harness.Text("go"))
		select {
		case <-reached:
		case <-b.Ctx.Done():
			t.Fatalf("effect %d: %v", n, context.Cause(b.Ctx))
		}
		kill()
		kill = b.StartCodeNode(bustest.Open(t, b.Server))
		runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndSubmitted)
		runtest.Equal(t, "attempts", b.AwaitTurn(id, "t1").Attempts, 2)
		kill()
		// The second effect is the call that must not run twice: its fate is unknown.
		runtest.Equal(t, fmt.Sprintf("value after effect %d", n), b.Outcome(id, "t1").Value, fmt.Sprintf(`{"ok":%v,"sums":[1,2,3]}`, n != 2))
		runtest.Equal(t, "calls that must not run twice", c.Count(string(id)), 1)
		times := map[events.EffectID]int{}
		for _, p := range harness.Find[*events.ToolNestedReturned](b, id) {
			times[p.Effect]++
			runtest.Equal(t, "results of "+string(p.Effect), times[p.Effect], 1)
		}
		runtest.Equal(t, "nested calls", len(times), 4)
		harness.VerifyHistory(t, b.Bus, id)
	}
}

// effects counts the effects of a turn, and blocks one of them.
type effects struct {
	mu        sync.Mutex
	remaining int
	reached   chan struct{}
}

// stopAt blocks the nth effect from now on until its context ends, and signals when it starts.
func (e *effects) stopAt(n int) (reached <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.remaining, e.reached = n, make(chan struct{})
	return e.reached
}

func (e *effects) count(ctx context.Context) {
	e.mu.Lock()
	e.remaining--
	stop := e.remaining == 0
	e.mu.Unlock()
	if stop {
		close(e.reached)
		<-ctx.Done()
	}
}

// TestCodeApprovalsGathered has two calls of a gather wait for an approval, and the node killed between the
// answers. A third call, which must not run twice, ends after the requests: it is not lost.
func TestCodeApprovalsGathered(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("print(gather([call(add, a=1), call(once), call(once), call(slow)], attempt=True))"), harness.Reply(harness.Text("done")))
	c, requested := b.AddCodeTools(), make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "slow"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		select {
		case <-requested:
		case <-ctx.Done():
		}
		return fmt.Sprintf("slow-%d", c.Add("slow")), nil
	})
	gatePlugin := plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.Tools)
	})
	node := func() (kill func()) {
		n, kill := b.StartNodeOn(bustest.Open(t, b.Server), append(workers.Builtins()[1:], gatePlugin)...)
		b.Host = n.Host()
		return kill
	}
	kill := node()
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"))
	s := b.AwaitState(id, "both questions", func(s *projector.State) bool { return s.Turn() != nil && len(s.Turn().Asks) == 2 })
	close(requested)
	b.AwaitState(id, "the third call", func(s *projector.State) bool {
		call := s.Turn().NestedCall("t1/0/0/3")
		return call != nil && call.Done
	})
	for i, request := range s.Turn().Asks {
		kill()
		kill = node()
		runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: request.Effect, Granted: i == 0}), nil)
	}
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	output := b.Outputs(id)[0]
	runtest.Equal(t, "calls", c.Count("once"), 1)
	runtest.Equal(t, "calls of the third", c.Count("slow"), 1)
	runtest.Equal(t, "not lost: "+output, strings.Contains(output, "value=\"slow-1\""), true)
	runtest.Equal(t, "granted: "+output, strings.Contains(output, "value=\"once-1\""), true)
	runtest.Equal(t, "denied: "+output, strings.Contains(output, "the call was not approved"), true)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestCodeFork forks a session with its variables. Changes in the fork stay in the fork.
func TestCodeFork(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Program("x = 1"), harness.Reply(harness.Text("kept")), harness.Program("x = x + 1\nprint(x)"), harness.Reply(harness.Text("there")), harness.Program("print(x)"), harness.Reply(harness.Text("still there")))
	b.RunTurn(id, "t1", harness.Text("go"))
	fork, err := b.Fork(b.Ctx, id, api.CreateRequest{})
	runtest.WantError(t, "fork", err, nil)
	b.RunTurn(fork, "t1", harness.Text("go"))
	runtest.Equal(t, "in the fork", b.Outputs(fork)[0], "2\n")
	b.RunTurn(id, "t2", harness.Text("go"))
	runtest.Equal(t, "in the session", b.Outputs(id)[1], "1\n")
}
