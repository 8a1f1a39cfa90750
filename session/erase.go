package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/check"
)

// Erase removes everything of a session, whatever runs in it, but a tombstone
// in the directory, which it returns: when, who, why, and how long the history
// was. The id stays taken. What an error interrupts, a node finishes. Erasing
// again returns the first tombstone. Sessions that began as its copies, or as its
// children, stay. The reason has [check.MaxReasonBytes] at most. Errors: [events.ErrNoSession].
func (h *Host) Erase(ctx context.Context, id events.SessionID, reason string) (bus.Tombstone, error) {
	if err := check.Reason("reason", reason); err != nil {
		return bus.Tombstone{}, fmt.Errorf("erase session %s: %w", id, err)
	}
	t, err := follow.Erase(ctx, h.b, id, nil, bus.Tombstone{
		At: events.Millis(time.Now().UnixMilli()), By: h.actor.ID, Reason: reason,
	})
	if err != nil {
		return t, err
	}
	h.stacks.Forget(id)
	h.states.Remove(id)
	return t, nil
}
