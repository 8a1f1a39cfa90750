package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
)

// sweepKey begins the keys of such rows in the bucket of manifests: no plugin has such a name, and nodes of all versions may
// write the bucket.
const sweepKey = "=sweep-"

// SweepRow reads a row that the sweepers of unreferenced blobs share. Where there is none its revision is 0.
func (b *Bus) SweepRow(ctx context.Context, name string) (Row, error) {
	if err := events.CheckToken("row", name); err != nil {
		return Row{}, err
	}
	value, revision, err := b.fact(ctx, sweepKey+name)
	return Row{Value: value, Revision: revision}, err
}

// PutSweepRow replaces the row of a revision, 0 for none. [ErrStale]: another sweeper was first.
func (b *Bus) PutSweepRow(ctx context.Context, name string, value []byte, revision uint64) error {
	if err := events.CheckToken("row", name); err != nil {
		return err
	}
	_, err := b.Manifests().putStored(ctx, sweepKey+name, value, revision)
	if errors.Is(err, events.ErrMoved) {
		err = ErrStale
	}
	if err != nil {
		return fmt.Errorf("put the row %s of the sweep: %w", name, err)
	}
	return nil
}
