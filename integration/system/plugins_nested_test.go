package system

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestNestedKilled kills a worker in a call that another call makes. A call that had returned has the same result;
// a call that had started and must not run twice is lost.
func TestNestedKilled(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", "{}")), harness.Reply(harness.Text("done")))
	var first, second atomic.Int64
	started := make(chan struct{}, 2)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "first", Effects: events.EffectsNone}, func(context.Context, plugin.Call, struct{}) (string, error) {
		first.Add(1)
		return "one", nil
	})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "second"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		second.Add(1)
		started <- struct{}{}
		<-ctx.Done()
		return "", ctx.Err()
	})
	harness.OuterTool(b.Tools, plugin.NestedCall{Tool: "first"}, plugin.NestedCall{Tool: "second"}, plugin.NestedCall{Tool: "missing"})
	kill := b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	harness.Receive(b, "the start", started)
	kill()
	b.StartWorker(b.Bus)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "first ran", first.Load(), 1)
	runtest.Equal(t, "second ran", second.Load(), 1)
	runtest.Equal(t, "result", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Text,
		"[one]["+projector.LostText+`][[failed] tool "missing" is not available in this session]`)
	runtest.Equal(t, "nested results", len(harness.Find[*events.ToolNestedReturned](b, id)), 3)
}

// TestNestedCallWithApproval has a call inside another wait for an approval: the outer one runs again after the answer.
func TestNestedCallWithApproval(t *testing.T) {
	t.Parallel()
	for _, granted := range []bool{true, false} {
		b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", "{}")), harness.Reply(harness.Text("done")))
		var ran atomic.Int64
		b.StartNode(plugin.Func("asking", func(r *plugin.Registrar) error {
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
			harness.OuterTool(r, plugin.NestedCall{Tool: "add", Args: json.RawMessage(`{"A":1}`)})
			return nil
		}))
		id := b.Open(api.CreateRequest{})
		b.StartTurn(id, "t1", harness.Text("go"))
		request := b.AwaitState(id, "question", harness.HasAsk).Turn().Asks[0]
		runtest.Equal(t, "effect", request.Effect, "t1/0/0/0")
		runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: request.Effect, Granted: granted}), nil)
		runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
		want, runs := "[42]", int64(1)
		if !granted {
			want, runs = "[[failed] the call was not approved]", 0
		}
		runtest.Equal(t, "result", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Text, want)
		runtest.Equal(t, "runs", ran.Load(), runs)
	}
}
