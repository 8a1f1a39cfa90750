package system

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestApprovalCancelled cancels a turn that waits for an approval: with a live node, without one, and with an
// answer that no node has read.
func TestApprovalCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ idle, answered bool }{"node": {}, "no_node": {idle: true}, "answered": {idle: true, answered: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.CallAdd(), harness.Reply(harness.Text("on")))
			g := &harness.Approver{}
			var after atomic.Int64
			stack := []plugin.Factory{g.Factory(events.EffectsNonIdempotent), harness.PluginOf("after", func(r *plugin.Registrar) {
				r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
					after.Add(1)
					return nil, nil
				})
			})}
			_, kill := b.StartNodeOn(b.Bus, stack...)
			id := b.Open(api.CreateRequest{})
			b.ParkTurn(id)
			if c.idle {
				kill()
			}
			if c.answered {
				runtest.WantError(t, "approve", b.AnswerApproval(b.OtherHost(), id, true), nil)
			}
			one := api.CancelRequest{ID: "r1", Origin: "user", Reason: "enough"}
			runtest.Equal(t, "evidence", b.CancelTurn(id, "t1", one, api.CancelRequested), one)
			if c.idle {
				got, evidence, err := b.OtherHost().Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: "r2"})
				runtest.WantError(t, "second cancel", err, nil)
				runtest.Equal(t, "second receipt", got, api.CancelAlreadyRequested)
				runtest.Equal(t, "second evidence", evidence, one)
				list, err := b.Approvals(b.Ctx, id)
				runtest.WantError(t, "approvals", err, nil)
				runtest.Equal(t, "questions", len(list), 0)
				runtest.WantError(t, "answer after the cancel", b.AnswerApproval(b.OtherHost(), id, true), api.ErrNotAsked)
				b.StartNodeOn(bustest.Open(t, b.Server), stack...)
			}
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
			if err := b.AnswerApproval(b.OtherHost(), id, true); c.answered {
				runtest.WantError(t, "the same answer, late", err, nil)
				runtest.WantError(t, "another answer, late", b.AnswerApproval(b.OtherHost(), id, false), api.ErrDifferent)
			} else {
				runtest.WantError(t, "late answer", err, api.ErrNotAsked)
				runtest.Equal(t, "late answer tells which", strings.Contains(fmt.Sprint(err), string(harness.AddEffect)), true)
			}
			runtest.Equal(t, "result", harness.ToolResults(b, id)[0].Outcome, events.OutcomeCancelled)
			runtest.Equal(t, "cancels in the history", len(harness.Find[*events.TurnCancelRequested](b, id)), 1)
			runtest.Equal(t, "runs", g.Runs.Load(), 0)
			runtest.Equal(t, "hooks after the turn", after.Load(), 1)
			b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelCompletionWon)
			runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go on")).Text, "on")
		})
	}
}

// TestCancelPending cancels a turn that waits for the result of a call from outside.
func TestCancelPending(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "later", "{}")), harness.Reply(harness.Text("on")))
	plugin.AddTool(b.Tools, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	b.StartWorker(b.Bus)
	id := b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("go"))
	b.AwaitState(id, "pending call", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && len(t.Calls) == 1 && t.Calls[0].Pended
	})
	b.AwaitUnqueued(id)
	b.CancelTurn(id, "t1", api.CancelRequest{}, api.CancelRequested)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
	runtest.Equal(t, "result", harness.ToolResults(b, id)[0].Outcome, events.OutcomeCancelled)
	runtest.WantError(t, "late result", b.ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: "late"}), api.ErrUnknownTurn)
	runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go on")).Text, "on")
}

// TestResolveTwice has two clients send different results at once, with a node and without one.
func TestResolveTwice(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"node": false, "no_node": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			b, id, kill := harness.StartPending(t, harness.DoFirst(func() { <-release }, harness.Reply(harness.Text("done"))))
			if idle {
				kill()
			}
			result := map[bool]string{true: "yes", false: "no"}
			errs := turnAtOnce(b, func(h *session.Host, yes bool) error {
				return h.ResolveTool(b.Ctx, id, harness.AddEffect, events.ToolResult{Text: result[yes]})
			})
			won := errs[true] == nil
			runtest.WantError(t, "the first", errs[won], nil)
			runtest.WantError(t, "the second", errs[!won], api.ErrResolved)
			if idle {
				b.StartWorker(bustest.Open(t, b.Server))
			}
			close(release)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "what the model reads", b.Model.Prompt(1)[2], "user k="+result[won])
			runtest.Equal(t, "results", len(harness.Find[*events.ToolResolved](b, id)), 1)
		})
	}
}
