package integration

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestApprovalCancelled cancels a turn that waits: while a node lives, while
// none does, and while an answer waits that no node has taken.
func TestApprovalCancelled(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ idle, answered bool }{"node": {}, "no_node": {idle: true}, "answered": {idle: true, answered: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, theCall(), reply(text("on")))
			g := &asker{}
			var after atomic.Int64
			stack := []plugin.Factory{g.factory(events.EffectsNonIdempotent), declares("after", func(r *plugin.Registrar) {
				r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
					after.Add(1)
					return nil, nil
				})
			})}
			_, kill := b.nodeOn(b.bus, stack...)
			id := b.open(api.CreateRequest{})
			b.parks(id)
			if c.idle {
				kill()
			}
			if c.answered {
				must(t, "approve", b.approve(b.otherHost(), id, true), nil)
			}
			one := api.CancelRequest{ID: "r1", Origin: "user", Reason: "enough"}
			equal(t, "evidence", b.cancel(id, "t1", one, api.CancelRequested), one)
			if c.idle {
				got, evidence, err := b.otherHost().Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "r2"})
				must(t, "second cancel", err, nil)
				equal(t, "second receipt", got, api.CancelAlreadyRequested)
				equal(t, "second evidence", evidence, one)
				list, err := b.Approvals(b.ctx, id)
				must(t, "approvals", err, nil)
				equal(t, "questions", len(list), 0)
				must(t, "answer after the cancel", b.approve(b.otherHost(), id, true), api.ErrNotAsked)
				b.nodeOn(bustest.Open(t, b.server), stack...)
			}
			equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
			if err := b.approve(b.otherHost(), id, true); c.answered {
				must(t, "the same answer, late", err, nil)
				must(t, "another answer, late", b.approve(b.otherHost(), id, false), api.ErrDifferent)
			} else {
				must(t, "late answer", err, api.ErrNotAsked)
				equal(t, "late answer tells which", strings.Contains(fmt.Sprint(err), string(theEffect)), true)
			}
			equal(t, "result", resultsIn(b, id)[0].Outcome, events.OutcomeCancelled)
			equal(t, "cancels in the history", len(find[*events.TurnCancelRequested](b, id)), 1)
			equal(t, "runs", g.runs.Load(), 0)
			equal(t, "hooks after the turn", after.Load(), 1)
			b.cancel(id, "t1", api.CancelRequest{}, api.CancelCompletionWon)
			equal(t, "next turn", b.run(id, "t2", text("go on")).Text, "on")
		})
	}
}

// setupPending has a turn that waits for the result of a call from outside. No worker has it.
func setupPending(t *testing.T, script ...step) (b *bundle, id events.SessionID, kill func()) {
	t.Helper()
	b = setupIdle(t, append([]step{reply(call("k", "later", "{}"))}, script...)...)
	plugin.AddTool(b.tools, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	kill = b.work(b.bus)
	id = b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.await(id, "pending call", func(s *projector.State) bool {
		return s.Turn() != nil && len(s.Turn().Calls) == 1 && s.Turn().Calls[0].Pended
	})
	b.unqueued(id)
	return b, id, kill
}

// TestCancelPending cancels a turn that waits for the result of a call from outside.
func TestCancelPending(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "later", "{}")), reply(text("on")))
	plugin.AddTool(b.tools, plugin.Tool{Name: "later"}, func(_ context.Context, c plugin.Call, _ struct{}) (plugin.Result, error) {
		c.CompletionKey()
		return plugin.Result{Pending: true}, nil
	})
	b.work(b.bus)
	id := b.open(api.CreateRequest{})
	b.submit(id, "t1", text("go"))
	b.await(id, "pending call", func(s *projector.State) bool {
		t := s.Turn()
		return t != nil && len(t.Calls) == 1 && t.Calls[0].Pended
	})
	b.unqueued(id)
	b.cancel(id, "t1", api.CancelRequest{}, api.CancelRequested)
	equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
	equal(t, "result", resultsIn(b, id)[0].Outcome, events.OutcomeCancelled)
	must(t, "late result", b.ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: "late"}), api.ErrUnknownTurn)
	equal(t, "next turn", b.run(id, "t2", text("go on")).Text, "on")
}

// TestResolveTwice has two clients bring different results at once, while a
// node takes them and while none does.
func TestResolveTwice(t *testing.T) {
	t.Parallel()
	for name, idle := range map[string]bool{"node": false, "no_node": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release := make(chan struct{})
			b, id, kill := setupPending(t, first(func() { <-release }, reply(text("done"))))
			if idle {
				kill()
			}
			result := map[bool]string{true: "yes", false: "no"}
			errs := b.atOnce(func(h *session.Host, yes bool) error {
				return h.ResolveTool(b.ctx, id, theEffect, events.ToolResult{Text: result[yes]})
			})
			won := errs[true] == nil
			must(t, "the first", errs[won], nil)
			must(t, "the second", errs[!won], api.ErrResolved)
			if idle {
				b.work(bustest.Open(t, b.server))
			}
			close(release)
			equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
			equal(t, "what the model reads", b.model.prompt(1)[2], "user k="+result[won])
			equal(t, "results", len(find[*events.ToolResolved](b, id)), 1)
		})
	}
}
