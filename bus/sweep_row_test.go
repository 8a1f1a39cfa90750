package bus_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestSweepRow replaces a row by its revision, and refuses names that are no tokens.
func TestSweepRow(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	if row, err := b.SweepRow(t.Context(), "x"); err != nil || row.Revision != 0 {
		t.Errorf("no row: got revision %d, %v, want 0", row.Revision, err)
	}
	runtest.NoError(t, b.PutSweepRow(t.Context(), "x", []byte("one"), 0))
	row, err := b.SweepRow(t.Context(), "x")
	if err != nil || string(row.Value) != "one" {
		t.Fatalf("row: got %q, %v, want one", row.Value, err)
	}
	runtest.NoError(t, b.PutSweepRow(t.Context(), "x", []byte("two"), row.Revision))
	for _, old := range []uint64{0, row.Revision} {
		runtest.WantError(t, fmt.Sprintf("put at revision %d", old), b.PutSweepRow(t.Context(), "x", []byte("late"), old), bus.ErrStale)
	}
	if row, err = b.SweepRow(t.Context(), "x"); err != nil || string(row.Value) != "two" {
		t.Errorf("row: got %q, %v, want two", row.Value, err)
	}
	_, err = b.SweepRow(t.Context(), "a.b")
	for _, err := range []error{err, b.PutSweepRow(t.Context(), "", nil, 0)} {
		runtest.WantError(t, "name", err, events.ErrInvalidID)
	}
}

// TestBlobsWhileDropped lists blobs while all of them are removed. Each list ends.
func TestBlobsWhileDropped(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for round := range 5 {
		for i := range 30 {
			_, err := b.PutBlob(t.Context(), fmt.Appendf(nil, "body %d of %d", i, round))
			runtest.NoError(t, err)
		}
		list, err := b.Blobs(t.Context())
		if err != nil || len(list) != 30 {
			t.Fatalf("blobs: got %d, %v, want 30", len(list), err)
		}
		var wait sync.WaitGroup
		wait.Go(func() {
			for _, blob := range list {
				runtest.WantError(t, "drop", b.DropBlob(t.Context(), blob), nil)
			}
		})
		for range 10 {
			_, err = b.Blobs(t.Context())
			runtest.WantError(t, "list", err, nil)
		}
		wait.Wait()
	}
}

// TestStorageID is the same for another bus, and another one for a body that was stored again.
func TestStorageID(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	one, other := bustest.Open(t, server), bustest.Open(t, server)
	_, err := one.PutBlob(t.Context(), []byte("text"))
	runtest.NoError(t, err)
	id := func(b *bus.Bus) (id bus.StorageID, at time.Time) {
		t.Helper()
		list, err := b.Blobs(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("blobs: got %v, %v, want one", list, err)
		}
		return list[0].ID(), list[0].StoredAt()
	}
	first, at := id(one)
	if again, _ := id(other); again != first {
		t.Errorf("of another bus: got %x, want %x", again, first)
	}
	if now := one.Now(); at.After(now.Add(time.Minute)) || now.Sub(at) > time.Hour {
		t.Errorf("stored at: got %v, want the server's time, which is about %v", at, now)
	}
	list, err := one.Blobs(t.Context())
	if err == nil {
		err = one.DropBlob(t.Context(), list[0])
	}
	if err == nil {
		_, err = one.PutBlob(t.Context(), []byte("text"))
	}
	runtest.NoError(t, err)
	if again, _ := id(one); again == first {
		t.Errorf("stored again: got the same id %x", again)
	}
}
