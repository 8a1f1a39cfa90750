package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/hint"
)

// RetryDeadLetter makes workers process a dead-lettered session again, and then deletes the dead letter. If the session still
// cannot be folded, workers store a new one. Errors: [events.ErrNoSession].
func (h *Host) RetryDeadLetter(ctx context.Context, letter *bus.DeadLetter) error {
	_, err := h.log.Last(ctx, letter.Session)
	if err == nil {
		err = h.b.DropTrials(ctx, letter.Session)
	}
	if err == nil {
		err = h.b.StoreWake(ctx, hint.FallbackKey(letter.Session), bus.WakeHint{})
	}
	if err == nil || errors.Is(err, events.ErrNoSession) {
		err = errors.Join(err, h.b.DropDeadLetter(ctx, letter))
	}
	if err != nil {
		return fmt.Errorf("retry session %s: %w", letter.Session, err)
	}
	return nil
}
