package follow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/index"
)

// rewind removes what rows have of commits that the session's history does not have: an older history replaced it. Rows
// never replace newer ones, so these would stay, and a snapshot would be wrong once the history is as long again.
func rewind(ctx context.Context, b *bus.Bus, s *projector.State) error {
	errs := []error{rewindDirectory(ctx, b, s)}
	for _, rows := range b.Projections() {
		_, err := rows.Update(ctx, s.Session, func(have bus.Row) ([]byte, error) {
			if have.Revision == 0 || !isNewer(b, rows, have.Value, s) {
				return nil, nil
			}
			return []byte{}, nil // an empty row is made again
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// isNewer reports whether a row of a table has commits after a state's.
func isNewer(b *bus.Bus, rows bus.Rows, value []byte, s *projector.State) bool {
	switch rows {
	case b.Snapshots():
		var have snapshotRow
		return events.DecodePayload(value, &have) == nil && have.Seq > s.Seq
	case b.Catalogs():
		var have projector.Catalog
		return events.DecodePayload(value, &have) == nil && have.Generation > s.Catalog.Generation
	}
	have, err := index.Decode(value) // the only other one
	return err == nil && have.Seq > s.Seq
}

// rewindIfEnded is [rewind] where the history still ends at s. Otherwise another projector wrote the newer row.
func rewindIfEnded(ctx context.Context, b *bus.Bus, s *projector.State) error {
	last, err := b.Log().Last(ctx, s.Session)
	if err != nil || last != s.Seq {
		return err
	}
	return rewind(ctx, b, s)
}

func rewindDirectory(ctx context.Context, b *bus.Bus, s *projector.State) error {
	value, err := json.Marshal(RowOf(s))
	if err != nil {
		return fmt.Errorf("row of %s: %w", s.Session, err)
	}
	return replace(ctx, b.Directory(), s.Session, value, func(old []byte) bool {
		var have Directory
		return json.Unmarshal(old, &have) == nil && !have.isTombstone() && have.Seq > s.Seq
	})
}
