package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// MaxParents is how many sessions may be above one, each the parent of the one below.
const MaxParents = 64

// checkParents refuses a parent that has the session above it, and one that has too many.
func (h *Host) checkParents(ctx context.Context, id, parent events.SessionID) error {
	above := lineage{id}
	for parent != "" {
		if err := above.add(parent); err != nil {
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

// lineage is a session and those above it, the nearest first.
type lineage []events.SessionID

// add takes the next one up.
func (l *lineage) add(id events.SessionID) error {
	for _, below := range *l {
		if below == id {
			return &events.FieldError{Field: "parent", Reason: fmt.Sprintf("session %s would be above itself", id), Err: events.ErrInvalid}
		}
	}
	if len(*l) > MaxParents {
		return &events.FieldError{Field: "parent", Reason: fmt.Sprintf("has more than %d sessions above it", MaxParents), Err: events.ErrInvalid}
	}
	*l = append(*l, id)
	return nil
}
