package follow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

func TestProject(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 3, 2)
	mustProject(t, b, "s")
	rows(t, b, "s")
	want := follow.Directory{
		Session: "s", DirectorySeq: bus.DirectorySeq{Seq: 3}, Status: projector.StatusOpen, Place: "hot", Parent: "parent", Labels: map[string]string{"a": "b"},
		Events: 8, CreatedAt: 1001, UpdatedAt: 1003,
	}
	for e, err := range b.Log().Read(t.Context(), "s", 1) {
		runtest.NoError(t, err)
		want.Stored += int64(len(e.Data))
	}
	if got := directory(t, b, "s"); text(t, got) != text(t, want) {
		t.Errorf("directory: got %+v, want %+v", got, want)
	}
	running := commit("s", 4, 0)
	running.Events = []events.Event{
		events.Of("t1", &events.TurnRequested{}), events.Of("t2", &events.TurnRequested{}), events.Of("t1", &events.TurnStarted{Attempt: 1, Worker: "w"}),
	}
	_, err := b.Log().Append(t.Context(), running, 3)
	runtest.NoError(t, err)
	mustProject(t, b, "s")
	rows(t, b, "s")
	if got := directory(t, b, "s"); got.Running != "t1" || got.Queued != 1 || got.Turns != 1 {
		t.Errorf("directory: got running %q, %d queued, %d turns, want t1, 1, 1", got.Running, got.Queued, got.Turns)
	}
}

// TestUnchangedRows writes nothing without a change, with and without a cached state.
func TestUnchangedRows(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	grow(t, b, "s", 0, 40, 2)
	mustProject(t, b, "s")
	revisions := func() (list [3]uint64) {
		t.Helper()
		for i, table := range []bus.Rows{b.Directory(), b.Catalogs(), b.Snapshots()} {
			row, err := table.Get(t.Context(), "s")
			if err != nil || row.Revision == 0 {
				t.Fatalf("row %d: got %+v, %v", i, row, err)
			}
			list[i] = row.Revision
		}
		return list
	}
	before := revisions()
	p := follow.NewProjector(b, nil)
	for range 3 {
		runtest.NoError(t, p.Project(t.Context(), "s"))
		runtest.Equal(t, "revisions", revisions(), before)
	}
	grow(t, b, "s", 40, 42, 1) // a short tail: the directory changes, the others do not
	mustProject(t, b, "s")
	if got := revisions(); got[0] == before[0] || got[1] != before[1] || got[2] != before[2] {
		t.Errorf("revisions after a short tail: got %v, before %v", got, before)
	}
	rows(t, b, "s")
}

// watch reports every sequence of a table's row, until it is n.
func watch(t *testing.T, b *bus.Bus, bucket string, seqOf func([]byte) events.Seq, n events.Seq) (wait func()) {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	kv, err := js.KeyValue(t.Context(), bucket)
	runtest.NoError(t, err)
	w, err := kv.Watch(t.Context(), "s")
	runtest.NoError(t, err)
	var done sync.WaitGroup
	done.Go(func() {
		defer w.Stop() //nolint:errcheck // the test ends with it
		last := events.Seq(0)
		for entry := range w.Updates() {
			if entry == nil {
				continue // the end of the existing rows
			}
			seq := seqOf(entry.Value())
			if seq < last {
				t.Errorf("%s: got sequence %d after %d", bucket, seq, last)
			}
			if last = seq; seq == n {
				return
			}
		}
	})
	return done.Wait
}

func seqOfRow(value []byte) events.Seq {
	var d follow.Directory
	_ = json.Unmarshal(value, &d)
	return d.Seq
}

func generationOfRow(value []byte) events.Seq {
	var c projector.Catalog
	_ = events.DecodePayload(value, &c)
	return events.Seq(c.Generation)
}

// TestManyProjectors: several projectors of one moving session never write an older row.
func TestManyProjectors(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	const n = 120
	grow(t, b, "s", 0, 1, 1)
	rowWatch := watch(t, b, "lash-sessions", seqOfRow, n)
	moved := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		mine := bustest.Open(t, server)
		all.Go(func() {
			p := follow.NewProjector(mine, nil)
			for going := true; going; {
				select {
				case <-moved:
					going = false // one more run for the end
				default:
				}
				if err := p.Project(t.Context(), "s"); err != nil {
					t.Errorf("projector %d: %v", i, err)
					return
				}
			}
		})
	}
	grow(t, b, "s", 1, n, 3)
	close(moved)
	all.Wait()
	rowWatch()
	rows(t, b, "s")
	same(t, b, "s")
	if stored, err := follow.Stored(t.Context(), b, "s"); err != nil || stored == nil || stored.Seq < n-33 {
		t.Errorf("snapshot: got %+v, %v, want one near %d", stored, err, n)
	}
}

// TestRun handles marks until it is stopped.
func TestRun(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for range 2 {
		mine := bustest.Open(t, server)
		running.Go(func() {
			runtest.WantError(t, "run", follow.NewProjector(mine, nil).Run(ctx), nil)
		})
	}
	arrived := watch(t, b, "lash-sessions", seqOfRow, 40)
	catalogued := watch(t, b, "lash-catalog", generationOfRow, 1)
	for i := range 5 {
		grow(t, b, events.SessionID(fmt.Sprintf("other%d", i)), 0, 1, 1)
		runtest.NoError(t, b.MarkDirty(events.SessionID(fmt.Sprintf("other%d", i))))
	}
	runtest.NoError(t, b.MarkDirty("never-was"))
	grow(t, b, "s", 0, 40, 2)
	runtest.NoError(t, b.MarkDirty("s"))
	arrived()
	catalogued()
	cancel()
	running.Wait()
	rows(t, b, "s")
	same(t, b, "s")
}

// TestLongSweep finds sessions with lost marks.
func TestLongSweep(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	grow(t, b, "s", 0, 3, 2) // without a mark
	ctx, cancel := context.WithCancel(t.Context())
	arrived := watch(t, b, "lash-sessions", seqOfRow, 3)
	catalogued := watch(t, b, "lash-catalog", generationOfRow, 1)
	var running sync.WaitGroup
	running.Go(func() {
		runtest.WantError(t, "run", follow.NewProjector(bustest.Open(t, server), nil).Run(ctx), nil)
	})
	arrived()
	catalogued()
	cancel()
	running.Wait()
	rows(t, b, "s")
}
