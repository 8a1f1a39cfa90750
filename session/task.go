package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/internal/reader"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// RegisterTask adds a task to the session's registry. The id of a live task is [api.ErrTaskRunning]. When it returns nil
// the task is in the history, and a worker runs it soon.
func (h *Host) RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	reg := events.TaskRegistered{
		Task: req.ID, Of: req.Of, Producer: req.Producer, Child: req.Child, Parent: req.Parent, Cancel: req.Cancel, Close: req.Close,
		Restart: req.Restart, Runner: req.Runner, Args: req.Args, Worker: req.Worker,
	}
	if req.Runner == "" {
		reg.State = events.TaskRunning
	}
	meta, err := h.keyedMeta(ctx, requestContent{operation.RegisterTask.Name, "register task", &reg}, reqMeta)
	if err != nil {
		return projector.Task{}, err
	}
	reg.Trace = tracing.Of(ctx) // after the key: a repeat may come under another span
	t, err := h.decideTask(ctx, id, meta, req.ID, func(s *projector.State) ([]events.Event, error) {
		if err := check.Open(s); err != nil {
			return nil, err
		}
		list, err := task.Register(s, reg)
		return task.OnBehalf(s, list, reqMeta.Actor), err
	})
	if err != nil && !errors.Is(err, api.ErrTaskRunning) {
		return projector.Task{}, fmt.Errorf("register task: %w", err)
	}
	var lookErr error
	if err != nil { // the host that registered it may have stopped before it published the wake
		t, lookErr = h.rewakeTask(ctx, id, req.ID)
	}
	if err == nil && req.OnCancel != nil {
		lookErr = h.callbacks.Set(ctx, id, t.ID, req.OnCancel)
	}
	if err = errors.Join(err, lookErr); err != nil {
		return t, fmt.Errorf("register task: %w", err)
	}
	return t, nil
}

func (h *Host) rewakeTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return projector.Task{}, err
	}
	h.hints.Task(s, name)
	return reader.TaskOf(ctx, s, name)
}

// decideTask runs a decision about one task, and returns the task's record right after its commit. The record does
// not include later decisions. For a repeat about a task that was removed since, it has the id alone.
func (h *Host) decideTask(ctx context.Context, id events.SessionID, meta commitMeta, name events.TaskID, d decideFunc) (projector.Task, error) {
	var t projector.Task
	err := h.decideUntilAppended(ctx, id, decideOptions{meta: meta, then: func(s *projector.State, appended bool) (err error) {
		if t, err = reader.TaskOf(ctx, s, name); err != nil && !appended {
			t.ID, err = name, nil
		}
		return err
	}}, d)
	return t, err
}

// changeTask runs a decision about one task. It does nothing where the session is unknown or the task is hidden; d
// decides about unknown and ended tasks.
func (h *Host) changeTask(ctx context.Context, id events.SessionID, name events.TaskID, cause string, d func(*projector.State) []events.Event) error {
	err := h.decide(ctx, id, cause, func(s *projector.State) ([]events.Event, error) {
		if t, ok := s.Task(name); ok && t.Hidden {
			return nil, nil
		}
		return d(s), nil
	})
	if errors.Is(err, events.ErrNoSession) {
		return nil
	}
	return err
}

// UnregisterTask removes a task from the registry, in any state, without cancelling it. It ignores an
// unknown task.
func (h *Host) UnregisterTask(ctx context.Context, id events.SessionID, name events.TaskID) error {
	h.callbacks.Drop(id, name)
	return h.changeTask(ctx, id, name, "unregister task", func(s *projector.State) []events.Event { return task.Remove(s, name) })
}

// EndTask ends a live task. It does nothing for a state that ends no task, and for an unknown or ended
// task.
func (h *Host) EndTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) error {
	err := h.changeTask(ctx, id, name, "complete task", func(s *projector.State) []events.Event {
		return task.End(s, name, state, clipText(summary))
	})
	if err == nil && state.Terminal() {
		h.callbacks.Drop(id, name)
	}
	return err
}

// TransitionTask moves a live task to running or waiting; otherwise it does nothing.
func (h *Host) TransitionTask(ctx context.Context, id events.SessionID, name events.TaskID, to events.TaskState) error {
	return h.changeTask(ctx, id, name, "transition task", func(s *projector.State) []events.Event { return task.Transition(s, name, to) })
}

