package follow

import (
	"context"
	"time"

	"github.com/lash-go/lash/bus"
)

// WholeOf is [Whole] with another log and other blobs.
var WholeOf = whole

// ReferWithin sets how much older than the commit that refers to it a body is at most.
func (s *BlobSweeper) ReferWithin(d time.Duration) { s.within = d }

// Most bounds the suspects of each row.
func (s *BlobSweeper) Most(n int) { s.most = n }

// SuspectRows is the number of rows of suspects.
const SuspectRows = suspectRows

// SweepDueAt is SweepDue at another time of the servers.
func (s *BlobSweeper) SweepDueAt(ctx context.Context, now time.Time) (swept bool, err error) {
	return s.sweepDue(ctx, now, s.b.Now())
}

// PackIndexOf is [PackIndex] with packs of other sizes.
func PackIndexOf(ctx context.Context, b *bus.Bus, from, gap, full int) error {
	return packIndex(ctx, b, packSizes{from: from, gap: gap, full: full})
}
