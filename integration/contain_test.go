package integration

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
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// impatient starts a node whose hooks have little time, for plugins of which one hangs.
func (b *bundle) impatient(factories ...plugin.Factory) {
	b.t.Helper()
	h, err := plugin.NewHost(plugin.HostConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: factories, Timeout: 100 * time.Millisecond,
	})
	must(b.t, "plugins", err, nil)
	n, err := workers.NewNode(workers.Config{
		Bus: b.bus, Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Provider: "scripted",
		Plugins: h, Logger: zaptest.NewLogger(b.t),
	})
	must(b.t, "node", err, nil)
	must(b.t, "start", n.Start(b.ctx), nil)
	b.t.Cleanup(func() { n.Stop(context.Background()) }) // the test's own has ended in a cleanup
	b.Host = n.Host()
}

// fault is a way of a hook to misbehave, and a word of what is said of it.
type fault struct {
	name, word string
	do         func(t *testing.T) ([]plugin.Directive, error)
}

func waysToFail() []fault {
	return []fault{
		{"error", errRefusal.Error(), func(*testing.T) ([]plugin.Directive, error) { return nil, errRefusal }},
		{"panic", "panicked: ouch", func(*testing.T) ([]plugin.Directive, error) { panic("ouch") }},
		{"hang", "hung", func(t *testing.T) ([]plugin.Directive, error) { <-t.Context().Done(); return nil, nil }}, // ignores its own
	}
}

// garbage are lists of directives that can be no answer anywhere.
func garbage() []fault {
	asks := func(name, word string, list ...plugin.Directive) fault {
		return fault{name, word, func(*testing.T) ([]plugin.Directive, error) {
			return append([]plugin.Directive{childSession("kid"), plugin.Trace("before", nil)}, list...), nil
		}}
	}
	many := make([]plugin.Directive, 4000)
	for i := range many {
		many[i] = plugin.Emit(json.RawMessage(`"` + strings.Repeat("x", 40) + `"`))
	}
	return []fault{
		asks("unknown", "levitate", plugin.Directive{Kind: "levitate"}),
		asks("empty", "request is missing", plugin.Directive{Kind: events.DirectiveCreate}),
		asks("no_json", "no JSON", plugin.Emit(json.RawMessage(`{`))),
		{"too_many", "limit is", func(*testing.T) ([]plugin.Directive, error) { return many, nil }},
		{"too_large", "limit is", func(*testing.T) ([]plugin.Directive, error) {
			return []plugin.Directive{plugin.Trace("large", json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))}, nil
		}},
	}
}

