package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// Reports of a program about its own task, which it registered and runs: a task with neither a runner nor a worker,
// which [api.TaskRequest.CheckOwn] allows. Any other task is [api.ErrTaskTaken], and an unknown one [api.ErrUnknownTask]. An
// ended task does not change.

// ProgressTask records a message of at most [events.MaxTaskText] bytes, and returns the task's record, whose state
// shows a requested cancel. For a task that continues in a closed session the error is [api.ErrClosed]: read the
// record with Task, and report the end with EndOwnTask.
func (h *Host) ProgressTask(ctx context.Context, id events.SessionID, name events.TaskID, message string) (projector.Task, error) {
	c := requestContent{operation.ProgressTask.Name, "task progress", &api.ProgressArgs{Task: name, Message: message}}
	return h.decideOwnTask(ctx, id, c, name, func(s *projector.State) ([]events.Event, error) {
		return task.Progress(s, name, message), liveAndClosed(s, name)
	})
}

// liveAndClosed refuses a report about a task that continues in a closed session, which records only its cancel and its end.
func liveAndClosed(s *projector.State, name events.TaskID) error {
	if t, ok := s.Task(name); ok && t.Live() && s.Status == projector.StatusClosed {
		return fmt.Errorf("task %s of session %s: %w", name, s.Session, api.ErrClosed)
	}
	return nil
}

// TransitionOwnTask moves a live task to running or waiting, and returns its record, like [Host.ProgressTask]. A task whose
// cancel is requested stays so.
func (h *Host) TransitionOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState) (projector.Task, error) {
	if state != events.TaskRunning && state != events.TaskWaiting {
		return projector.Task{}, &events.FieldError{Field: "state", Reason: fmt.Sprintf("%q is none of running and waiting", state), Err: events.ErrInvalid}
	}
	c := requestContent{operation.TransitionOwnTask.Name, "transition task", &api.TransitionArgs{Task: name, State: state}}
	return h.decideOwnTask(ctx, id, c, name, func(s *projector.State) ([]events.Event, error) {
		return task.Transition(s, name, state), liveAndClosed(s, name)
	})
}

// UnregisterOwnTask removes a task from the registry, in any state, without cancelling it. An unknown task changes nothing.
func (h *Host) UnregisterOwnTask(ctx context.Context, id events.SessionID, name events.TaskID) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	c := requestContent{operation.UnregisterOwnTask.Name, "unregister task", &name}
	err := h.decideByKey(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if err := checkOwnTask(s, name); err != nil && !errors.Is(err, api.ErrUnknownTask) {
			return nil, err
		}
		return task.Remove(s, name), nil
	})
	if err == nil {
		h.callbacks.Drop(id, name)
	}
	return err
}

// EndOwnTask ends a task as completed, failed or cancelled, with a summary of at most [events.MaxTaskText] bytes, and
// returns its record.
func (h *Host) EndOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) (projector.Task, error) {
	if !state.Terminal() {
		return projector.Task{}, &events.FieldError{Field: "state", Reason: fmt.Sprintf("%q is none of completed, failed and cancelled", state), Err: events.ErrInvalid}
	}
	c := requestContent{operation.EndOwnTask.Name, "end task", &api.EndOwnTaskArgs{Task: name, State: state, Summary: summary}}
	t, err := h.decideOwnTask(ctx, id, c, name, func(s *projector.State) ([]events.Event, error) {
		return task.End(s, name, state, summary), nil
	})
	if err == nil {
		h.callbacks.Drop(id, name)
	}
	return t, err
}

func (h *Host) decideOwnTask(ctx context.Context, id events.SessionID, c requestContent, name events.TaskID, d decideFunc) (projector.Task, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(ctx, c, reqMeta)
	if err != nil {
		return projector.Task{}, err
	}
	return h.decideTask(ctx, id, meta, name, func(s *projector.State) ([]events.Event, error) {
		if err := checkOwnTask(s, name); err != nil {
			return nil, err
		}
		return d(s)
	})
}

// checkOwnTask refuses a task that no program runs which registered it.
func checkOwnTask(s *projector.State, name events.TaskID) error {
	t, ok := s.Task(name)
	switch {
	case !ok || t.To != "":
		return fmt.Errorf("task %s of session %s: %w", name, s.Session, api.ErrUnknownTask)
	case t.Runner != "" || t.Worker != "" || (&api.TaskRequest{ID: t.ID, Of: t.Of, Child: t.Child}).CheckOwn() != nil:
		return fmt.Errorf("task %s of session %s is run by a node: %w", name, s.Session, api.ErrTaskTaken)
	}
	return nil
}
