package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// HiddenError is the failure of a hidden task that was awaited.
type HiddenError struct {
	Task   events.TaskID
	Label  string
	Reason string // as the history has it
}

// Error implements error.
func (e *HiddenError) Error() string { return fmt.Sprintf("hidden task %q: %s", e.Label, e.Reason) }

// hiddenKey marks the context of a hidden task's work.
type hiddenKey struct{}

// WithinHidden is the context of a hidden task's work: what it spawns is its own, and it awaits nothing else.
func WithinHidden(ctx context.Context, id events.TaskID) context.Context {
	return context.WithValue(ctx, hiddenKey{}, id)
}

func hiddenParent(ctx context.Context) events.TaskID {
	id, _ := ctx.Value(hiddenKey{}).(events.TaskID)
	return id
}

// HideTask registers a hidden task that a worker is about to run. More than [task.MaxHidden] of a
// session are an [api.LimitError]; the label has [events.MaxTaskText] bytes at most.
func (h *Host) HideTask(ctx context.Context, id events.SessionID, name events.TaskID, label string, worker events.WorkerID) (projector.Task, error) {
	return h.decideTask(ctx, id, stamp{actor: h.actor, cause: "hide task"}, name, func(s *projector.State) ([]events.Event, error) {
		if err := open(s); err != nil {
			return nil, err
		}
		return task.Hide(s, name, hiddenParent(ctx), label, worker)
	})
}

// hiddenLook is how often an await reads the state by itself: a live message may be lost.
const hiddenLook = 2 * time.Second

// AwaitHiddenTasks waits until the session has no hidden task that runs, on whichever
// node, in the order of their spawns, and for those that they spawn. The first failure is returned
// at once as a [*HiddenError]; the rest of the tasks go on, and are not awaited any more. One whose
// worker dies has failed. A session that there is none of has none.
func (h *Host) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	changed := make(chan struct{}, 1)
	stop, err := h.b.OnCommit(id, func(m bus.LiveMessage) {
		if m.AboutTasks {
			select {
			case changed <- struct{}{}:
			default: // a look is due already
			}
		}
	})
	if err != nil {
		return fmt.Errorf("await hidden tasks: %w", err)
	}
	defer stop()
	look := time.NewTicker(hiddenLook)
	defer look.Stop()
	for {
		s, err := h.State(ctx, id)
		if errors.Is(err, events.ErrNoSession) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("await hidden tasks: %w", err)
		}
		list := task.Hidden(s, hiddenParent(ctx))
		if len(list) == 0 {
			return nil
		}
		if !list[0].Live() {
			return h.detach(ctx, id, list)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-look.C:
		}
	}
}

// detach ends an await whose first task has failed.
func (h *Host) detach(ctx context.Context, id events.SessionID, list []*projector.Task) error {
	ids := make([]events.TaskID, len(list))
	for i := range list {
		ids[i] = list[i].ID
	}
	failed := &HiddenError{Task: list[0].ID, Label: list[0].Label, Reason: list[0].Summary}
	err := h.decide(ctx, id, "await hidden tasks", func(s *projector.State) ([]events.Event, error) {
		return task.Detach(s, ids), nil
	})
	return errors.Join(failed, err)
}
