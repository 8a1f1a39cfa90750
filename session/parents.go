package session

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/check"
)

// checkParents refuses a parent that has the session above it, and one that has too many.
func (h *Host) checkParents(ctx context.Context, id, parent events.SessionID) error {
	above := check.Lineage{id}
	for parent != "" {
		if err := above.Add(parent); err != nil {
			return err
		}
		next, err := h.parentOf(ctx, parent)
		if errors.Is(err, events.ErrNoSession) {
			return nil // a parent elsewhere, or erased
		}
		if err != nil {
			return err
		}
		parent = next
	}
	return nil
}

// parentOf never changes while a session lives, so any state of it will do.
func (h *Host) parentOf(ctx context.Context, id events.SessionID) (events.SessionID, error) {
	s, err := h.states.Lock(ctx, id)
	if err != nil {
		return "", err
	}
	defer s.Unlock()
	if err := s.Load(ctx, false); err != nil {
		return "", err
	}
	return s.State.Parent, nil
}
