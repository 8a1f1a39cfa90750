package follow_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector/follow"
)

func hours(n int) time.Time { return time.Unix(0, 0).Add(time.Duration(n) * time.Hour) }

// storeAgain stores the body of a blob that is older than an hour, as a writer does before it refers to it.
func storeAgain(t *testing.T, b *bus.Bus, ref events.BlobRef) {
	t.Helper()
	if bustest.Encrypted() {
		t.Skip("the name of an encrypted body is not its digest")
	}
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	store, err := js.ObjectStore(t.Context(), "lash-blobs")
	runtest.NoError(t, err)
	body, err := b.Blob(t.Context(), ref)
	if err == nil {
		_, err = store.PutBytes(t.Context(), ref.Digest, body)
	}
	runtest.NoError(t, err)
}

func wantBlob(t *testing.T, b *bus.Bus, what string, ref events.BlobRef, gone bool) {
	t.Helper()
	_, err := b.Blob(t.Context(), ref)
	if errors.Is(err, bus.ErrNotFound) != gone || err != nil && !gone {
		t.Errorf("%s: got %v, want gone %t", what, err, gone)
	}
}

// TestSweepAfterRestart has a new process on another connection make each sweep. A body without a reference in two of them, far enough
// apart, is removed. A body that got a reference between them stays, and so does one that was stored again.
func TestSweepAfterRestart(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	lost, kept, soon, again, later := put(t, b, "lost"), put(t, b, "kept"), put(t, b, "soon"), put(t, b, "again"), put(t, b, "later")
	refer(t, b, "s", 1, kept)
	sweepOnce := func(at, want int) {
		t.Helper()
		sweep(t, follow.NewBlobSweeper(bustest.Open(t, server)), time.Duration(at)*time.Hour, want)
	}
	sweepOnce(0, 0)
	refer(t, b, "s", 2, soon)
	storeAgain(t, b, again)
	storeAgain(t, b, later)
	sweepOnce(11, 0)
	sweepOnce(13, 1)
	wantBlob(t, b, "without a reference", lost, true)
	wantBlob(t, b, "stored again", again, false)
	refer(t, b, "s", 3, later)
	sweepOnce(22, 0)
	sweepOnce(24, 1)
	sweepOnce(99, 0)
	wantBlob(t, b, "stored again, and then without a reference", again, true)
	wantBlob(t, b, "stored again, and then with a reference", later, false)
	wantBlob(t, b, "with a reference between the sweeps", soon, false)
	wantBlob(t, b, "with a reference", kept, false)
	same(t, b, "s")
}

// TestSweepReferenceEndsSuspicion has a body without a reference, with one, and without one: its time begins again.
func TestSweepReferenceEndsSuspicion(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	ref := put(t, b, "text")
	one, other := follow.NewBlobSweeper(b), follow.NewBlobSweeper(b)
	sweep(t, one, 0, 0)
	refer(t, b, "s", 1, ref)
	sweep(t, other, 11*time.Hour, 0)
	_, err := follow.Erase(t.Context(), b, "s", nil, stone("s"), nil)
	runtest.NoError(t, err)
	sweep(t, one, 22*time.Hour, 0)
	sweep(t, other, 33*time.Hour, 0)
	wantBlob(t, b, "for 11 hours without a reference", ref, false)
	sweep(t, one, 35*time.Hour, 1)
	wantBlob(t, b, "for 13 hours without a reference", ref, true)
}

// TestSweepersAtOnce has several nodes sweep at the same times. They remove what nothing refers to, and no other body.
func TestSweepersAtOnce(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	kept := put(t, b, "kept")
	refer(t, b, "s", 1, kept)
	var lost []events.BlobRef
	for i := range 20 {
		lost = append(lost, put(t, b, fmt.Sprint("lost ", i)))
	}
	for round := range 4 {
		var wait sync.WaitGroup
		for range 3 {
			s := follow.NewBlobSweeper(bustest.Open(t, server))
			wait.Go(func() {
				if _, err := s.Sweep(t.Context(), hours(13*round)); err != nil && !errors.Is(err, bus.ErrStale) {
					t.Errorf("sweep %d: %v", round, err)
				}
			})
		}
		wait.Wait()
		if round == 0 {
			wantBlob(t, b, "after the first sweeps", lost[0], false)
		}
	}
	for i, ref := range lost {
		wantBlob(t, b, fmt.Sprint("lost ", i), ref, true)
	}
	wantBlob(t, b, "kept", kept, false)
}

