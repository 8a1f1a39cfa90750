package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

func toolHookEntries() []entry {
	return []entry{
		{"P07", "replace the arguments with a, then with b, the process killed in the call", "call", "run with b on both nodes; every hook saw the model's own, once", testReplaceArgs},
		{"P08", "a short circuit", "call", "no tool, no validation, no hooks after it", testShortCircuit},
		{"P09", "an abort before a call", "call", "that call fails with the message; the turn goes on", testAbortCall},
		{"P10", "messages enqueued before a call", "call", "that call fails", testEnqueueBeforeCall},
		{"P11", "a hook before calls fails for one", "call", "before_tool_call_failed for that one", testBeforeCallError},
		{"P12", "a hook after a call answers in the tool's place", "call", "recorded and projected", testReplaceResult},
	}
}

type oneNumber struct {
	A int `json:"a"`
}

// gatesCalls is a plugin whose hook before calls asks for this.
func gatesCalls(id string, hook func(plugin.ToolContext) []plugin.Directive) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) { return hook(in), nil })
	})
}

// answering is a plugin of tools that answer with their names and count their runs.
func answering(runs *atomic.Int64, tools ...string) plugin.Factory {
	return declares("answering", func(r *plugin.Registrar) {
		for _, name := range tools {
			plugin.AddTool(r, plugin.Tool{Name: name}, func(_ context.Context, _ plugin.Call, _ oneNumber) (string, error) {
				runs.Add(1)
				return "was " + name, nil
			})
		}
	})
}

// resultsOf are those of a turn's calls, by position.
func (b *bundle) resultsOf(id events.SessionID) []events.ToolResult {
	b.t.Helper()
	var list []events.ToolResult
	for _, p := range find[*events.ToolReturned](b, id) {
		list = append(list, p.Results...)
	}
	slices.SortFunc(list, func(x, y events.ToolResult) int { return int(x.Call - y.Call) })
	return list
}

// testReplaceArgs has hooks that also write over what they are given.
// replacing has two hooks before calls that replace the arguments, and write over what they were given, and
// a tool, which tells what it runs with.
func replacing(report reporter) []plugin.Factory {
	hook := func(id, args string) plugin.Factory {
		return declares(id, func(r *plugin.Registrar) {
			r.BeforeToolCall(func(ctx context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
				err := report(ctx, id+" "+string(in.Args))
				for i := range in.Args {
					in.Args[i] = 'x'
				}
				return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(args))}, err
			})
		})
	}
	return []plugin.Factory{hook("one", `{"a":2}`), hook("two", `{"a":3}`), declares("add", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "add", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, in oneNumber) (int, error) {
			return in.A + 40, report(ctx, fmt.Sprintf("ran %d", in.A))
		})
	})}
}

