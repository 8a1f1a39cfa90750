package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/task"
)

// HiddenError is the failure of a hidden task that AwaitHiddenTasks waited for.
type HiddenError struct {
	Task   events.TaskID
	Label  string
	Reason string // as the history has it
}

// Error implements error.
func (e *HiddenError) Error() string { return fmt.Sprintf("hidden task %q: %s", e.Label, e.Reason) }

// hiddenKey is the context key of a hidden task's work.
type hiddenKey struct{}

// WithinHidden returns the context of a hidden task's work. Tasks that the work hides are its children, and it waits
// for those only.
func WithinHidden(ctx context.Context, id events.TaskID) context.Context {
	return context.WithValue(ctx, hiddenKey{}, id)
}

func hiddenParent(ctx context.Context) events.TaskID {
	id, _ := ctx.Value(hiddenKey{}).(events.TaskID)
	return id
}

// HideTask registers a hidden task that a worker is about to run. A session has at most [task.MaxHidden] of them;
// more are an [api.LimitError]. The label has at most [events.MaxTaskText] bytes.
func (w Worker) HideTask(ctx context.Context, id events.SessionID, name events.TaskID, label string, worker events.WorkerID) (projector.Task, error) {
	ctx = w.as(ctx)
	return w.Host.decideTask(ctx, id, w.Host.followingMeta(ctx, "hide task"), name, func(s *projector.State) ([]events.Event, error) {
		if err := check.Open(s); err != nil {
			return nil, err
		}
		list, err := task.Hide(s, name, hiddenParent(ctx), label, worker)
		return task.OnBehalf(s, list, ""), err
	})
}

// AwaitHiddenTasks waits until no hidden task of the session runs on any node. It waits in the order of their
// registration, and also for the tasks that they register. It returns the first failure at once as a [*HiddenError];
// the remaining tasks continue, and later calls do not include them. A task whose worker stops has failed. A session
// that does not exist has no tasks.
func (w Worker) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	var failed *HiddenError
	var ids []events.TaskID
	waiter, err := w.Subscribe(id, func(m bus.LiveMessage) bool { return m.AboutTasks })
	if err != nil {
		return fmt.Errorf("await hidden tasks: %w", err)
	}
	defer waiter.Close()
	err = waiter.Wait(ctx, 0, func(s *projector.State) (bool, error) {
		list := task.Hidden(s, hiddenParent(ctx))
		if len(list) == 0 {
			return true, nil
		}
		if list[0].Live() {
			return false, nil
		}
		failed = &HiddenError{Task: list[0].ID, Label: list[0].Label, Reason: list[0].Summary}
		for i := range list {
			ids = append(ids, list[i].ID)
		}
		return true, nil
	})
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil
	case err != nil && ctx.Err() == nil:
		return fmt.Errorf("await hidden tasks: %w", err)
	case err != nil || failed == nil:
		return err
	}
	err = w.decide(ctx, id, "await hidden tasks", func(s *projector.State) ([]events.Event, error) {
		return task.Detach(s, ids), nil
	})
	return errors.Join(failed, err)
}
