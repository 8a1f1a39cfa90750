package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/task"
)

// PassOn does in the session that does a cancelled task's work what the cancel asks for: its turns are
// cancelled, those that wait too, and the session is closed where the task's policy is to end with its own.
// That ends its tasks, whose children are likewise told. done is false while a turn still runs, and
// then nothing is recorded: the worker asks again. A session that no node can fold cannot be told: workers try it, as
// often as any, and once it has its dead letter the task has failed with that reason.
func (h *Host) PassOn(ctx context.Context, id events.SessionID, t projector.Task) (done bool, err error) {
	why := ""
	done, err = h.stopChild(ctx, id, &t)
	if err != nil {
		why, err = h.unreachable(ctx, t.Child, err)
		done = err == nil
	}
	if err != nil || !done {
		return false, err
	}
	return true, h.decide(ctx, id, string(t.ID), func(s *projector.State) ([]events.Event, error) {
		return task.PassedOn(s, t.ID, t.Seq, clipText(why)), nil
	})
}

// unreachable says why no command reaches a session, a task's child or parent, any more: it has a dead letter. Else the
// error stays, and workers find out whether the session can be folded.
func (h *Host) unreachable(ctx context.Context, id events.SessionID, err error) (why string, _ error) {
	if ctx.Err() != nil || errors.Is(err, events.ErrOutcomeUnknown) {
		return "", err
	}
	letter, none := h.b.DeadLetter(ctx, id)
	switch {
	case none == nil:
		return fmt.Sprintf("session %s cannot be read: %s", id, cmp.Or(letter.Error, "each try killed its worker")), nil
	case errors.Is(none, bus.ErrNotFound):
		return "", errors.Join(err, h.b.PublishWake(hint.TurnKey(id), bus.WakeHint{Repair: true}))
	}
	return "", errors.Join(err, none)
}

func (h *Host) stopChild(ctx context.Context, parent events.SessionID, t *projector.Task) (done bool, err error) {
	s, err := h.State(ctx, t.Child)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return true, nil
	case err != nil:
		return false, err
	case s.Status == projector.StatusOpening:
		return false, nil // it becomes open, or its creator has died and the sweep closes it
	case s.Status != projector.StatusOpen || s.Parent == "": // a session that is no child's is no task's either
		return true, nil
	}
	reason := fmt.Sprintf("task %s of session %s was cancelled", t.ID, parent)
	for _, turn := range liveTurns(s) {
		_, _, err := h.Cancel(ctx, t.Child, turn, api.CancelRequest{ID: events.DerivedID("task-", string(parent), string(t.ID)), Reason: reason})
		if err != nil && !errors.Is(err, api.ErrUnknownTurn) {
			return false, err
		}
	}
	switch {
	case !s.Idle():
		return false, nil
	case t.Close != events.CloseCancel:
		return true, nil
	}
	err = h.CloseSession(ctx, t.Child, reason)
	if errors.Is(err, api.ErrTurnRunning) {
		return false, nil
	}
	return err == nil, err
}

// liveTurns are the turns of a session that run or wait, also for their time.
func liveTurns(s *projector.State) (ids []events.TurnID) {
	if t := s.Turn(); t != nil {
		ids = append(ids, t.ID)
	}
	for i := range s.Queue {
		ids = append(ids, s.Queue[i].ID)
	}
	for i := range s.Scheduled {
		ids = append(ids, s.Scheduled[i].ID)
	}
	return ids
}
