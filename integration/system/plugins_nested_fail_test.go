package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// TestNestedFailures has calls inside a call fail in every way. The outer call reads their outcomes and succeeds.
func TestNestedFailures(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", "{}")), harness.Reply(harness.Text("done")))
	var got []string
	b.StartNode(harness.PluginOf("tools", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "pends"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
			c.CompletionKey()
			return plugin.Result{Pending: true}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "panics"}, func(context.Context, plugin.Call, struct{}) (string, error) { panic("ouch") })
		plugin.AddTool(r, plugin.Tool{Name: "fails"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", harness.ErrPlugin })
		plugin.AddTool(r, plugin.Tool{Name: "picky"}, func(context.Context, plugin.Call, struct{ N int }) (string, error) { return "ran", nil })
		harness.NamedTools(r, "asked", "fine")
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool != "asked" {
				return nil, nil
			}
			return []plugin.Directive{plugin.Ask("really?")}, nil
		})
		plugin.AddTool(r, plugin.Tool{Name: "outer"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) { // which must not run twice
			var list []plugin.NestedCall
			for _, name := range []string{"pends", "panics", "fails", "picky", "missing", "asked", "fine"} {
				list = append(list, plugin.NestedCall{Tool: name})
			}
			var errs error
			for i, r := range c.Nested(ctx, 0, list) {
				got = append(got, strings.TrimSpace(fmt.Sprint(list[i].Tool, " ", r.Class, " ", r.Code)))
				errs = errors.Join(errs, r.Err)
			}
			return "read", errs
		})
	}))
	id := b.Open(api.CreateRequest{})
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.EqualLists(t, "came to", got, []string{
		"pends " + plugin.ClassInternal + " " + plugin.CodePendingNested, "panics " + plugin.ClassInternal + " " + plugin.CodeTaskFailed,
		"fails " + plugin.ClassExecution, "picky " + plugin.ClassInvalidRequest + " " + plugin.CodeInvalidArgs,
		"missing " + plugin.ClassUnavailable + " " + plugin.CodeUnavailable, "asked " + plugin.ClassPermissionDenied + " " + plugin.CodeDenied, "fine",
	})
	runtest.Equal(t, "result", b.CallResult(id, "k"), "read")
	runtest.Equal(t, "questions", len(harness.Find[*events.ToolApprovalAsked](b, id)), 0)
}

// TestNestedChanged has a tool that makes another call when it runs again: the tool fails, and that call does not
// run.
func TestNestedChanged(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]plugin.NestedCall{"tool": {Tool: "b"}, "arguments": {Tool: "a", Args: json.RawMessage(`{"x":1}`)}} {
		b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", "{}")), harness.Reply(harness.Text("done")))
		started := make(chan struct{})
		var runs, inner atomic.Int64
		for _, tool := range []string{"a", "b"} {
			runtest.WantError(t, "add", b.Tools.Add(plugin.Tool{Name: tool, Effects: events.EffectsNone}, func(context.Context, plugin.Call, json.RawMessage) (plugin.Result, error) {
				inner.Add(1)
				return plugin.Result{Text: tool}, nil
			}), nil)
		}
		plugin.AddTool(b.Tools, plugin.Tool{Name: "outer", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			next := plugin.NestedCall{Tool: "a"}
			if runs.Add(1) == 2 {
				next = second
			}
			got := c.Nested(ctx, 0, []plugin.NestedCall{next})[0]
			if runs.Load() == 1 {
				close(started)
				<-ctx.Done()
			}
			return got.Text, got.Err
		})
		kill := b.StartWorker(bustest.Open(t, b.Server))
		id := b.Open(api.CreateRequest{})
		b.StartTurn(id, "t1", harness.Text("go"))
		harness.Receive(b, "the start", started)
		kill()
		b.StartWorker(b.Bus)
		b.AwaitTurn(id, "t1")
		result := harness.Find[*events.ToolReturned](b, id)[0].Results[0]
		runtest.Equal(t, name+": code", result.Code, plugin.CodeNestedChanged)
		runtest.Equal(t, name+": outcome", result.Outcome, events.OutcomeFailure)
		runtest.Equal(t, name+": calls inside that ran", inner.Load(), 1)
		runtest.Equal(t, name+": runs", runs.Load(), 2)
	}
}

// TestNestedCancelled cancels a turn within a call inside a call: both end, and no other call starts.
func TestNestedCancelled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", "{}")), harness.Reply(harness.Text("on")))
	started := make(chan struct{})
	var late atomic.Int64
	plugin.AddTool(b.Tools, plugin.Tool{Name: "waits"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		close(started)
		<-ctx.Done()
		return "", ctx.Err()
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "late"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		late.Add(1)
		return "", nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "outer"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		c.Nested(ctx, 0, []plugin.NestedCall{{Tool: "waits"}})
		return "ignored it", c.Nested(ctx, 1, []plugin.NestedCall{{Tool: "late"}})[0].Err
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "outcome", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Outcome, events.OutcomeCancelled)
	runtest.Equal(t, "calls begun after the cancel", late.Load(), 0)
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go on")).Text, "on")
}

// TestFirstControlOfBatchEndsTurn ends the turn with the first call of a batch that requests it.
func TestFirstControlOfBatchEndsTurn(t *testing.T) {
	t.Parallel()
	args := `{"tool_calls":[{"tool":"plain"},{"tool":"finish","parameters":{"v":"one"}},{"tool":"finish","parameters":{"v":"two"}}]}`
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "batch", args)))
	b.StartNode(standard.Batch(), harness.PluginOf("tools", func(r *plugin.Registrar) {
		harness.NamedTools(r, "plain")
		plugin.AddTool(r, plugin.Tool{Name: "finish"}, func(_ context.Context, _ plugin.Call, in struct {
			V string `json:"v"`
		},
		) (plugin.Result, error) {
			return plugin.Result{Text: in.V, Control: events.ControlFinish}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	r := b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "end", r.End, events.EndToolValue)
	runtest.Equal(t, "text", r.Text, "one")
	runtest.Equal(t, "tool", r.Tool, "batch")
	runtest.Equal(t, "calls inside", len(harness.Find[*events.ToolNestedReturned](b, id)), 3)
}
