package session

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector/follow"
)

// Erase removes all data of a session, also while turns run in it. Only a tombstone in the directory remains, which
// Erase returns: time, actor, reason and the length of the history, and the same with its root and its last head, signed
// by [Config.Signer]. The id cannot be used again. A node finishes an
// erase that an error interrupts. A second Erase returns the first tombstone. Copies and children of the session
// remain. The reason has at most 1000 bytes. Errors: [events.ErrNoSession].
func (h *Host) Erase(ctx context.Context, id events.SessionID, reason string) (bus.Tombstone, error) {
	if err := events.CheckReason("reason", reason); err != nil {
		return bus.Tombstone{}, fmt.Errorf("erase session %s: %w", id, err)
	}
	if child, err := h.State(ctx, id); err == nil { // one that cannot be folded is erased too
		if err := h.answerErased(ctx, child); err != nil {
			return bus.Tombstone{}, fmt.Errorf("erase session %s: %w", id, err)
		}
	}
	t, err := follow.Erase(ctx, h.b, id, nil, bus.Tombstone{
		At: h.b.Millis(), By: h.actor.ID, Reason: reason,
	}, h.cfg.Signer)
	if err != nil {
		return t, err
	}
	if t.Note == "" && h.cfg.Signer != nil {
		h.logger.Warn("the tombstone is not signed: the certificate of the node's key is not valid, or another program wrote it", zap.String("session", string(id)))
	}
	return t, nil
}
