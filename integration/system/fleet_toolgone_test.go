package system

import (
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// TestFleetToolCancelUnclaimed cancels a call that no worker runs: it is unclaimed, or its worker is gone. The turn
// continues, and the tool never runs.
func TestFleetToolCancelUnclaimed(t *testing.T) {
	t.Parallel()
	for name, cancel := range map[string]func(f *harness.Fleet, id events.SessionID, rec *projector.Task) error{
		"unclaimed": func(f *harness.Fleet, id events.SessionID, rec *projector.Task) error {
			_, err := f.CancelTask(f.Ctx, id, rec.ID)
			return err
		},
		"gone": func(f *harness.Fleet, id events.SessionID, rec *projector.Task) error {
			if _, err := f.Worker().ClaimTask(f.Ctx, id, task.ClaimOf(rec), "ghost"); err != nil {
				return err
			}
			_, err := f.RequestCancelTask(f.Ctx, id, rec.ID, "enough")
			return err
		},
		"gone_at_once": func(f *harness.Fleet, id events.SessionID, rec *projector.Task) error {
			if _, err := f.Worker().ClaimTask(f.Ctx, id, task.ClaimOf(rec), "ghost"); err != nil {
				return err
			}
			_, err := f.CancelTask(f.Ctx, id, rec.ID)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := harness.StartFleet(t)
			e := &fleetWorkload{}
			callFirst(f, harness.Call("a", "run", `{"text":"one"}`))
			turnsOnly(f, e)
			id := f.Open(api.CreateRequest{})
			f.StartTurn(id, "t1", harness.Text("go"))
			f.AwaitUnqueued(id)
			runtest.WantError(t, "cancel", cancel(f, id, &f.StateOf(id).Tasks[0]), nil)
			toolsOnly(f, "tools", bustest.Open(t, f.Server), e)
			runtest.Equal(t, "end", f.AwaitTurn(id, "t1").End, events.EndFinished)
			runtest.Equal(t, "what the model reads", f.Messages(id)[2], "user a=[cancelled] the call was cancelled")
			runtest.Equal(t, "runs", len(e.runs), 0)
			harness.VerifyHistory(t, f.Bus, id)
		})
	}
}
