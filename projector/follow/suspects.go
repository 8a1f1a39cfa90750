package follow

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

const (
	// sweepBlobsEvery is the time between the end of a sweep for unreferenced blobs and the begin of the next one, by any node. A sweep reads
	// every history.
	sweepBlobsEvery = 12 * time.Hour
	// blobGrace is the time for which a blob must be unreferenced before it is removed. It is longer than the time
	// between storing a blob and the commit that refers to it.
	blobGrace = 12 * time.Hour
	// claimFor is how long the other nodes leave a sweep to the node that claimed it. Where the sweep takes longer, two nodes sweep, which
	// costs reads only.
	claimFor = 2 * time.Hour
	// suspectRows is the number of rows that have the suspects.
	suspectRows = 8
	// maxSuspects is the number of suspects of a row, 640 KB of the 1 MiB of a message. Further ones wait for a later sweep.
	maxSuspects = 40_000
)

// scheduleRow is the name of the row with the last sweep.
const scheduleRow = "schedule"

// sweepSchedule is the last sweep, by the servers' clock.
type sweepSchedule struct {
	Began events.Millis `msgpack:"b"` // 0: never
	Ended events.Millis `msgpack:"e"` // 0: never
}

// isDue reports whether a sweep must begin. Times ahead are those of a clock that was wrong.
func (s sweepSchedule) isDue(now time.Time) bool {
	within := func(at events.Millis, limit time.Duration) bool {
		passed := now.Sub(at.Time())
		return at != 0 && passed >= 0 && passed < limit
	}
	return !within(s.Ended, sweepBlobsEvery) && !within(s.Began, claimFor)
}

// SweepDue sweeps if that is due, and no other node claimed it. It reports whether it swept.
func (s *BlobSweeper) SweepDue(ctx context.Context) (swept bool, err error) {
	now := s.b.Now()
	return s.sweepDue(ctx, now, now)
}

// sweepDue is SweepDue with the time of the servers when now was read.
func (s *BlobSweeper) sweepDue(ctx context.Context, now, began time.Time) (swept bool, err error) {
	last, revision, err := s.schedule(ctx)
	if err != nil || !last.isDue(now) {
		return false, err
	}
	last.Began = events.Millis(now.UnixMilli())
	err = s.putSchedule(ctx, last, revision)
	if errors.Is(err, bus.ErrStale) {
		return false, nil // another node claimed it
	}
	if err != nil {
		return false, err
	}
	_, err = s.sweep(ctx, now, began)
	return true, err
}

// schedule reads the last sweep. A damaged row is replaced.
func (s *BlobSweeper) schedule(ctx context.Context) (last sweepSchedule, revision uint64, err error) {
	row, err := s.b.SweepRow(ctx, scheduleRow)
	if err == nil && row.Revision != 0 && events.DecodePayload(row.Value, &last) != nil {
		last = sweepSchedule{}
	}
	return last, row.Revision, err
}

func (s *BlobSweeper) putSchedule(ctx context.Context, last sweepSchedule, revision uint64) error {
	value, err := events.EncodePayload(&last)
	if err != nil {
		return err
	}
	return s.b.PutSweepRow(ctx, scheduleRow, value, revision)
}

// putEnd stores the end of a sweep. Where another node claimed a sweep meanwhile, the claim stays.
func (s *BlobSweeper) putEnd(ctx context.Context, end time.Time) error {
	const tries = 3
	for try := 1; ; try++ {
		last, revision, err := s.schedule(ctx)
		if err != nil {
			return err
		}
		last.Ended = events.Millis(end.UnixMilli())
		if err = s.putSchedule(ctx, last, revision); !errors.Is(err, bus.ErrStale) || try == tries {
			return err
		}
	}
}

// suspectGroup are suspects that were found at the same time.
type suspectGroup struct {
	Since events.Millis `msgpack:"t"` // end of the first sweep without a reference
	IDs   []byte        `msgpack:"i"` // of [bus.StorageID], one after the other
}

// storedSuspects is the stored form of a row of suspects.
type storedSuspects struct {
	Groups []suspectGroup `msgpack:"g"` // the oldest first
}

// suspects is a row of suspects as it was read.
type suspects struct {
	name     string
	revision uint64
	value    []byte
	since    map[bus.StorageID]events.Millis
}

func (s *BlobSweeper) readSuspects(ctx context.Context, now time.Time) (rows [suspectRows]suspects, err error) {
	for i := range rows {
		name := fmt.Sprintf("suspects-%d", i)
		row, err := s.b.SweepRow(ctx, name)
		if err != nil {
			return rows, err
		}
		rows[i] = suspects{name: name, revision: row.Revision, value: row.Value, since: decodeSuspects(row.Value, now)}
	}
	return rows, nil
}

// decodeSuspects has no suspects for a damaged row. A time ahead is that of a clock that was wrong.
func decodeSuspects(value []byte, now time.Time) map[bus.StorageID]events.Millis {
	since := make(map[bus.StorageID]events.Millis)
	var stored storedSuspects
	if len(value) == 0 || events.DecodePayload(value, &stored) != nil {
		return since
	}
	for _, group := range stored.Groups {
		for id := range slices.Chunk(group.IDs, len(bus.StorageID{})) {
			if len(id) == len(bus.StorageID{}) {
				since[bus.StorageID(id)] = min(group.Since, events.Millis(now.UnixMilli()))
			}
		}
	}
	return since
}

// suspect is a blob without a reference.
type suspect struct {
	blob  bus.StoredBlob
	id    bus.StorageID
	since events.Millis
}

func bySinceAndID(a, b suspect) int {
	return cmp.Or(cmp.Compare(a.since, b.since), bytes.Compare(a.id[:], b.id[:]))
}

// sweepRow stores the suspects of a row, and then removes those whose grace has ended. A row that another sweeper stored meanwhile stays, and so
// do its blobs. What a sweeper that dies has not removed is still in the row.
func (s *BlobSweeper) sweepRow(ctx context.Context, row *suspects, found []bus.StoredBlob, now, end time.Time) (removed int, err error) {
	list := make([]suspect, 0, len(found))
	for _, blob := range found {
		id := blob.ID()
		since, known := row.since[id]
		if !known {
			since = events.Millis(end.UnixMilli())
		}
		list = append(list, suspect{blob, id, since})
	}
	slices.SortFunc(list, bySinceAndID)
	list = list[:min(len(list), s.most)]
	isOver := func(x suspect) bool {
		_, known := row.since[x.id]
		return known && now.Sub(x.since.Time()) >= blobGrace
	}
	value, err := encodeSuspects(list)
	if err != nil {
		return 0, err
	}
	if unchanged := bytes.Equal(value, row.value); !unchanged || slices.ContainsFunc(list, isOver) {
		if err := s.b.PutSweepRow(ctx, row.name, value, row.revision); err != nil {
			return 0, err
		}
	}
	for _, x := range list {
		if !isOver(x) {
			continue
		}
		if err := s.b.DropBlob(ctx, x.blob); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// encodeSuspects encodes a sorted list; nil for an empty one.
func encodeSuspects(list []suspect) ([]byte, error) {
	if len(list) == 0 {
		return nil, nil
	}
	var stored storedSuspects
	for _, x := range list {
		if n := len(stored.Groups); n == 0 || stored.Groups[n-1].Since != x.since {
			stored.Groups = append(stored.Groups, suspectGroup{Since: x.since})
		}
		last := &stored.Groups[len(stored.Groups)-1]
		last.IDs = append(last.IDs, x.id[:]...)
	}
	return events.EncodePayload(&stored)
}
