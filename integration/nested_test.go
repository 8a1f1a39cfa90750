package integration

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// outer is a repeatable tool that makes these calls, one by one.
func outer(r plugin.Registry, list ...plugin.Inner) {
	plugin.AddTool(r, plugin.Tool{Name: "outer", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
		all := ""
		for i := range list {
			got := c.Nested(ctx, i, list[i:i+1])[0]
			if got.Err != nil {
				return "", got.Err
			}
			all += "[" + got.Text + "]"
		}
		return all, nil
	})
}

// TestNestedKilled kills a worker in a call that another call makes: what had
// returned answers the same, what was begun and must not run twice is lost.
func TestNestedKilled(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "outer", "{}")), reply(text("done")))
	var first, second atomic.Int64
	begun := make(chan struct{}, 2)
	plugin.AddTool(b.tools, plugin.Tool{Name: "first", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
		first.Add(1)
		return "one", nil
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "second"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		second.Add(1)
		begun <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	outer(b.tools, plugin.Inner{Tool: "first"}, plugin.Inner{Tool: "second"}, plugin.Inner{Tool: "missing"})
	kill := b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	receive(b, "begun", begun)
	kill()
	b.work(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equal(t, "first ran", first.Load(), 1)
	equal(t, "second ran", second.Load(), 1)
	equal(t, "result", find[*events.ToolReturned](b, id)[0].Results[0].Text,
		"[one]["+projector.LostText+`][[failed] tool "missing" is not available in this session]`)
	equal(t, "nested results", len(find[*events.ToolNestedReturned](b, id)), 3)
}

// TestNestedAsks lets a call inside another wait for an approval: the outer one runs again once there is an answer.
func TestNestedAsks(t *testing.T) {
	t.Parallel()
	for _, granted := range []bool{true, false} {
		b := setupIdle(t, reply(call("k", "outer", "{}")), reply(text("done")))
		var ran atomic.Int64
		b.node(plugin.Func("asking", func(r *plugin.Registrar) error {
			plugin.AddTool(r, plugin.Tool{Name: "add"}, func(_ context.Context, _ plugin.Call, in struct{ A int }) (int, error) {
				ran.Add(1)
				return in.A + 40, nil
			})
			r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
				if in.Tool != "add" {
					return nil, nil
				}
				return []plugin.Directive{plugin.ReplaceArgs(json.RawMessage(`{"A":2}`)), plugin.Ask("really?")}, nil
			})
			outer(r, plugin.Inner{Tool: "add", Args: json.RawMessage(`{"A":1}`)})
			return nil
		}))
		id := b.open(api.CreateRequest{})
		b.submit(id, "t1", text("go"))
		asked := b.await(id, "question", hasAsk).Turn().Asks[0]
		equal(t, "effect", asked.Effect, "t1/0/0/0")
		must(t, "approve", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: asked.Effect, Granted: granted}), nil)
		equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
		want, runs := "[42]", int64(1)
		if !granted {
			want, runs = "[[failed] the call was not approved]", 0
		}
		equal(t, "result", find[*events.ToolReturned](b, id)[0].Results[0].Text, want)
		equal(t, "runs", ran.Load(), runs)
	}
}
