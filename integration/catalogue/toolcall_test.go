package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func dispatchEntries() []entry {
	return []entry{
		{"X13", "results stand in call order", "three parallel calls that finish in reverse", "results", "stand in call order", testCallOrder},
		{"X14", "invalid arguments do not run the tool", "arguments that the schema refuses", "call", "invalid_tool_args, the hooks asked, the tool not run", testCallArgs},
		{"X15", "panic of a tool fails its call only", "a tool that panics", "call", "tool_task_failed, the call beside it unaffected", testCallPanic},
		{"X16", "safe failure is tried again", "three attempts, two safe failures", "call", "three attempts with doubling waits, one key, on whatever node", testCallRetry},
		{"X17", "unsafe failure is not tried again", "a failure that is not safe", "call", "one attempt", testCallUnsafe},
		{"X18", "attempts run out", "failures until the attempts run out", "call", "the failure, with the number of attempts", testCallExhausted},
		{"X19", "pending result needs a key", "a pending result without a key", "call", "pending_tool_missing_completion_key", testCallNoKey},
		{"X20", "early result from outside is used once", "a result from outside before the call waits, its node killed", "turn", "the result once, the hooks after it once", testCallResolved},
		{"X21", "finished call does not run again", "a finished call beside an unfinished one, the process killed", "takeover", "the finished one does not run again", testCallFinished},
		{"X22", "batch limits its calls", "a batch of 26 with a batch in it", "call", "errors for both, results for the rest, in order", testBatch},
	}
}

func testCallArgs(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "picky", `{"n":"x"}`)), harness.Reply(harness.Text("done")))
	var before, after atomic.Int64
	b.StartNode(plugin.Func("picky", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "picky"}, func(context.Context, plugin.Call, struct {
			N int `json:"n"`
		},
		) (string, error) {
			t.Error("picky: ran, want it refused")
			return "", nil
		})
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { before.Add(1); return nil, nil })
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
			after.Add(1)
			return nil, nil
		})
		return nil
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	got := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "class", got.Class, plugin.ClassInvalidRequest)
	runtest.Equal(t, "code", got.Code, plugin.CodeInvalidArgs)
	runtest.Equal(t, "hooks before", before.Load(), 1)
	runtest.Equal(t, "hooks after", after.Load(), 1)
	runtest.Equal(t, "shown", strings.HasPrefix(b.Messages(id)[2], "user k=[failed] "), true)
}

func testCallPanic(t *testing.T) {
	b := harness.StartIdle(t)
	harness.NamedTools(b.Tools, "fine")
	plugin.AddTool(b.Tools, plugin.Tool{Name: "panics"}, func(context.Context, plugin.Call, struct{}) (string, error) { panic("ouch") })
	got := harness.CallEach(t, b, "panics", "fine")
	runtest.Equal(t, "outcome", got[0].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "class", got[0].Class, plugin.ClassInternal)
	runtest.Equal(t, "code", got[0].Code, plugin.CodeTaskFailed)
	runtest.Equal(t, "beside it", got[1].Text, "fine")
	runtest.Equal(t, "its outcome", got[1].Outcome, events.OutcomeSuccess)
}

var safe = plugin.Failure{Class: plugin.ClassExternal, Code: "busy", Message: "busy", Safe: true}

// testCallRetry kills the first node in its second attempt; the second node needs three.
func testCallRetry(t *testing.T) {
	const base = 20 * time.Millisecond
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "shaky", "{}")), harness.Reply(harness.Text("done")))
	var mu sync.Mutex
	var keys []string
	var at []time.Time
	started := make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "shaky", Effects: events.EffectsIdempotent, Retry: plugin.Retry{Attempts: 3, Base: base}},
		func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			mu.Lock()
			keys, at = append(keys, fmt.Sprintf("%s#%d", c.Key, c.Attempt)), append(at, time.Now())
			n := len(keys)
			mu.Unlock()
			switch n {
			case 2:
				close(started)
				<-ctx.Done()
				return "", ctx.Err()
			case 5:
				return "at last", nil
			}
			f := safe
			return "", &f
		})
	kill := b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	kill()
	b.StartWorker(b.Bus)
	b.AwaitTurn(id, "t1")
	key := "lash-tool:" + string(id) + ":t1/0/0:shaky#"
	runtest.EqualLists(t, "attempts", keys, []string{key + "1", key + "2", key + "1", key + "2", key + "3"})
	for i, wait := range []time.Duration{base, 2 * base} {
		if got := at[i+3].Sub(at[i+2]); got < wait {
			t.Errorf("wait %d: got %v, want at least %v", i+1, got, wait)
		}
	}
	got := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.Equal(t, "text", got.Text, "at last")
	runtest.Equal(t, "attempts", got.Attempts, 3)
}