// hookAt is a plugin with one hook, at that point.
func hookAt(point events.HookPoint, hook func() ([]plugin.Directive, error)) plugin.Factory {
	return declares("bad", func(r *plugin.Registrar) {
		switch point {
		case events.PointBeforeTurn:
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return hook() })
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

// contained is what the rule of a point makes of a hook that misbehaves.
var contained = []struct {
	point events.HookPoint
	end   events.TurnEnd
	code  string // of the turn, or of the call where the turn goes on
	calls int    // of the model
}{
	{events.PointBeforeTurn, events.EndFailed, "plugin_prepare_turn", 0},
	{events.PointBeforeTool, events.EndFinished, plugin.CodeBefore, 2},
	{events.PointAfterTool, events.EndFinished, plugin.CodeAfter, 2},
	{events.PointCheckpoint, events.EndRuntimeError, "plugin_checkpoint", 1},
	{events.PointAfterTurn, events.EndFailed, "plugin_finalize_turn", 2},
}

// TestContained lets a hook misbehave in every way at every point: what its
// point's rule says happens, nothing of its list does, the history says why,
// and the next turn finds everything in order.
func TestContained(t *testing.T) {
	t.Parallel()
	for _, tt := range contained {
		for _, f := range append(waysToFail(), garbage()...) {
			t.Run(string(tt.point)+"_"+f.name, func(t *testing.T) {
				t.Parallel()
				script := []step{reply(call("k", "look", `{"a":1}`)), reply(text("done"))}
				b := setupIdle(t, append(script[:tt.calls:tt.calls], reply(text("on")))...)
				var well atomic.Bool
				bad := hookAt(tt.point, func() ([]plugin.Directive, error) {
					if well.Load() {
						return nil, nil
					}
					return f.do(t)
				})
				var runs atomic.Int64
				tool := answering(&runs, "look")
				if f.name == "hang" {
					b.impatient(bad, tool)
				} else {
					b.node(bad, tool)
				}
				id := b.open(api.CreateRequest{})
				b.submit(id, "t1", text("go"))
				got := b.ended(id, "t1")
				equal(t, "end", got.End, tt.end)
				code, why := got.Issue.Code, got.Issue.Message
				if tt.end == events.EndFinished {
					r := b.resultsOf(id)[0]
					code, why = r.Code, r.Text
					equal(t, "outcome", r.Outcome, events.OutcomeFailure)
				} else {
					equal(t, "record of the hooks", b.hooksRan(id, tt.point).Issue, got.Issue)
				}
				equal(t, "code", code, tt.code)
				if !strings.Contains(why, f.word) {
					t.Errorf("why: got %q, want %q in it", why, f.word)
				}
				equal(t, "model calls", len(b.model.asked()), tt.calls)
				equal(t, "runs of the tool", runs.Load() == 0, tt.point == events.PointBeforeTurn || tt.point == events.PointBeforeTool)
				b.noSession("kid")
				well.Store(true)
				equal(t, "next turn", b.run(id, "t2", text("go")).Text, "on")
			})
		}
	}
}

// TestRefusedCallsStay asks about two calls of one reply: what is said of the
// first one counts, however much is said of the second one.
func TestRefusedCallsStay(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k1", "write", `{"a":1}`), call("k2", "write", `{"a":1}`)), reply(text("done")))
	var runs atomic.Int64
	b.node(answering(&runs, "write"), gatesCalls("careful", func(in plugin.ToolContext) []plugin.Directive {
		if in.Call.ID == "k1" {
			return []plugin.Directive{plugin.Abort("read_only", "no writing")}
		}
		return []plugin.Directive{plugin.Trace("large", json.RawMessage(`"`+strings.Repeat("x", 300<<10)+`"`))}
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	got := b.resultsOf(id)
	equal(t, "first", got[0].Code, "read_only")
	equal(t, "second", got[1].Code, plugin.CodeBefore)
	equal(t, "runs", runs.Load(), 0)
}

// TestOversizedMessages lets hooks enqueue more than an event holds. What can
// be kept outside the log is; more messages than fit fail the hook.
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
			b := setupIdle(t, reply(text("done")))
			b.node(hookAt(tt.point, func() ([]plugin.Directive, error) { return []plugin.Directive{tt.list}, nil }))
			id := b.open(api.CreateRequest{})
			b.submit(id, "t1", text("go"))
			got := b.ended(id, "t1")
			equal(t, "end", got.End, tt.end)
			equal(t, "code", got.Issue.Code, tt.code)
			if tt.end == events.EndFinished {
				equal(t, "messages", len(b.messages(id)), 1+8+1)
				equal(t, "prompt", len(b.model.prompt(0)[8]), len("user ")+100<<10)
			}
		})
	}
}

// TestRefusedCommit has a hook make a reply that no log takes: the turn ends
// and says why, and the model is not asked for the same again and again.
func TestRefusedCommit(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(text("done")), reply(text("on")))
	var asked atomic.Int64
	b.node(declares("bad", func(r *plugin.Registrar) {
		r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			if asked.Add(1) == 1 {
				for range 30_000 {
					got.Parts = append(got.Parts, text("x"))
				}
			}
			return got, nil, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	issue := b.failedTurn(id, "t1")
	equal(t, "kind", issue.Kind, "runtime")
	equal(t, "code", issue.Code, "commit_refused")
	equal(t, "model calls", len(b.model.asked()), 1)
	equal(t, "next turn", b.run(id, "t2", text("go")).Text, "on")
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant on"})
}

// TestRefusedResult has a tool that must not run twice come to what no log
// takes: it does not run again, and the history says that its fate is unknown.
func TestRefusedResult(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "pay", `{}`)), reply(text("on")))
	var runs atomic.Int64
	b.node(declares("bad", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "pay"}, func(context.Context, plugin.Call, struct{}) (plugin.Result, error) {
			runs.Add(1)
			receipts := slices.Repeat([]events.Part{{Kind: events.PartAttachment, MediaType: "text/plain", Text: "x"}}, 30_000)
			return plugin.Result{Text: "paid", Attachments: receipts}, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "code", b.failedTurn(id, "t1").Code, "commit_refused")
	equal(t, "runs", runs.Load(), 1)
	b.run(id, "t2", text("and"))
	prompt := b.model.prompt(1)
	if len(prompt) != 4 || !strings.Contains(prompt[2], "may or may not have taken effect") {
		t.Errorf("prompt: got %q, want the call, that nobody knows what it did, and the new turn", prompt)
	}
}
