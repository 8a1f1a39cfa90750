package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// TestNestedFailures lets calls inside a call fail in every way. The outer one
// reads what they came to and succeeds.
func TestNestedFailures(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "outer", "{}")), reply(text("done")))
	var got []string
	b.node(declares("tools", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "pends"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "panics"}, func(context.Context, plugin.Call, struct{}) (string, error) { panic("ouch") })
		plugin.AddTool(r, plugin.Tool{Name: "fails"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", errRefusal })
		plugin.AddTool(r, plugin.Tool{Name: "picky"}, func(context.Context, plugin.Call, struct{ N int }) (string, error) { return "ran", nil })
		simple(r, "asked", "fine")
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "asked" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("really?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "outer"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) { // which must not run twice
			var list []plugin.Inner
			for _, name := range []string{"pends", "panics", "fails", "picky", "missing", "asked", "fine"} {
				list = append(list, plugin.Inner{Tool: name})
			}
			var errs error
			for i, r := range c.Nested(ctx, 0, list) {
				got = append(got, strings.TrimSpace(fmt.Sprint(list[i].Tool, " ", r.Class, " ", r.Code)))
				errs = errors.Join(errs, r.Err)
			}
			return "read", errs
		})
	}))
	id := b.open(api.CreateRequest{})
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equalLists(t, "came to", got, []string{
		"pends " + plugin.ClassInternal + " " + plugin.CodePendingNested, "panics " + plugin.ClassInternal + " " + plugin.CodeTaskFailed,
		"fails " + plugin.ClassExecution, "picky " + plugin.ClassInvalidRequest + " " + plugin.CodeInvalidArgs,
		"missing " + plugin.ClassUnavailable + " " + plugin.CodeUnavailable, "asked " + plugin.ClassPermissionDenied + " " + plugin.CodeDenied, "fine",
	})
	equal(t, "result", b.result(id, "k"), "read")
	equal(t, "questions", len(find[*events.ToolApprovalAsked](b, id)), 0)
}

// TestNestedChanged has a tool that makes another call when it runs again: it fails, and that call does not run.
func TestNestedChanged(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]plugin.Inner{"tool": {Tool: "b"}, "arguments": {Tool: "a", Args: json.RawMessage(`{"x":1}`)}} {
		b := setupIdle(t, reply(call("k", "outer", "{}")), reply(text("done")))
		begun := make(chan struct{})
		var runs, inner atomic.Int64
		for _, tool := range []string{"a", "b"} {
			must(t, "add", b.tools.Add(plugin.Tool{Name: tool, Effects: events.EffectsNone}, func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
				inner.Add(1)
				return plugin.Result{Text: tool}, nil
			}), nil)
		}
		plugin.AddTool(b.tools, plugin.Tool{Name: "outer", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			next := plugin.Inner{Tool: "a"}
			if runs.Add(1) == 2 {
				next = second
			}
			got := c.Nested(ctx, 0, []plugin.Inner{next})[0]
			if runs.Load() == 1 {
				close(begun)
				<-ctx.Done()
			}
			return got.Text, got.Err
		})
		kill := b.work(bustest.Open(t, b.server))
		id := b.open(api.CreateRequest{})
		b.submit(id, "t1", text("go"))
		receive(b, "begun", begun)
		kill()
		b.work(b.bus)
		b.ended(id, "t1")
		result := find[*events.ToolReturned](b, id)[0].Results[0]
		equal(t, name+": code", result.Code, plugin.CodeNestedChanged)
		equal(t, name+": outcome", result.Outcome, events.OutcomeFailure)
		equal(t, name+": calls inside that ran", inner.Load(), 1)
		equal(t, name+": runs", runs.Load(), 2)
	}
}

// TestNestedCancelled cancels a turn within a call inside a call: both end, and nothing is begun any more.
func TestNestedCancelled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "outer", "{}")), reply(text("on")))
	begun := make(chan struct{})
	var late atomic.Int64
	plugin.AddTool(b.tools, plugin.Tool{Name: "waits"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(begun)
		<-ctx.Done()
		return "", ctx.Err()
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "late"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		late.Add(1)
		return "", nil
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "outer"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		c.Nested(ctx, 0, []plugin.Inner{{Tool: "waits"}})
		return "ignored it", c.Nested(ctx, 1, []plugin.Inner{{Tool: "late"}})[0].Err
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "outcome", find[*events.ToolReturned](b, id)[0].Results[0].Outcome, events.OutcomeCancelled)
	equal(t, "calls begun after the cancel", late.Load(), 0)
	equal(t, "next turn", b.run(id, "t2", text("go on")).Text, "on")
}

// TestBatchControl ends the turn with the first call of a batch that asks for it.
func TestBatchControl(t *testing.T) {
	t.Parallel()
	args := `{"tool_calls":[{"tool":"plain"},{"tool":"finish","parameters":{"v":"one"}},{"tool":"finish","parameters":{"v":"two"}}]}`
	b := setupIdle(t, reply(call("k", "batch", args)))
	b.node(standard.Batch(), declares("tools", func(r *plugin.Registrar) {
		simple(r, "plain")
		plugin.AddTool(r, plugin.Tool{Name: "finish"}, func(_ context.Context, _ plugin.Call, in struct {
			V string `json:"v"`
		},
		) (plugin.Result, error) {
			return plugin.Result{Text: in.V, Control: events.ControlFinish}, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	r := b.run(id, "t1", text("go"))
	equal(t, "end", r.End, events.EndToolValue)
	equal(t, "text", r.Text, "one")
	equal(t, "tool", r.Tool, "batch")
	equal(t, "calls inside", len(find[*events.ToolNestedReturned](b, id)), 3)
}
