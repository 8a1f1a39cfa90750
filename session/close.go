package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// CloseSession closes a session. The same commit ends its live tasks, except those whose [events.ClosePolicy] lets
// them continue. The commit also lists the tasks to transfer to the parent. This process transfers them; a worker
// does so where this process fails, see [Worker.Leave].
//
// A second close, or a close of a session that never existed, does nothing. A running or queued turn refuses the
// close with [api.ErrTurnRunning]. A turn that waits for its time ends as cancelled, in the same commit. One commit
// is always enough: [MostQueued], [task.MaxLive], [task.MaxMonitors] and the limit of the reason, 1000 bytes, bound its size.
func (h *Host) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	if err := events.CheckReason("reason", reason); err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err := h.decideByKey(ctx, id, requestContent{operation.CloseSession.Name, "close", &reason}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		switch {
		case s.Status == projector.StatusClosed:
			return nil, nil
		case !s.Idle():
			return nil, fmt.Errorf("close session %s: %w", id, check.Busy(s))
		}
		list := append(cancelScheduled(s), task.Close(s, "session closed")...)
		return append(list, events.Of("", &events.SessionClosed{Reason: reason})), check.Open(s)
	})
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil // a close of a session that does not exist succeeds
	case err == nil:
		h.stacks.Forget(id)
		h.leaveAll(ctx, id)
	}
	return err
}

// cancelScheduled ends the turns that wait for their time.
func cancelScheduled(s *projector.State) []events.Event {
	var list []events.Event
	for i := range s.Scheduled {
		list = append(list, events.Of(s.Scheduled[i].ID, &events.TurnCompleted{End: events.EndCancelled}))
	}
	return list
}

// CloseOpening closes a session whose creator stopped before it appended all initial nodes. A creator that continues
// later finds the session closed. A session with commits after the sequence at does not change.
func (w Worker) CloseOpening(ctx context.Context, id events.SessionID, at events.Seq, reason string) error {
	return w.decide(ctx, id, "expire", func(s *projector.State) ([]events.Event, error) {
		if s.Status != projector.StatusOpening || s.Seq != at {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.SessionClosed{Reason: reason})}, nil
	})
}
