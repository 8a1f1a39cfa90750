package system

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// impatient starts a node whose hooks have a short time limit, for plugins of which one hangs.
func impatient(b *harness.System, factories ...plugin.Factory) {
	b.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: factories, Timeout: 3 * time.Second,
	})
	runtest.WantError(b.T, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b.Bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Provider: "scripted",
		Plugins: builder, Logger: zaptest.NewLogger(b.T),
	})
	runtest.WantError(b.T, "node", err, nil)
	runtest.WantError(b.T, "start", n.Start(b.Ctx), nil)
	b.T.Cleanup(func() { n.Stop(context.Background()) }) // the test's own has ended in a cleanup
	b.Host = n.Host()
}

// fault is a failure of a hook, and a word of its error.
type fault struct {
	name, text string
	do         func(t *testing.T) ([]plugin.Directive, error)
}

func waysToFail() []fault {
	return []fault{
		{"error", harness.ErrPlugin.Error(), func(*testing.T) ([]plugin.Directive, error) { return nil, harness.ErrPlugin }},
		{"panic", "panicked: ouch", func(*testing.T) ([]plugin.Directive, error) { panic("ouch") }},
		{"hang", "hung", func(t *testing.T) ([]plugin.Directive, error) { <-t.Context().Done(); return nil, nil }}, // ignores its own
	}
}

// garbage are lists of directives that are invalid at every point.
func garbage() []fault {
	approvalFault := func(name, text string, list ...plugin.Directive) fault {
		return fault{name, text, func(*testing.T) ([]plugin.Directive, error) {
			return append([]plugin.Directive{harness.CreateChild("kid"), plugin.Trace("before", nil)}, list...), nil
		}}
	}
	many := make([]plugin.Directive, 4000)
	for i := range many {
		many[i] = plugin.Emit(json.RawMessage(`"` + strings.Repeat("x", 40) + `"`))
	}
	return []fault{
		approvalFault("unknown", "levitate", plugin.Directive{Kind: "levitate"}),
		approvalFault("empty", "request is missing", plugin.Directive{Kind: events.DirectiveCreate}),
		approvalFault("no_json", "no JSON", plugin.Emit(json.RawMessage(`{`))),
		{"too_many", "limit is", func(*testing.T) ([]plugin.Directive, error) { return many, nil }},
		{"too_large", "limit is", func(*testing.T) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Trace("large", json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))}, nil
		}},
	}
}

// hookAt is a plugin with one hook, at that point.
func hookAt(point events.HookPoint, hook func() ([]plugin.Directive, error)) plugin.Factory {
	return harness.PluginOf("bad", func(r *plugin.Registrar) {
		switch point {
		case events.PointBeforeTurn:
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return hook() })
		case events.PointBeforeModel:
			r.BeforeModelCall(func(context.Context, plugin.ModelContext) ([]plugin.Directive, error) { return hook() })
		case events.PointBeforeTool:
			r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) { return hook() })
		case events.PointAfterTool:
			r.AfterToolCall(func(context.Context, plugin.ToolResultContext) ([]plugin.Directive, error) { return hook() })
		case events.PointCheckpoint:
			r.Checkpoint(func(context.Context, plugin.CheckpointContext) ([]plugin.Directive, error) { return hook() })
		case events.PointAfterTurn:
			r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) { return hook() })
		case events.PointReply:
		}
	})
}

// contained is the required effect of a failing hook at a point.
var contained = []struct {
	point events.HookPoint
	end   events.TurnEnd
	code  string // of the turn, or of the call where the turn goes on
	calls int    // of the model
}{
	{events.PointBeforeTurn, events.EndFailed, "plugin_prepare_turn", 0},
	{events.PointBeforeModel, events.EndRuntimeError, "plugin_before_model_call", 0},
	{events.PointBeforeTool, events.EndFinished, plugin.CodeBefore, 2},
	{events.PointAfterTool, events.EndFinished, plugin.CodeAfter, 2},
	{events.PointCheckpoint, events.EndRuntimeError, "plugin_checkpoint", 1},
	{events.PointAfterTurn, events.EndFailed, "plugin_finalize_turn", 2},
}

