package session

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// Leave transfers a task of a closed session to the session in which it continues, its parent. t is its record, where
// [projector.Task.LeavePending] is true. Any number of processes may call it at the same time, and again. The task is
// cancelled in its closed session if the parent is gone, closed or full, has another task with its id, refuses the
// record as invalid or too large, or has a dead letter. After any other error the transfer is still pending.
//
//	closed session                           its parent
//	session.closed, task.leaving
//	                                         task.registered, from the closed session
//	task.transferred, or task.stayed
//
// The guard of each append decides which of two concurrent events comes first. An existing copy is not registered again.
func (w Worker) Leave(ctx context.Context, id events.SessionID, t projector.Task) error {
	ctx = api.WithoutCaller(w.as(ctx)) // on behalf of the session itself: its caller may not reach the parent
	m := transferParams{meta: w.Host.ownMeta(ctx, leaving), finishEarlier: true, checkCapacity: true}
	var err error
	for moved := false; !moved && err == nil; {
		moved, err = w.Host.transfer(ctx, id, t.Leaves, []events.TaskID{t.ID}, m)
	}
	if err == nil {
		return nil
	}
	code, class := api.Code(err)
	switch {
	case class == api.ClassStorage: // a worker tries again
		return fmt.Errorf("transfer task %s of the closed session %s: %w", t.ID, id, err)
	case class == api.ClassNotFound, class == api.ClassInvalid, class == api.ClassTooLarge, class == api.ClassBusy:
	case errors.Is(err, api.ErrClosed), errors.Is(err, api.ErrTaskRunning):
	default:
		if _, err := w.Host.unreachable(ctx, t.Leaves, err); err != nil {
			return fmt.Errorf("transfer task %s of the closed session %s: %w", t.ID, id, err)
		}
	}
	return w.decide(ctx, id, leaving, func(s *projector.State) ([]events.Event, error) {
		return task.Stay(s, t.ID, t.Seq, "session closed, and its parent does not take the task: "+code), nil
	})
}

// leaving is the cause of the commits that transfer tasks of closed sessions.
const leaving = "leave closed session"

// leaveAll is Leave for all tasks with a pending transfer in the state of this process; a worker retries the failed
// ones.
func (h *Host) leaveAll(ctx context.Context, id events.SessionID) {
	s, err := h.states.Lock(ctx, id)
	if err != nil {
		return
	}
	var pending []projector.Task
	for i := 0; s.State != nil && i < len(s.State.Tasks); i++ {
		if t := s.State.Tasks[i]; t.LeavePending() {
			pending = append(pending, t)
		}
	}
	s.Unlock()
	for _, t := range pending {
		if err := h.Worker().Leave(ctx, id, t); err != nil {
			h.logger.Warn("tasks of a closed session are left to workers", zap.String("session", string(id)), zap.Error(err))
			return
		}
	}
}
