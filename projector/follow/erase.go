package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Erased is an erased session's part of its row.
type Erased struct {
	At     events.Millis `json:"at"`
	By     string        `json:"by"`
	Reason string        `json:"reason"`
}

// buried reports whether a row is a tombstone, which no projector replaces.
func (d *Directory) buried() bool {
	return d.Status == projector.StatusErasing || d.Status == projector.StatusErased
}

// Erase removes everything of a session but its tombstone: the entry among the
// archives, which keeps its id taken, and the row of the directory. Where end is
// not nil, the history must end at that sequence. An archiver finishes what an
// error interrupts after the row was written. The row is written first where end
// is nil, and else once the history ends for good. Erasing again returns the
// first tombstone. Errors: [events.ErrNoSession], [events.ConflictError].
func Erase(ctx context.Context, b *bus.Bus, session events.SessionID, end *events.Seq, t bus.Tombstone) (bus.Tombstone, error) {
	last, err := b.Log().Last(ctx, session)
	gone := errors.As(err, new(*events.ErasedError))
	if err != nil && !gone {
		return t, fmt.Errorf("erase: %w", err)
	}
	if end == nil && !gone {
		t.Last = last
		if err := mark(ctx, b, session, projector.StatusErasing, t); err != nil {
			return t, err
		}
	}
	if t, err = b.PutTombstone(ctx, session, end, t); err != nil {
		return t, err
	}
	if err = mark(ctx, b, session, projector.StatusErasing, t); err == nil {
		err = b.Purge(ctx, session)
	}
	if err == nil {
		err = mark(ctx, b, session, projector.StatusErased, t)
	}
	return t, err
}

// mark writes a tombstone into the directory. The first one's stays.
func mark(ctx context.Context, b *bus.Bus, session events.SessionID, status projector.Status, t bus.Tombstone) error {
	value, err := json.Marshal(Directory{
		Version: RowVersion, Session: session, Seq: t.Last, Status: status, UpdatedAt: t.At, Erased: &Erased{At: t.At, By: t.By, Reason: t.Reason},
	})
	if err != nil {
		return err
	}
	err = replace(ctx, b.Directory(), session, value, func(old []byte) bool {
		var have Directory
		return json.Unmarshal(old, &have) != nil || have.Status != projector.StatusErased
	})
	if err != nil {
		return fmt.Errorf("mark session %s %s: %w", session, status, err)
	}
	return nil
}
