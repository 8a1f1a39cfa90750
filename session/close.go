package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// CloseSession ends a session and, in the same commit, its live tasks whose policy
// is not to go on: [events.ClosePolicy]. That commit also says which are to become the parent's: this process transfers
// them, or a worker where it cannot, see [Host.Leave]. A second
// close does nothing, nor does that of a session which never was; a turn that
// runs or waits in the queue refuses it with [api.ErrTurnRunning]; one that waits for
// its time ends as cancelled, in the same commit. That is one commit whatever the session holds: [MostQueued],
// [task.MaxLive], [task.MaxMonitors] and [check.MaxReasonBytes] see to it.
func (h *Host) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	if err := check.Reason("reason", reason); err != nil {
		return fmt.Errorf("close session %s: %w", id, err)
	}
	ctx, asked := api.TakeAsked(ctx)
	err := h.decideAsked(ctx, id, command{operation.Close.Name, "close", &reason}, asked, func(s *projector.State) ([]events.Event, error) {
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
		return nil // host specification 2.4
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

// CloseOpening closes a session whose creator died before it had appended all
// initial nodes. A creator that goes on after all finds its session closed.
// One that moved since the sequence is left as it is.
func (h *Host) CloseOpening(ctx context.Context, id events.SessionID, at events.Seq, reason string) error {
	return h.decide(ctx, id, "expire", func(s *projector.State) ([]events.Event, error) {
		if s.Status != projector.StatusOpening || s.Seq != at {
			return nil, nil
		}
		return []events.Event{events.Of("", &events.SessionClosed{Reason: reason})}, nil
	})
}
