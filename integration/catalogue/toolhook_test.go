package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func toolHookEntries() []entry {
	return []entry{
		{"P07", "last replacement of the arguments runs", "replace the arguments with a, then with b, the process killed in the call", "call", "run with b on both nodes; every hook saw the model's own, once", testReplaceArgs},
		{"P08", "short circuit runs no tool", "a short circuit", "call", "no tool, no validation, no hooks after it", testShortCircuit},
		{"P09", "abort before a call fails that call", "an abort before a call", "call", "that call fails with the message; the turn goes on", testAbortCall},
		{"P10", "messages before a call fail it", "messages enqueued before a call", "call", "that call fails", testEnqueueBeforeCall},
		{"P11", "failed hook before a call fails that call", "a hook before calls fails for one", "call", "before_tool_call_failed for that one", testBeforeCallError},
		{"P12", "hook after a call replaces the result", "a hook after a call answers in the tool's place", "call", "recorded and projected", testReplaceResult},
	}
}

// replacing is a plugin with two hooks before calls that replace the arguments, and also overwrite their input,
// and a tool, which reports its arguments.
func replacing(report reporter) []plugin.Factory {
	hook := func(id, args string) plugin.Factory {
		return harness.PluginOf(id, func(r *plugin.Registrar) {
			r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
				err := report(ctx, id+" "+string(in.Args))
				for i := range in.Args {
					in.Args[i] = 'x'
				}
				return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(args))}, err
			})
		})
	}
	return []plugin.Factory{hook("one", `{"a":2}`), hook("two", `{"a":3}`), harness.PluginOf("add", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, in harness.OneNumber) (int, error) {
			return in.A + 40, report(ctx, fmt.Sprintf("ran %d", in.A))
		})
	})}
}

func testReplaceArgs(t *testing.T) {
	b := setupListening(t, harness.Reply(harness.Call("k", "add", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var mu sync.Mutex
	var saw []string
	started := make(chan struct{})
	report := func(ctx context.Context, what string) error {
		mu.Lock()
		saw = append(saw, what)
		first := len(saw) == 3 // the tool's first run
		mu.Unlock()
		if first {
			close(started)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	kill := process(b, "replacing", report)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	kill()
	b.StartNodeOn(bustest.Open(t, b.Server), replacing(report)...)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "hooks saw, the tool ran with", saw, []string{`one {"a":1}`, `two {"a":1}`, "ran 3", "ran 3"})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", `assistant k:add{"a":1}`, "user k=43", "assistant done"})
}

func testShortCircuit(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "add", `{"a":"no no number"}`), harness.Call("k2", "add", `{"a":1}`), harness.Call("k3", "add", `{"a":2}`), harness.Call("k4", "nobody", `{}`)), harness.Reply(harness.Text("done")))
	var runs, after atomic.Int64
	short := harness.BeforeCallPlugin("short", func(in plugin.ToolContext) []plugin.Directive {
		switch in.Call.ID {
		case "k4":
			return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "of no tool"})}
		case "k1":
			return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "not this"}), plugin.ShortCircuit(plugin.Result{Text: "instead"})}
		case "k2":
			return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Pending: true})}
		}
		return nil
	})
	b.StartNode(short, harness.CountingTools(&runs, "add"), harness.PluginOf("after", func(r *plugin.Registrar) {
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
			after.Add(1)
			return nil, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	got := b.ResultsByPosition(id)
	runtest.Equal(t, "outcome", got[0].Outcome, events.OutcomeSuccess)
	runtest.Equal(t, "text", got[0].Text, "instead")
	runtest.Equal(t, "a pending one", got[1].Code, plugin.CodePendingShort)
	runtest.Equal(t, "its outcome", got[1].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "beside them", got[2].Text, "was add")
	runtest.Equal(t, "of a tool that nobody offers", got[3].Code, plugin.CodeUnavailable) // resolved before any hook
	runtest.Equal(t, "runs", runs.Load(), 1)
	runtest.Equal(t, "hooks after", after.Load(), 1)
}

func testAbortCall(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "write", `{"a":1}`), harness.Call("k2", "read", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	b.StartNode(harness.CountingTools(&runs, "read", "write"), harness.BeforeCallPlugin("careful", func(in plugin.ToolContext) []plugin.Directive {
		if in.Tool != "write" {
			return nil
		}
		return []plugin.Directive{plugin.Abort("x", "not now"), plugin.Abort("read_only", "no writing")}
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	got := b.ResultsByPosition(id)
	runtest.Equal(t, "outcome", got[0].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code", got[0].Code, "read_only")
	runtest.Equal(t, "other call", got[1].Text, "was read")
	runtest.Equal(t, "runs", runs.Load(), 1)
	runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k1=[failed] no writing k2=was read")
}

func testEnqueueBeforeCall(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "read", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	b.StartNode(harness.CountingTools(&runs, "read"), harness.BeforeCallPlugin("eager", func(plugin.ToolContext) []plugin.Directive {
		return []plugin.Directive{harness.CreateChild("kid"), plugin.Enqueue(plugin.Say(events.RoleUser, "listen"))}
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	got := b.ResultsByPosition(id)[0]
	runtest.Equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "text", strings.Contains(got.Text, "no message injection"), true)
	runtest.Equal(t, "runs", runs.Load(), 0)
	b.WantNoSession("kid")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", `assistant k1:read{"a":1}`, "user k1=" + got.Text, "assistant done"})
}

func testBeforeCallError(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "read", `{"a":1}`), harness.Call("k2", "read", `{"a":2}`)), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	b.StartNode(harness.CountingTools(&runs, "read"), harness.BeforeCallPlugin("one", func(plugin.ToolContext) []plugin.Directive {
		return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "dropped with the rest"})}
	}), harness.PluginOf("two", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Call.ID == "k1" {
				return nil, harness.ErrPlugin
			}
			return nil, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	got := b.ResultsByPosition(id)
	runtest.Equal(t, "outcome", got[0].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code", got[0].Code, "before_tool_call_failed")
	runtest.Equal(t, "says who and why", strings.Contains(got[0].Text, "two") && strings.Contains(got[0].Text, harness.ErrPlugin.Error()), true)
	runtest.Equal(t, "the other call", got[1].Text, "dropped with the rest")
	runtest.Equal(t, "runs", runs.Load(), 0)
}

func testReplaceResult(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "read", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	var projected []plugin.Result
	b.StartNode(harness.CountingTools(&runs, "read"), harness.PluginOf("after", func(r *plugin.Registrar) {
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.ShortCircuit(plugin.Result{
				Text: "not " + in.Result.Text, Outcome: events.OutcomeFailure, Class: plugin.ClassExternal, Code: "replaced",
			})}, nil
		})
		r.ProjectToolResult(func(_ context.Context, in plugin.ToolResultContext) (plugin.View, error) {
			projected = append(projected, in.Result)
			return plugin.View{Text: "<" + in.Result.Text + ">"}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.Equal(t, "runs", runs.Load(), 1)
	got := b.ResultsByPosition(id)[0]
	runtest.Equal(t, "recorded", got.Full, "not was read")
	runtest.Equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code", got.Code, "replaced")
	runtest.Equal(t, "projections", len(projected), 1)
	runtest.Equal(t, "projected", projected[0].Text, "not was read")
	runtest.Equal(t, "outcome that was projected", projected[0].Outcome, events.OutcomeFailure)
	runtest.Equal(t, "code that was projected", projected[0].Code, "replaced")
	runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k1=<not was read>")
}
