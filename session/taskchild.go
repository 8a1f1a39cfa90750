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

// PassCancelOn applies the cancel of a task in the session that does the task's work. It cancels the session's running and
// waiting turns, and closes the session where the task's policy ends it with the task. The close ends the session's
// own tasks, and their children follow the same way. done is false while a turn still runs; then nothing is recorded,
// and the worker calls again. No command reaches a session that no node can fold: workers retry it as often as any
// session, and once it has a dead letter the task fails with that reason.
func (w Worker) PassCancelOn(ctx context.Context, id events.SessionID, t projector.Task) (done bool, err error) {
	why := ""
	done, err = w.Host.cancelChildSession(w.as(ctx), id, &t)
	if err != nil {
		why, err = w.Host.unreachable(ctx, t.Child, err)
		done = err == nil
	}
	if err != nil || !done {
		return false, err
	}
	return true, w.decide(ctx, id, string(t.ID), func(s *projector.State) ([]events.Event, error) {
		return task.PassedOn(s, t.ID, t.Seq, clipText(why)), nil
	})
}

// unreachable returns why no command reaches a child or parent session any more: it has a dead letter. Otherwise it
// returns the error, and workers find out whether the session can be folded.
func (h *Host) unreachable(ctx context.Context, id events.SessionID, err error) (why string, _ error) {
	if ctx.Err() != nil || events.OfServers(err) {
		return "", err
	}
	letter, none := h.b.DeadLetter(ctx, id)
	switch {
	case none == nil:
		return fmt.Sprintf("session %s cannot be read: %s", id, cmp.Or(letter.Error, "each try killed its worker")), nil
	case errors.Is(none, bus.ErrNotFound):
		return "", errors.Join(err, h.b.PublishWake(hint.FallbackKey(id), bus.WakeHint{Repair: true}))
	}
	return "", errors.Join(err, none)
}

func (h *Host) cancelChildSession(ctx context.Context, parent events.SessionID, t *projector.Task) (done bool, err error) {
	s, err := h.State(ctx, t.Child)
	switch {
	case errors.Is(err, events.ErrNoSession):
		return true, nil
	case err != nil:
		return false, err
	case s.Status == projector.StatusOpening:
		return false, nil // it becomes open, or the sweep closes it
	case s.Status != projector.StatusOpen || s.Parent == "": // only child sessions do the work of a task
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

// liveTurns are the running, waiting and scheduled turns of a session.
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
