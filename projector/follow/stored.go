package follow

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Snapshot is a session's stored snapshot, unchecked.
type Snapshot struct {
	Seq    events.Seq
	Digest string // recorded digest of the head
	Head   []byte // see [projector.Restore]
}

// Stored reads a session's newest snapshot, or nil, for checks against the history.
// Errors: [events.ErrMalformed], and [bus.ErrNotFound] if the head's blob is lost.
func Stored(ctx context.Context, b *bus.Bus, session events.SessionID) (*Snapshot, error) {
	stored, err := b.Snapshots().Get(ctx, session)
	if err != nil || stored.Revision == 0 {
		return nil, err
	}
	var r snapshotRow
	if err := events.DecodePayload(stored.Value, &r); err != nil {
		return nil, fmt.Errorf("snapshot of %s: %w", session, err)
	}
	s := &Snapshot{Seq: r.Seq, Digest: r.Digest, Head: r.Head}
	if !r.Blob.IsZero() {
		if s.Head, err = b.Blob(ctx, r.Blob); err != nil {
			return nil, fmt.Errorf("snapshot of %s: %w", session, err)
		}
	}
	return s, nil
}

// StoredCatalog reads a session's tool catalogue as a projector wrote it last; zero without one.
func StoredCatalog(ctx context.Context, b *bus.Bus, session events.SessionID) (c projector.Catalog, err error) {
	row, err := b.Catalogs().Get(ctx, session)
	if err != nil || len(row.Value) == 0 {
		return c, err
	}
	if err = events.DecodePayload(row.Value, &c); err != nil {
		err = fmt.Errorf("catalogue of %s: %w", session, err)
	}
	return c, err
}