func testCallUnsafe(t *testing.T) {
	b := harness.StartIdle(t)
	f := plugin.Failure{Class: plugin.ClassExternal, Code: "broken", Message: "broken"}
	tries := failing(b, "shaky", plugin.Retry{Attempts: 3}, &f, 9)
	got := harness.CallEach(t, b, "shaky")[0]
	runtest.Equal(t, "tries", tries.Load(), 1)
	runtest.Equal(t, "code", got.Code, "broken")
}

func testCallExhausted(t *testing.T) {
	b := harness.StartIdle(t)
	f := safe
	tries := failing(b, "shaky", plugin.Retry{Attempts: 3, Base: time.Millisecond}, &f, 9)
	got := harness.CallEach(t, b, "shaky")[0]
	runtest.Equal(t, "tries", tries.Load(), 3)
	runtest.Equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "class", got.Class, plugin.ClassExternal)
	runtest.Equal(t, "attempts", got.Attempts, 3)
}

func testCallNoKey(t *testing.T) {
	b := harness.StartIdle(t)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "vague"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
		return plugin.Result{Pending: true}, nil
	})
	got := harness.CallEach(t, b, "vague")[0]
	runtest.Equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code", got.Code, plugin.CodePendingKey)
}

// testCallResolved resolves a pending call before it waits, with its node
// killed in between, with another kind of tool, and not at all.
func testCallResolved(t *testing.T) {
	for name, tool := range map[string]plugin.Tool{
		"plain":           {Name: "later"},
		"killed":          {Name: "later"},
		"killed_repeated": {Name: "later", Effects: events.EffectsIdempotent},
	} {
		t.Run(name, func(t *testing.T) {
			b := harness.StartIdle(t, harness.Reply(harness.Call("k", "later", "{}")), harness.Reply(harness.Text("done")))
			var runs, after atomic.Int64
			host, resolved := b.Host, make(chan struct{})
			var id events.SessionID
			later := plugin.Func("later", func(r *plugin.Registrar) error {
				plugin.AddTool(r, tool, func(ctx context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
					runs.Add(1)
					if err := host.ResolveTool(ctx, id, c.CompletionKey(), events.ToolResult{Text: "from outside"}); err != nil {
						return plugin.Result{}, err
					}
					b.AwaitState(id, "resolution", func(s *projector.State) bool { return s.Turn() != nil && s.Turn().Resolution(c.Effect) != nil })
					if name != "plain" {
						close(resolved)
						<-ctx.Done()
					}
					return plugin.Result{Pending: true}, ctx.Err()
				})
				r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
					after.Add(1)
					runtest.Equal(t, "result for the hooks", in.Result.Text, "from outside")
					return nil, nil
				})
				return nil
			})
			id = b.Open(api.CreateRequest{})
			_, kill := b.StartNodeOn(b.Bus, later)
			b.StartTurn(id, "t1", harness.Text("go"))
			if name != "plain" {
				harness.Receive(b, "resolved", resolved)
				kill()
				b.StartNodeOn(b.Bus, later)
			}
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "result", b.Messages(id)[2], "user k=from outside")
			runtest.Equal(t, "results", len(harness.Find[*events.ToolReturned](b, id)), 1)
			runtest.Equal(t, "lost", len(harness.Find[*events.ToolLost](b, id)), 0)
			runtest.Equal(t, "runs", runs.Load(), 1)
			runtest.Equal(t, "hooks after", after.Load(), 1)
		})
	}
}