// TestLongSweepKilledAnywhere kills the first or the second sweep before each of its requests. Later sweeps remove what nothing
// refers to, never before its time, and no other body.
func TestLongSweepKilledAnywhere(t *testing.T) {
	t.Parallel()
	for _, second := range []bool{false, true} {
		t.Run(fmt.Sprint("second_", second), func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t, busembed.Config{})
			b := bustest.Open(t, server)
			kept := put(t, b, "kept")
			refer(t, b, "s", 1, kept)
			early, at := 0, 0
			for k, done := 1, false; !done; k++ {
				lost := put(t, b, fmt.Sprint("lost ", k))
				at += 100
				if second {
					if _, err := follow.NewBlobSweeper(b).Sweep(t.Context(), hours(at)); err != nil { // may remove chunks that a killed one left
						t.Fatal(err)
					}
					wantBlob(t, b, "before its time", lost, false)
					at += 13
				}
				done = bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error {
					_, err := follow.NewBlobSweeper(victim).Sweep(ctx, hours(at))
					return err
				})
				if !second {
					wantBlob(t, b, "before its time", lost, false)
				}
				early += sweepUntilGone(t, b, &at, lost)
				wantBlob(t, b, "kept", kept, false)
				if done && k < 10 {
					t.Errorf("a sweep took %d requests, want more", k-1)
				}
			}
			if early < 2 {
				t.Errorf("got %d sweeps that continued what a killed one had stored, want more", early)
			}
		})
	}
}

// sweepUntilGone sweeps every 13 hours until a body is removed, at most twice. It returns 1 if one sweep was enough.
func sweepUntilGone(t *testing.T, b *bus.Bus, at *int, lost events.BlobRef) int {
	t.Helper()
	for n := range 2 {
		*at += 13
		_, err := follow.NewBlobSweeper(b).Sweep(t.Context(), hours(*at))
		runtest.NoError(t, err)
		if _, err := b.Blob(t.Context(), lost); errors.Is(err, bus.ErrNotFound) {
			return 1 - n
		}
	}
	t.Error("a body that nothing refers to is there after two sweeps")
	return 0
}

// TestSuspectsAreBounded has more suspects than the rows take. Each sweep removes at most as many as these, and later ones the others.
func TestSuspectsAreBounded(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	const bodies = 40
	for i := range bodies {
		put(t, b, fmt.Sprint("lost ", i))
	}
	total := 0
	for at := 0; total < bodies; at += 13 {
		s := follow.NewBlobSweeper(b)
		s.Most(2)
		removed, err := s.Sweep(t.Context(), hours(at))
		if err != nil || removed > 2*follow.SuspectRows || at > 13*2*bodies {
			t.Fatalf("sweep at %d h: got %d removed, %v, want at most %d, and an end", at, removed, err, 2*follow.SuspectRows)
		}
		total += removed
	}
	if left, err := b.Blobs(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("left: got %d, %v, want none", len(left), err)
	}
}

// TestSweepDue has nodes that start at any time ask for a sweep. One of them sweeps every 12 hours. After the death of one in its sweep
// another follows, two hours later. Nothing is written between the sweeps, and two rows by a sweep that finds nothing.
func TestSweepDue(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	due := func(at int, want bool) {
		t.Helper()
		before := written(t, b)
		swept, err := follow.NewBlobSweeper(bustest.Open(t, server)).SweepDueAt(t.Context(), hours(at))
		if err != nil || swept != want {
			t.Errorf("at %d h: got swept %t, %v, want %t", at, swept, err, want)
		}
		writes := uint64(0)
		if want {
			writes = 2
		}
		if got := written(t, b) - before; got != writes {
			t.Errorf("at %d h: got %d writes, want %d", at, got, writes)
		}
	}
	due(100, true)
	due(100, false)
	due(111, false)
	due(113, true)
	due(114, false)
	finished := bustest.KilledAt(t, server, 8, false, func(ctx context.Context, victim *bus.Bus) error {
		_, err := follow.NewBlobSweeper(victim).SweepDueAt(ctx, hours(126))
		return err
	})
	if finished {
		t.Fatal("the sweep ended before it was killed")
	}
	due(127, false)
	due(129, true)
	due(140, false)
	due(142, true)
	due(5, true) // the clock was wrong before
}

// written is the number of messages that the bucket with the rows of sweeps ever took.
func written(t *testing.T, b *bus.Bus) uint64 {
	t.Helper()
	js, err := jetstream.New(b.Conn())
	runtest.NoError(t, err)
	stream, err := js.Stream(t.Context(), "KV_lash-plugins")
	runtest.NoError(t, err)
	return stream.CachedInfo().State.LastSeq
}