// TestFailingHookIsContained has a hook fail in every way at every point. The effect is the one of the point's rule, no
// directive of its list is carried out, the history has the reason, and the next turn succeeds.
func TestFailingHookIsContained(t *testing.T) {
	t.Parallel()
	for _, tt := range contained {
		for _, f := range append(waysToFail(), garbage()...) {
			t.Run(string(tt.point)+"_"+f.name, func(t *testing.T) {
				t.Parallel()
				script := []harness.Step{harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done"))}
				b := harness.StartIdle(t, append(script[:tt.calls:tt.calls], harness.Reply(harness.Text("on")))...)
				var well atomic.Bool
				bad := hookAt(tt.point, func() ([]plugin.Directive, error) {
					if well.Load() {
						return nil, nil
					}
					return f.do(t)
				})
				var runs atomic.Int64
				tool := harness.CountingTools(&runs, "look")
				if f.name == "hang" {
					impatient(b, bad, tool)
				} else {
					b.StartNode(bad, tool)
				}
				id := b.Open(api.CreateRequest{})
				b.StartTurn(id, "t1", harness.Text("go"))
				got := b.AwaitTurn(id, "t1")
				runtest.Equal(t, "end", got.End, tt.end)
				code, why := got.Issue.Code, got.Issue.Message
				if tt.end == events.EndFinished {
					r := b.ResultsByPosition(id)[0]
					code, why = r.Code, r.Text
					runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
				} else {
					runtest.Equal(t, "record of the hooks", b.HookRecord(id, tt.point).Issue, got.Issue)
				}
				runtest.Equal(t, "code", code, tt.code)
				if !strings.Contains(why, f.text) {
					t.Errorf("why: got %q, want %q in it", why, f.text)
				}
				runtest.Equal(t, "model calls", len(b.Model.Requests()), tt.calls)
				runtest.Equal(t, "runs of the tool", runs.Load() == 0, tt.calls == 0 || tt.point == events.PointBeforeTool)
				b.WantNoSession("kid")
				well.Store(true)
				runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go")).Text, "on")
			})
		}
	}
}

// TestRefusedCallsStay has a hook refuse two calls of one reply: the decision about the first one stays, however
// long the one about the second is.
func TestRefusedCallsStay(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k1", "write", `{"a":1}`), harness.Call("k2", "write", `{"a":1}`)), harness.Reply(harness.Text("done")))
	var runs atomic.Int64
	b.StartNode(harness.CountingTools(&runs, "write"), harness.BeforeCallPlugin("careful", func(in plugin.ToolContext) []plugin.Directive {
		if in.Call.ID == "k1" {
			return []plugin.Directive{plugin.Abort("read_only", "no writing")}
		}
		return []plugin.Directive{plugin.Trace("large", json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))}
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	got := b.ResultsByPosition(id)
	runtest.Equal(t, "first", got[0].Code, "read_only")
	runtest.Equal(t, "second", got[1].Code, plugin.CodeBefore)
	runtest.Equal(t, "runs", runs.Load(), 0)
}

// TestOversizedMessages has hooks enqueue more than an event holds. Bodies that fit in blobs are stored there;
// more messages than fit fail the hook.
func TestOversizedMessages(t *testing.T) {
	t.Parallel()
	enqueues := func(n, size int) plugin.Directive {
		list := make([]events.Message, n)
		for i := range list {
			list[i] = plugin.Say(events.RoleUser, strings.Repeat("x", size))
		}
		return plugin.Enqueue(list...)
	}
	for _, tt := range []struct {
		name  string
		list  plugin.Directive
		point events.HookPoint
		end   events.TurnEnd
		code  string
	}{
		{"few_and_large", enqueues(8, 100<<10), events.PointBeforeTurn, events.EndFinished, ""},
		{"many", enqueues(5000, 10), events.PointBeforeTurn, events.EndFailed, "plugin_prepare_turn"},
		{"many_at_a_checkpoint", enqueues(5000, 10), events.PointCheckpoint, events.EndRuntimeError, "plugin_checkpoint"},
		{"many_after_the_turn", enqueues(5000, 10), events.PointAfterTurn, events.EndFailed, "plugin_finalize_turn"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
			b.StartNode(hookAt(tt.point, func() ([]plugin.Directive, error) { return []plugin.Directive{tt.list}, nil }))
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			got := b.AwaitTurn(id, "t1")
			runtest.Equal(t, "end", got.End, tt.end)
			runtest.Equal(t, "code", got.Issue.Code, tt.code)
			if tt.end == events.EndFinished {
				runtest.Equal(t, "messages", len(b.Messages(id)), 1+8+1)
				runtest.Equal(t, "prompt", len(b.Model.Prompt(0)[8]), len("user ")+100<<10)
			}
		})
	}
}

// TestRefusedReply has a hook make a reply that no log takes: the turn ends and says
// why, what it cost counts, and the model is not asked for the same again and again.
func TestRefusedReply(t *testing.T) {
	t.Parallel()
	cost := events.Usage{Output: 7}
	b := harness.StartIdle(t, harness.ReplyStopped(events.StopEnd, cost, harness.Text("done")), harness.Reply(harness.Text("on")))
	var requests atomic.Int64
	b.StartNode(harness.PluginOf("bad", func(r *plugin.Registrar) {
		r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			if requests.Add(1) == 1 {
				for range 30_000 {
					got.Parts = append(got.Parts, harness.Text("x"))
				}
			}
			return got, nil, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	issue := b.AwaitTurn(id, "t1").Issue
	runtest.Equal(t, "kind", issue.Kind, "provider")
	runtest.Equal(t, "code", issue.Code, "reply_too_large")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 1)
	ledger := b.StateOf(id).Ledger
	runtest.Equal(t, "rows of the ledger", len(ledger), 1)
	for _, row := range ledger {
		runtest.Equal(t, "usage", row.Usage, cost)
	}
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go")).Text, "on")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "user go", "assistant on"})
}

// TestRefusedResult has a tool that must not run twice return a result that no log accepts: it does not run again,
// and the history says that its outcome is unknown.
func TestRefusedResult(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "pay", `{}`)), harness.Reply(harness.Text("on")))
	var runs atomic.Int64
	b.StartNode(harness.PluginOf("bad", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "pay"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			runs.Add(1)
			receipts := slices.Repeat([]events.Part{{Kind: events.PartAttachment, MediaType: "text/plain", Text: "x"}}, 30_000)
			return plugin.Result{Text: "paid", Attachments: receipts}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "code", b.FailedTurn(id, "t1").Code, "commit_refused")
	runtest.Equal(t, "runs", runs.Load(), 1)
	b.RunTurn(id, "t2", harness.Text("and"))
	prompt := b.Model.Prompt(1)
	if len(prompt) != 4 || !strings.Contains(prompt[2], "may or may not have taken effect") {
		t.Errorf("prompt: got %q, want the call, that nobody knows what it did, and the new turn", prompt)
	}
}
