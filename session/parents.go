package session

import (
	"context"
	"errors"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/internal/check"
)

// checkParents refuses a parent that is a descendant of the session, and one with too many ancestors.
func (h *Host) checkParents(ctx context.Context, id, parent events.SessionID) error {
	above := check.Lineage{id}
	for parent != "" {
		if err := above.Add(parent); err != nil {
			return err
		}
		next, err := h.parentOf(ctx, parent)
		if errors.Is(err, events.ErrNoSession) {
			return nil // the parent is not in this deployment, or was erased
		}
		if err != nil {
			return err
		}
		parent = next
	}
	return nil
}

// parentOf reads any cached state: a session's parent never changes.
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
