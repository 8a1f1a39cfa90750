package system

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

// TestSupersededTaskRun has a run that another worker superseded, and that does not return. It records nothing.
// When the other worker is gone the job returns to this node. The old run does not ack it: the task runs again.
func TestSupersededTaskRun(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	runs, results, gate := make(chan int64, 4), make(chan error, 1), make(chan struct{})
	t.Cleanup(func() { close(gate) })
	b.StartTasks(bustest.Open(t, b.Server), map[string]workers.TaskFunc{
		"long": func(ctx context.Context, r *workers.RunningTask) (string, error) {
			runs <- r.Attempt()
			if r.Attempt() > 1 {
				return "done", nil
			}
			<-ctx.Done()
			results <- errors.Join(context.Cause(ctx), r.Progress(b.Ctx, "late"), r.Transition(b.Ctx, events.TaskWaiting))
			<-gate
			return "done late", nil
		},
	})
	id := b.Open(api.CreateRequest{})
	_, err := b.RegisterTask(b.Ctx, id, api.TaskRequest{ID: "k", Runner: "long", Restart: events.RestartAlways})
	runtest.WantError(t, "register", err, nil)
	runtest.Equal(t, "first attempt", harness.Receive(b, "a run", runs), 1)
	rec := b.AwaitTask(id, "k", events.TaskRunning)
	_, err = b.Worker().ClaimTask(b.Ctx, id, task.ClaimOf(&rec), "ghost")
	runtest.WantError(t, "claim", err, nil)
	runtest.WantError(t, "what the overtaken run is told", harness.Receive(b, "its word", results), workers.ErrSuperseded)
	runtest.Equal(t, "next attempt", harness.Receive(b, "a run", runs), 3)
	rec = b.AwaitTask(id, "k", events.TaskCompleted)
	runtest.Equal(t, "summary", rec.Summary, "done")
	runtest.Equal(t, "progress", rec.Message, "")
	runtest.Equal(t, "transitions", len(harness.Find[*events.TaskStateChanged](b, id)), 0)
	harness.VerifyHistory(t, b.Bus, id)
}

// TestTaskOfTheSameID has workers act on a task that was replaced by another one of the same id.
func TestTaskOfTheSameID(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	id := b.Open(api.CreateRequest{})
	request := api.TaskRequest{ID: "k", Runner: "nobody's"}
	old, err := b.RegisterTask(b.Ctx, id, request)
	runtest.WantError(t, "register", err, nil)
	old, err = b.Worker().ClaimTask(b.Ctx, id, task.ClaimOf(&old), "w1")
	runtest.WantError(t, "claim", err, nil)
	_, err = b.CancelTask(b.Ctx, id, "k")
	runtest.WantError(t, "cancel", err, nil)
	_, err = b.RegisterTask(b.Ctx, id, request)
	runtest.WantError(t, "register again", err, nil)
	before, claim := b.LastSeq(id), task.ClaimOf(&old)
	runtest.WantError(t, "cancel of who was to stop", b.Worker().CancelClaimedTask(b.Ctx, id, claim), api.ErrTaskTaken)
	runtest.WantError(t, "progress", b.Worker().ProgressClaimedTask(b.Ctx, id, claim, "half of it"), api.ErrTaskTaken)
	runtest.WantError(t, "transition", b.Worker().TransitionClaimedTask(b.Ctx, id, claim, events.TaskWaiting), api.ErrTaskTaken)
	runtest.WantError(t, "end", b.Worker().EndClaimedTask(b.Ctx, id, claim, events.TaskCompleted, "done"), api.ErrTaskTaken)
	runtest.Equal(t, "sequence", b.LastSeq(id), before)
	runtest.Equal(t, "state", b.ListedTask(id, "k").State, events.TaskPending)
}
