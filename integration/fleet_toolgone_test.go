package integration

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestFleetToolCancelUnheard cancels a call that no worker runs: nobody has
// claimed it, or who did is gone. Its turn goes on all the same, and the tool never runs.
func TestFleetToolCancelUnheard(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(f *fleet, id events.SessionID, rec *projector.Task) error{
		"unclaimed": func(f *fleet, id events.SessionID, rec *projector.Task) error {
			_, err := f.CancelTask(f.ctx, id, rec.ID)
			return err
		},
		"gone": func(f *fleet, id events.SessionID, rec *projector.Task) error {
			if _, err := f.ClaimTask(f.ctx, id, task.ClaimOf(rec), "ghost"); err != nil {
				return err
			}
			_, err := f.RequestCancelTask(f.ctx, id, rec.ID, "enough")
			return err
		},
		"gone_at_once": func(f *fleet, id events.SessionID, rec *projector.Task) error {
			if _, err := f.ClaimTask(f.ctx, id, task.ClaimOf(rec), "ghost"); err != nil {
				return err
			}
			_, err := f.CancelTask(f.ctx, id, rec.ID)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := setupFleet(t)
			e := &errand{}
			f.calls(call("a", "run", `{"text":"one"}`))
			f.turnsOnly(e)
			id := f.open(api.CreateRequest{})
			f.submit(id, "t1", text("go"))
			f.unqueued(id)
			must(t, "cancel", cancel(f, id, &f.state(id).Tasks[0]), nil)
			f.toolsOnly("tools", bustest.Open(t, f.server), e)
			equal(t, "end", f.ended(id, "t1").End, events.EndFinished)
			equal(t, "what the model reads", f.messages(id)[2], "user a=[cancelled] the call was cancelled")
			equal(t, "runs", len(e.runs), 0)
			verified(t, f.bus, id)
		})
	}
}
