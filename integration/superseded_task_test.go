package integration

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers"
)

// TestSupersededTaskRun has a run that another worker overtook, and that does
// not return: it records nothing any more, and when the other one is gone the
// job that comes back here is not the old run's to ack: the task runs again.
func TestSupersededTaskRun(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	runs, said, gate := make(chan int64, 4), make(chan error, 1), make(chan struct{})
	t.Cleanup(func() { close(gate) })
	b.tasks(bustest.Open(t, b.server), map[string]workers.TaskFunc{
		"long": func(ctx context.Context, r *workers.RunningTask) (string, error) {
			runs <- r.Attempt()
			if r.Attempt() > 1 {
				return "done", nil
			}
			<-ctx.Done()
			said <- errors.Join(context.Cause(ctx), r.Progress(b.ctx, "late"), r.Transition(b.ctx, events.TaskWaiting))
			<-gate
			return "done late", nil
		},
	})
	id := b.open(api.CreateRequest{})
	_, err := b.RegisterTask(b.ctx, id, api.TaskRequest{ID: "k", Runner: "long", Restart: events.RestartAlways})
	must(t, "register", err, nil)
	equal(t, "first attempt", receive(b, "a run", runs), 1)
	rec := b.taskIs(id, "k", events.TaskRunning)
	_, err = b.ClaimTask(b.ctx, id, task.ClaimOf(&rec), "ghost")
	must(t, "claim", err, nil)
	must(t, "what the overtaken run is told", receive(b, "its word", said), workers.ErrSuperseded)
	equal(t, "next attempt", receive(b, "a run", runs), 3)
	rec = b.taskIs(id, "k", events.TaskCompleted)
	equal(t, "summary", rec.Summary, "done")
	equal(t, "progress", rec.Message, "")
	equal(t, "transitions", len(find[*events.TaskStateChanged](b, id)), 0)
	verified(t, b.bus, id)
}

// TestTaskOfTheSameID has workers that act on a task which was replaced by another one of its id.
func TestTaskOfTheSameID(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	id := b.open(api.CreateRequest{})
	request := api.TaskRequest{ID: "k", Runner: "nobody's"}
	old, err := b.RegisterTask(b.ctx, id, request)
	must(t, "register", err, nil)
	old, err = b.ClaimTask(b.ctx, id, task.ClaimOf(&old), "w1")
	must(t, "claim", err, nil)
	_, err = b.CancelTask(b.ctx, id, "k")
	must(t, "cancel", err, nil)
	_, err = b.RegisterTask(b.ctx, id, request)
	must(t, "register again", err, nil)
	before, claim := b.last(id), task.ClaimOf(&old)
	must(t, "cancel of who was to stop", b.CancelTaskAs(b.ctx, id, claim), task.ErrTaken)
	must(t, "progress", b.ProgressTaskAs(b.ctx, id, claim, "half of it"), task.ErrTaken)
	must(t, "transition", b.TransitionTaskAs(b.ctx, id, claim, events.TaskWaiting), task.ErrTaken)
	must(t, "end", b.FinishTask(b.ctx, id, claim, events.TaskCompleted, "done"), task.ErrTaken)
	equal(t, "sequence", b.last(id), before)
	equal(t, "state", b.listed(id, "k").State, events.TaskPending)
}