func testCallFinished(t *testing.T) {
	b := setupListening(t, harness.Reply(harness.Call("1", "quick", "{}"), harness.Call("2", "quick_once", "{}"), harness.Call("3", "slow", "{}")), harness.Reply(harness.Text("done")))
	var quick, slow atomic.Int64
	hanging := make(chan struct{})
	for _, tool := range []plugin.Tool{{Name: "quick", Effects: events.EffectsIdempotent}, {Name: "quick_once"}} {
		plugin.AddTool(b.Tools, tool, func(context.Context, plugin.Call, struct{}) (string, error) {
			quick.Add(1)
			return "quick", nil
		})
	}
	plugin.AddTool(b.Tools, plugin.Tool{Name: "slow", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		if slow.Add(1) == 1 {
			close(hanging)
			<-ctx.Done()
		}
		return "slow", ctx.Err()
	})
	kill := process(b, "", nil)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.AwaitState(id, "two results", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 3 && s.Turn().Calls[0].Done && s.Turn().Calls[1].Done
	})
	b.Wait("the slow call", hanging)
	kill()
	b.StartWorker(b.Bus)
	b.AwaitTurn(id, "t1")
	runtest.Equal(t, "results", b.Messages(id)[2], "user 1=quick 2=quick 3=slow")
	runtest.Equal(t, "runs of the finished", quick.Load(), 2)
	runtest.Equal(t, "runs of the other", slow.Load(), 2)
}

func testBatch(t *testing.T) {
	type sub struct {
		Tool       string         `json:"tool"`
		Parameters map[string]int `json:"parameters,omitempty"`
	}
	var calls []sub
	for i := range 26 {
		calls = append(calls, sub{"echo", map[string]int{"n": i}})
	}
	calls[3] = sub{"batch", nil}
	calls[5] = sub{"echo", nil}
	calls[7] = sub{"missing", nil}
	args, err := json.Marshal(map[string]any{"tool_calls": calls})
	runtest.WantError(t, "arguments", err, nil)
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "batch", string(args))), harness.Reply(harness.Text("done")))
	var runs, before, after, stops atomic.Int64
	hanging := make(chan struct{})
	echo := plugin.Func("echo", func(r *plugin.Registrar) error {
		plugin.AddTool(r, plugin.Tool{Name: "echo"}, func(ctx context.Context, _ plugin.Call, in struct {
			N int `json:"n"`
		},
		) (int, error) {
			if in.N == 11 && stops.Add(1) == 1 {
				close(hanging)
				<-ctx.Done()
				return 0, ctx.Err()
			}
			runs.Add(1)
			return in.N, nil
		})
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "echo" {
				before.Add(1)
			}
			return nil, nil
		})
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			if in.Tool == "echo" {
				after.Add(1)
			}
			return nil, nil
		})
		return nil
	})
	_, kill := b.StartNodeOn(b.Bus, standard.Batch(), echo)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "hanging", hanging)
	b.AwaitState(id, "all results but one", func(s *projector.State) bool {
		done := 0
		if t := s.Turn(); t != nil {
			for i := range t.Nested {
				if t.Nested[i].Done {
					done++
				}
			}
		}
		return done == 23
	})
	kill() // one of the 24 calls had started and may not be repeated
	b.StartNodeOn(b.Bus, standard.Batch(), echo)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "runs", runs.Load(), 21)
	runtest.Equal(t, "hooks before", before.Load(), 23)
	runtest.Equal(t, "hooks after", after.Load(), 22)
	var got []struct {
		Tool, Result, Error string
		Success             bool
	}
	result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
	runtest.WantError(t, "result", json.Unmarshal([]byte(result.Text), &got), nil)
	runtest.Equal(t, "results", len(got), 26)
	for i, r := range got {
		want := map[int]string{3: "cannot hold a batch", 5: "required", 7: "not available", 11: "[lost]", 25: "at most 25"}[i]
		runtest.Equal(t, fmt.Sprintf("success of %d", i), r.Success, want == "")
		if want == "" {
			runtest.Equal(t, "result", r.Result, fmt.Sprint(i))
		} else if !strings.Contains(r.Error, want) {
			t.Errorf("error of %d: got %q, want %q in it", i, r.Error, want)
		}
	}
}
