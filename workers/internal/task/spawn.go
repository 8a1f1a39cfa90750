package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
)

// errNotStarted reports a spawn before Start, or after Stop was called.
var errNotStarted = errors.New("tasks service does not run")

// Running is the handle of a task's function.
type Running struct{ r *taskRun }

// Session is the current session of the task; a transfer changes it.
func (t *Running) Session() events.SessionID {
	id, _ := t.current()
	return id
}

// current is the run's claim and its session.
func (t *Running) current() (events.SessionID, task.Claim) {
	t.r.t.mu.Lock()
	defer t.r.t.mu.Unlock()
	return t.r.session, t.r.claim
}

// ID is the id of the task.
func (t *Running) ID() events.TaskID { return t.r.claim.Task }

// Args is the JSON that the task was registered with. The caller must not change it.
func (t *Running) Args() []byte { return t.r.args }

// Attempt counts the workers that have run the task, with this one. 0 for closures.
func (t *Running) Attempt() int64 { return t.r.claim.Attempt }

// Progress records a message. It does nothing if the task has ended, another worker has it, or its session is closed.
func (t *Running) Progress(ctx context.Context, message string) error {
	id, claim := t.current()
	return unlessTaken(t.r.t.cfg.Worker.ProgressClaimedTask(ctx, id, claim, message))
}

// Transition records that the task waits, or runs again. It does nothing if the task has ended, another worker has
// it, or its session is closed.
func (t *Running) Transition(ctx context.Context, to events.TaskState) error {
	id, claim := t.current()
	return unlessTaken(t.r.t.cfg.Worker.TransitionClaimedTask(ctx, id, claim, to))
}

// unlessTaken drops the error of a run that has lost its task: its context is cancelled too.
func unlessTaken(err error) error {
	if errors.Is(err, api.ErrTaskTaken) {
		return nil
	}
	return err
}

// SpawnManaged registers a task and at once runs a function of this process for it. The task fails when this process
// dies. [api.ErrTaskRunning]: a live task has the id. req must not set Runner, Worker, OnCancel or Restart.
func (t *Service) SpawnManaged(ctx context.Context, id events.SessionID, req api.TaskRequest, work Func) (projector.Task, error) {
	if req.Runner != "" || req.Worker != "" || req.OnCancel != nil || req.Restart != events.RestartNever {
		return projector.Task{}, errors.New("spawn task: runner, worker, restart and callback are not for closures")
	}
	key := taskKey{id, req.ID}
	if t.fetch == nil || !t.reserve(key, bus.ClassTask) {
		return projector.Task{}, fmt.Errorf("spawn task %s: %w", req.ID, errNotStarted)
	}
	defer t.unreserve(key)
	req.Worker = t.cfg.ID
	rec, err := t.cfg.Worker.RegisterTask(ctx, id, req)
	if err != nil {
		return projector.Task{}, fmt.Errorf("spawn task: %w", err)
	}
	r := t.newRun(id, &rec, true)
	r.work = r.plain(work)
	t.launch(r)
	return rec, nil
}

// SpawnTask implements [session.Spawner].
func (t *Service) SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	_, err := t.SpawnManaged(ctx, id, req, func(ctx context.Context, _ *Running) (string, error) { return "", work(ctx) })
	return err
}
