package system

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// invalidAdd is a call of "add" that its schema does not accept.
const invalidAdd = `{"A":1,"B":"two"}`

// TestApprovalOfInvalidCall requests no approval for a call that cannot run: the model reads at once what is wrong. An
// approval of the corrected call is requested as usual.
func TestApprovalOfInvalidCall(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "add", invalidAdd)), harness.CallAdd(), harness.Reply(harness.Text("3")))
	g := &harness.Approver{}
	b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent))
	id := b.Open(api.CreateRequest{})
	b.ParkTurn(id)
	failed := harness.ToolResults(b, id)
	runtest.Equal(t, "results before the answer", len(failed), 1)
	runtest.Equal(t, "code", failed[0].Code, plugin.CodeInvalidArgs)
	runtest.Equal(t, "class", failed[0].Class, plugin.ClassInvalidRequest)
	if text := b.Model.Prompt(1)[2]; !strings.HasPrefix(text, "user k=[failed] ") || !strings.Contains(text, "two") {
		t.Errorf("what the model reads: got %q, want the failure", text)
	}
	asked := harness.Find[*events.ToolApprovalAsked](b, id)
	runtest.Equal(t, "approval requests", len(asked), 1)
	runtest.Equal(t, "the requested call", asked[0].Effect, events.EffectID("t1/1/0"))
	runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: "t1/1/0", Granted: true}), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "runs", g.Runs.Load(), 1)
}

// TestApprovalOfInvalidReplacement validates the arguments that a hook puts in the place of the model's.
func TestApprovalOfInvalidReplacement(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("not so")))
	g := &harness.Approver{}
	b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent), harness.PluginOf("replaces", func(r *plugin.Registrar) {
		r.BeforeToolCall(func(context.Context, plugin.ToolContext) ([]plugin.Directive, error) {
			return []plugin.Directive{{Kind: events.DirectiveReplaceArgs, Args: json.RawMessage(invalidAdd)}}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("1+2?"))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "code", harness.ToolResults(b, id)[0].Code, plugin.CodeInvalidArgs)
	runtest.Equal(t, "approval requests", len(harness.Find[*events.ToolApprovalAsked](b, id)), 0)
	runtest.Equal(t, "runs", g.Runs.Load(), 0)
}

// TestApprovalOfInvalidNestedCall has a tool make the invalid call.
func TestApprovalOfInvalidNestedCall(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "outer", `{}`)), harness.Reply(harness.Text("not so")))
	g := &harness.Approver{}
	b.StartNodeOn(b.Bus, g.Factory(events.EffectsNonIdempotent), harness.PluginOf("outer", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "outer", Effects: events.EffectsNone}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			got := c.Nested(ctx, 0, []plugin.NestedCall{{Tool: "add", Args: json.RawMessage(invalidAdd)}})[0]
			return got.Code, got.Err
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("1+2?"))
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.Equal(t, "code of the nested call", harness.ToolResults(b, id)[0].Text, plugin.CodeInvalidArgs)
	runtest.Equal(t, "approval requests", len(harness.Find[*events.ToolApprovalAsked](b, id)), 0)
	runtest.Equal(t, "runs", g.Runs.Load(), 0)
}
