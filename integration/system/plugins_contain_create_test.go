package system

import (
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// TestCreateFails has hooks request a session that cannot be created: the directives before it stay, the
// directives after it are not carried out.
func TestCreateFails(t *testing.T) {
	t.Parallel()
	for _, tt := range contained {
		t.Run(string(tt.point), func(t *testing.T) {
			t.Parallel()
			script := []harness.Step{harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("done"))}
			b := harness.StartIdle(t, script[:tt.calls]...)
			var runs atomic.Int64
			b.StartNode(harness.CountingTools(&runs, "look"), hookAt(tt.point, func() ([]plugin.Directive, error) {
				return []plugin.Directive{harness.CreateChild("first"), harness.CreateChild("taken"), harness.CreateChild("kid")}, nil
			}))
			b.Open(api.CreateRequest{ID: "taken"})
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			got := b.AwaitTurn(id, "t1")
			runtest.Equal(t, "end", got.End, tt.end)
			code, want := got.Issue.Code, tt.code
			if tt.end == events.EndFinished {
				r := b.ResultsByPosition(id)[0]
				runtest.Equal(t, "outcome", r.Outcome, events.OutcomeFailure)
				code, want = r.Code, "plugin_session_create_failed"
			}
			runtest.Equal(t, "code", code, want)
			runtest.Equal(t, "parent of the first", b.StateOf("first").Parent, id)
			runtest.Equal(t, "parent of what was there", b.StateOf("taken").Parent, "")
			b.WantNoSession("kid")
		})
	}
}

// TestCancelHangingHook cancels a turn while one of its hooks hangs and ignores its context.
func TestCancelHangingHook(t *testing.T) {
	t.Parallel()
	for _, point := range []events.HookPoint{events.PointBeforeTurn, events.PointBeforeTool, events.PointAfterTool, events.PointCheckpoint} {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel()
			b := harness.StartIdle(t, harness.Reply(harness.Call("k", "look", `{"a":1}`)), harness.Reply(harness.Text("on")))
			if point == events.PointBeforeTurn {
				b.Model.Script = b.Model.Script[1:]
			}
			var runs, requests atomic.Int64
			hangs := make(chan struct{})
			b.StartNode(harness.CountingTools(&runs, "look"), hookAt(point, func() ([]plugin.Directive, error) {
				if requests.Add(1) == 1 {
					close(hangs)
					<-t.Context().Done()
				}
				return nil, nil
			}))
			id := b.Open(api.CreateRequest{})
			b.StartTurn(id, "t1", harness.Text("go"))
			harness.Receive(b, "hangs", hangs)
			_, _, err := b.Cancel(b.Ctx, id, "t1", api.CancelRequest{ID: "c1"})
			runtest.WantError(t, "cancel", err, nil)
			runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndCancelled)
			runtest.Equal(t, "next turn", b.RunTurn(id, "t2", harness.Text("go")).Text, "on")
		})
	}
}
