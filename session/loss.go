package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
)

// AcceptLoss lets a session continue without commits that were lost with its stream, and returns which ones. The history records who
// accepted the loss, and why: [events.SessionLossAccepted]. Nodes may run: they drop what they have in memory of the lost commits. The
// reason has 1 to 1000 bytes. Errors: [bus.ErrNotFound] where no commit is lost that the session's row shows, [bus.ErrErasing];
// [events.ErrInvalid] where no commit is left to continue after: [Host.Erase].
func (h *Host) AcceptLoss(ctx context.Context, id events.SessionID, reason string) (*bus.CutOffError, error) {
	err := events.CheckReason("reason", reason)
	if reason == "" {
		err = &events.FieldError{Field: "reason", Reason: "is empty", Err: events.ErrInvalid}
	}
	if err != nil {
		return nil, fmt.Errorf("accept the loss of session %s: %w", id, err)
	}
	filtered, err := blob.Spill(ctx, h.blobs, &events.SessionLossAccepted{Reason: reason})
	if err != nil {
		return nil, fmt.Errorf("accept the loss of session %s: %w", id, err)
	}
	p := *filtered.(*events.SessionLossAccepted) //nolint:forcetypeassert // a payload keeps its type
	p.By = h.actor.ID
	lost, err := h.b.AcceptLoss(ctx, id, func(lost *bus.CutOffError) *events.Commit {
		p.After, p.UpTo = lost.Last, lost.Known
		return &events.Commit{
			ID: events.CommitID(ulid.Make().String()), Session: id, At: h.b.Millis(), Actor: h.actor, Salt: NewSalt(),
			Events: []events.Event{events.Of("", &p)},
		}
	})
	if err != nil {
		return lost, err
	}
	letter, err := h.b.DeadLetter(ctx, id)
	if err == nil {
		err = h.RetryDeadLetter(ctx, &letter)
	}
	if err != nil && !errors.Is(err, bus.ErrNotFound) {
		return lost, fmt.Errorf("retry the dead letter of session %s: %w", id, err)
	}
	return lost, nil
}
