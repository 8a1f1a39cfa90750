package integration

import (
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestCreateFails lets hooks ask for a session that cannot be created: what
// they asked for before it stays, what comes after it is not done.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	for _, tt := range contained {
		t.Run(string(tt.point), func(t *testing.T) {
			t.Parallel()
			script := []step{reply(call("k", "look", `{"a":1}`)), reply(text("done"))}
			b := setupIdle(t, script[:tt.calls]...)
			var runs atomic.Int64
			b.node(answering(&runs, "look"), hookAt(tt.point, func() ([]plugin.Directive, error) {
				return []plugin.Directive{childSession("first"), childSession("taken"), childSession("kid")}, nil
			}))
			b.open(api.CreateRequest{ID: "taken"})
			id := b.open(api.CreateRequest{})
			b.submit(id, "t1", text("go"))
			got := b.ended(id, "t1")
			equal(t, "end", got.End, tt.end)
			code, want := got.Issue.Code, tt.code
			if tt.end == events.EndFinished {
				r := b.resultsOf(id)[0]
				equal(t, "outcome", r.Outcome, events.OutcomeFailure)
				code, want = r.Code, "plugin_session_create_failed"
			}
			equal(t, "code", code, want)
			equal(t, "parent of the first", b.state("first").Parent, id)
			equal(t, "parent of what was there", b.state("taken").Parent, "")
			b.noSession("kid")
		})
	}
}

// TestCancelHangingHook cancels a turn while one of its hooks hangs and ignores its context.
func TestCancelHangingHook(t *testing.T) {
	t.Parallel()
	for _, point := range []events.HookPoint{events.PointBeforeTurn, events.PointBeforeTool, events.PointAfterTool, events.PointCheckpoint} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := setupIdle(t, reply(call("k", "look", `{"a":1}`)), reply(text("on")))
			if point == events.PointBeforeTurn {
				b.model.script = b.model.script[1:]
			}
			var runs, asked atomic.Int64
			hangs := make(chan struct{})
			b.node(answering(&runs, "look"), hookAt(point, func() ([]plugin.Directive, error) {
				if asked.Add(1) == 1 {
					close(hangs)
					<-t.Context().Done()
				}
				return nil, nil
			}))
			id := b.open(api.CreateRequest{})
			b.submit(id, "t1", text("go"))
			receive(b, "hangs", hangs)
			_, _, err := b.Cancel(b.ctx, id, "t1", api.CancelRequest{ID: "c1"})
			must(t, "cancel", err, nil)
			equal(t, "end", b.ended(id, "t1").End, events.EndCancelled)
			equal(t, "next turn", b.run(id, "t2", text("go")).Text, "on")
		})
	}
}
