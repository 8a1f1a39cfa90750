package follow

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// Snapshot is a session's snapshot as it is stored, unchecked.
type Snapshot struct {
	Seq    events.Seq
	Digest string // recorded, of the head
	Head   []byte // see [projector.Restore]
}

// Stored reads a session's newest snapshot without using it; nil when there
// is none. It is for those who check the row against the history.
// Errors: [events.ErrMalformed], and [bus.ErrNotFound] where the head's blob is gone.
func Stored(ctx context.Context, b *bus.Bus, session events.SessionID) (*Snapshot, error) {
	stored, err := b.Snapshots().Get(ctx, session)
	if err != nil || stored.Revision == 0 {
		return nil, err
	}
	var r row
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
