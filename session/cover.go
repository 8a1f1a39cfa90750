package session

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Cover puts a command in the queue that asks for nothing: the worker that
// takes it goes on with what the session owes and no other command covers. A
// session that owes nothing is left as it is. The same key is the same command.
func (h *Host) Cover(ctx context.Context, id events.SessionID, key string) error {
	return enqueue(ctx, h.b, id, events.TurnID("cover-"+key), Command{Actor: h.actor.ID, Cover: true})
}

// CoverTasks puts the jobs of the session's live tasks in the queue, where those that are there already are as good.
func (h *Host) CoverTasks(ctx context.Context, id events.SessionID) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	var errs []error
	for i := range s.Tasks {
		errs = append(errs, h.enqueueTask(ctx, id, &s.Tasks[i]))
	}
	return errors.Join(errs...)
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