// RequestCancelTask requests that a live task stops by itself: its context ends, and its runner reports how it ended.
// An outside program reads the request from the session. The reason has at most [events.MaxReasonBytes]. An
// unknown task is [api.ErrUnknownTask].
func (h *Host) RequestCancelTask(ctx context.Context, id events.SessionID, name events.TaskID, reason string) (projector.Task, error) {
	if err := events.CheckReason("reason", reason); err != nil {
		return projector.Task{}, fmt.Errorf("request cancel of task %s of session %s: %w", name, id, err)
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	request := requestContent{operation.RequestCancelTask.Name, "request cancel", &api.RequestCancelTaskArgs{Task: name, Reason: reason}}
	return h.cancelTask(ctx, request, reqMeta, id, name, func(s *projector.State) []events.Event { return task.RequestCancel(s, name, reason) })
}

// hostReason is the reason of a cancel by a host.
const hostReason = "requested by host"

// CancelTask cancels a task at once, and returns its record. An ended task does not change. An unknown one is
// [api.ErrUnknownTask]. A cancel of a monitor's task stops the monitor.
func (h *Host) CancelTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	request := requestContent{operation.CancelTask.Name, "cancel task", &name}
	return h.cancelTask(ctx, request, reqMeta, id, name, func(s *projector.State) []events.Event { return task.Cancel(s, name, hostReason) })
}

// CancelTaskIfKnown is [Host.CancelTask], but ignores an unknown task.
func (h *Host) CancelTaskIfKnown(ctx context.Context, id events.SessionID, name events.TaskID) error {
	_, err := h.CancelTask(ctx, id, name)
	if errors.Is(err, api.ErrUnknownTask) || errors.Is(err, events.ErrNoSession) {
		return nil
	}
	return err
}

func (h *Host) cancelTask(ctx context.Context, c requestContent, reqMeta api.RequestMeta, id events.SessionID, name events.TaskID, d func(*projector.State) []events.Event) (projector.Task, error) {
	err := h.decideByKey(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
		if t, ok := s.Task(name); !ok || t.To != "" || t.Hidden {
			return nil, fmt.Errorf("cancel task %s of session %s: %w", name, id, api.ErrUnknownTask)
		}
		return d(s), nil
	})
	if err != nil {
		return projector.Task{}, err
	}
	t, err := h.reader.CachedTask(ctx, id, name)
	if err == nil && (t.State == events.TaskCancelled || t.State == events.TaskCancelling) {
		h.callbacks.Call(id, name)
	}
	return t, err
}

// CancelTasks cancels every live task of a session that is not in keep, in one commit, and returns their ids in the
// order of creation.
func (h *Host) CancelTasks(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]events.TaskID, error) {
	if err := check.Count("keep", len(keep), task.MaxLive); err != nil {
		return nil, err
	}
	list, err := h.cancelUnreferenced(ctx, id, keep)
	ids := make([]events.TaskID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	return ids, err
}

// cancelUnreferenced is CancelTasks, and returns the records of the tasks.
func (h *Host) cancelUnreferenced(ctx context.Context, id events.SessionID, keep []events.TaskID) (list []projector.Task, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(ctx, requestContent{operation.CancelTasks.Name, "cancel tasks", &keep}, reqMeta)
	if err != nil {
		return nil, err
	}
	then := func(s *projector.State, _ bool) error {
		for i := range list {
			if t, ok := s.Task(list[i].ID); ok {
				list[i] = *t
			} else { // more tasks have ended than the state keeps
				list[i].State, list[i].Summary, list[i].Args = events.TaskCancelled, hostReason, nil
				list[i].UpdatedAt, list[i].CompletedAt = s.UpdatedAt, s.UpdatedAt
			}
		}
		return nil
	}
	err = h.decideUntilAppended(ctx, id, decideOptions{meta: meta, then: then}, func(s *projector.State) ([]events.Event, error) {
		ids := task.Unreferenced(s, keep)
		list = make([]projector.Task, len(ids))
		for i, name := range ids {
			t, _ := s.Task(name)
			list[i] = *t
		}
		return task.CancelAll(s, ids, hostReason), nil
	})
	if err != nil {
		return nil, fmt.Errorf("cancel tasks of %s: %w", id, err)
	}
	for i := range list {
		h.callbacks.Call(id, list[i].ID)
	}
	return list, nil
}

// CheckTasks reports the first id that is not a live task of the session, as [api.ErrUnknownTask]. An
// empty list is valid.
func (h *Host) CheckTasks(ctx context.Context, id events.SessionID, ids []events.TaskID) error {
	if len(ids) == 0 {
		return nil
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	return task.Validate(s, ids)
}

// clipText cuts a text to [events.MaxTaskText].
func clipText(text string) string { return events.Clip(text, events.MaxTaskText, " [cut]") }