func testReplaceArgs(t *testing.T) {
	b := setupListening(t, reply(call("k", "add", `{"a":1}`)), reply(text("done")))
	var mu sync.Mutex
	var saw []string
	begun := make(chan struct{})
	report := func(ctx context.Context, what string) error {
		mu.Lock()
		saw = append(saw, what)
		first := len(saw) == 3 // the tool's first run
		mu.Unlock()
		if first {
			close(begun)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	kill := b.process("replacing", report)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	kill()
	b.nodeOn(bustest.Open(t, b.server), replacing(report)...)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "hooks saw, the tool ran with", saw, []string{`one {"a":1}`, `two {"a":1}`, "ran 3", "ran 3"})
	equalLists(t, "messages", b.messages(id), []string{"user go", `assistant k:add{"a":1}`, "user k=43", "assistant done"})
}

func testShortCircuit(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "add", `{"a":"no no number"}`), call("k2", "add", `{"a":1}`), call("k3", "add", `{"a":2}`), call("k4", "nobody", `{}`)), reply(text("done")))
	var runs, after atomic.Int64
	short := gatesCalls("short", func(in plugin.ToolContext) []plugin.Directive {
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
	b.node(short, answering(&runs, "add"), declares("after", func(r *plugin.Registrar) {
		r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) {
			after.Add(1)
			return nil, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	got := b.resultsOf(id)
	equal(t, "outcome", got[0].Outcome, events.OutcomeSuccess)
	equal(t, "text", got[0].Text, "instead")
	equal(t, "a pending one", got[1].Code, plugin.CodePendingShort)
	equal(t, "its outcome", got[1].Outcome, events.OutcomeFailure)
	equal(t, "beside them", got[2].Text, "was add")
	equal(t, "of a tool that nobody offers", got[3].Code, plugin.CodeUnavailable) // resolved before any hook
	equal(t, "runs", runs.Load(), 1)
	equal(t, "hooks after", after.Load(), 1)
}

func testAbortCall(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "write", `{"a":1}`), call("k2", "read", `{"a":1}`)), reply(text("done")))
	var runs atomic.Int64
	b.node(answering(&runs, "read", "write"), gatesCalls("careful", func(in plugin.ToolContext) []plugin.Directive {
		if in.Tool != "write" {
			return nil
		}
		return []plugin.Directive{plugin.Abort("x", "not now"), plugin.Abort("read_only", "no writing")}
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	got := b.resultsOf(id)
	equal(t, "outcome", got[0].Outcome, events.OutcomeFailure)
	equal(t, "code", got[0].Code, "read_only")
	equal(t, "other call", got[1].Text, "was read")
	equal(t, "runs", runs.Load(), 1)
	equal(t, "what the model reads", b.model.prompt(1)[2], "user k1=[failed] no writing k2=was read")
}

func testEnqueueBeforeCall(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "read", `{"a":1}`)), reply(text("done")))
	var runs atomic.Int64
	b.node(answering(&runs, "read"), gatesCalls("eager", func(plugin.ToolContext) []plugin.Directive {
		return []plugin.Directive{childSession("kid"), plugin.Enqueue(plugin.Say(events.RoleUser, "listen"))}
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	got := b.resultsOf(id)[0]
	equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	equal(t, "said", strings.Contains(got.Text, "no message injection"), true)
	equal(t, "runs", runs.Load(), 0)
	b.noSession("kid")
	equalLists(t, "messages", b.messages(id), []string{"user go", `assistant k1:read{"a":1}`, "user k1=" + got.Text, "assistant done"})
}

func testBeforeCallError(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "read", `{"a":1}`), call("k2", "read", `{"a":2}`)), reply(text("done")))
	var runs atomic.Int64
	b.node(answering(&runs, "read"), gatesCalls("one", func(plugin.ToolContext) []plugin.Directive {
		return []plugin.Directive{plugin.ShortCircuit(plugin.Result{Text: "dropped with the rest"})}
	}), declares("two", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Call.ID == "k1" {
				return nil, errRefusal
			}
			return nil, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	got := b.resultsOf(id)
	equal(t, "outcome", got[0].Outcome, events.OutcomeFailure)
	equal(t, "code", got[0].Code, "before_tool_call_failed")
	equal(t, "says who and why", strings.Contains(got[0].Text, "two") && strings.Contains(got[0].Text, errRefusal.Error()), true)
	equal(t, "the other call", got[1].Text, "dropped with the rest")
	equal(t, "runs", runs.Load(), 0)
}

func testReplaceResult(t *testing.T) {
	b := setupIdle(t, reply(call("k1", "read", `{"a":1}`)), reply(text("done")))
	var runs atomic.Int64
	var projected []plugin.Result
	b.node(answering(&runs, "read"), declares("after", func(r *plugin.Registrar) {
		r.AfterToolCall(func(_ context.Context, in plugin.ToolResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.ShortCircuit(plugin.Result{
				Text: "not " + in.Result.Text, Outcome: events.OutcomeFailure, Class: plugin.ClassExternal, Code: "replaced",
			})}, nil
		})
		r.ProjectToolResult(func(_ context.Context, in plugin.ToolResultContext) (string, []events.Part, error) {
			projected = append(projected, in.Result)
			return "<" + in.Result.Text + ">", nil, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equal(t, "runs", runs.Load(), 1)
	got := b.resultsOf(id)[0]
	equal(t, "recorded", got.Full, "not was read")
	equal(t, "outcome", got.Outcome, events.OutcomeFailure)
	equal(t, "code", got.Code, "replaced")
	equal(t, "projections", len(projected), 1)
	equal(t, "projected", projected[0].Text, "not was read")
	equal(t, "outcome that was projected", projected[0].Outcome, events.OutcomeFailure)
	equal(t, "code that was projected", projected[0].Code, "replaced")
	equal(t, "what the model reads", b.model.prompt(1)[2], "user k1=<not was read>")
}
