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

// Erased is the part of a row about the erasure of its session.
type Erased struct {
	At     events.Millis `json:"at"`
	By     string        `json:"by"`
	Reason string        `json:"reason"`
}

// isTombstone reports whether the row is a tombstone, which no projector replaces.
func (d *Directory) isTombstone() bool {
	return d.Status == projector.StatusErasing || d.Status == projector.StatusErased
}

// Erase removes everything of a session except its tombstone: the archive entry, which keeps its id in use, and the
// directory row. If end is not nil, the history must end at that sequence. Erasing again returns the first tombstone.
// Errors: [events.ErrNoSession], [events.ConflictError].
//
// The row is marked first if end is nil, otherwise after the history is sealed. After an error later than the mark,
// an archiver finishes the erasure.
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

// mark writes a tombstone into the directory. An existing tombstone of status erased stays.
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
