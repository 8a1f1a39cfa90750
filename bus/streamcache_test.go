package bus_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// reopened makes a session that was archived after three commits, and has five.
func reopened(t *testing.T, b *bus.Bus, id events.SessionID) []string {
	t.Helper()
	want := appendUpTo(t, b, id, nil, 3)
	mustMakeCold(t, b, id, 3)
	return appendUpTo(t, b, id, want, 5)
}

// wantEnd requires that a bus finds the end of a session, and its commits from any sequence on.
func wantEnd(t *testing.T, b *bus.Bus, id events.SessionID, want []string, when string) {
	t.Helper()
	for from := range len(want) + 2 { // from the end on first, which leaves the hint as it is
		from = len(want) + 1 - from
		if got := history(t, b, id, events.Seq(from)); !slices.Equal(got, want[min(max(from-1, 0), len(want)):]) {
			t.Errorf("%s, from %d: got %v, want the rest of %v", when, from, got, want)
		}
	}
	if got, err := b.Log().Last(t.Context(), id); err != nil || got != events.Seq(len(want)) {
		t.Errorf("%s: got the end at %d, %v, want %d", when, got, err, len(want))
	}
}

// TestLongOldHints has another process archive a session and make it hot again, and die at each request. A bus with a
// hint of the session finds the end at every step.
func TestLongOldHints(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for name, work := range map[string]func(ctx context.Context, victim *bus.Bus, id events.SessionID) error{
		"archive": func(ctx context.Context, victim *bus.Bus, id events.SessionID) error {
			return makeCold(ctx, victim, id, 5)
		},
		"append": func(ctx context.Context, victim *bus.Bus, id events.SessionID) error {
			return appendCold(ctx, victim, id)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for k := 1; ; k++ {
				id := events.SessionID(fmt.Sprintf("%s-%d", name, k))
				want := reopened(t, b, id)
				knows := bustest.Open(t, server)
				wantEnd(t, knows, id, want, "hot again")
				done := bustest.KilledAt(t, server, k, false, func(ctx context.Context, victim *bus.Bus) error { return work(ctx, victim, id) })
				last, err := b.Log().Last(t.Context(), id)
				runtest.NoError(t, err)
				if last == 6 { // the victim's append was stored
					want = append(want, fmt.Sprintf("6:%s", commit(id, 6).ID))
				}
				wantEnd(t, knows, id, want, fmt.Sprintf("killed at request %d", k))
				want = appendUpTo(t, b, id, want, 8)
				wantEnd(t, knows, id, want, "later")
				mustMakeCold(t, b, id, 8)
				wantEnd(t, knows, id, want, "cold")
				knows.Close()
				if done {
					return
				}
			}
		})
	}
}

// appendCold archives a session, and appends to it.
func appendCold(ctx context.Context, b *bus.Bus, id events.SessionID) error {
	err := makeCold(ctx, b, id, 5)
	if err == nil {
		_, err = b.Log().Append(ctx, commit(id, 6), 5)
	}
	return err
}

// TestHintOfStreamMadeAgain has a paused process make a stream again that a hint names, empty, after the session
// continued in another.
func TestHintOfStreamMadeAgain(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, knows := bustest.Open(t, server), bustest.Open(t, server)
	want := appendUpTo(t, b, "s", nil, 3)
	mustMakeCold(t, b, "s", 3)
	name, err := b.PausedOpening(t.Context(), "s")
	if err == nil {
		err = name()
	}
	runtest.NoError(t, err)
	want = appendUpTo(t, b, "s", want, 5)
	wantEnd(t, knows, "s", want, "in the stream")
	mustMakeCold(t, b, "s", 5)
	want = appendUpTo(t, b, "s", want, 7)
	_, err = b.PausedOpening(t.Context(), "s")
	runtest.NoError(t, err)
	wantEnd(t, knows, "s", want, "in another stream")
}

// TestHintOfErased finds that a session with a hint is erased.
func TestHintOfErased(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, knows := bustest.Open(t, server), bustest.Open(t, server)
	want := reopened(t, b, "s")
	wantEnd(t, knows, "s", want, "hot again")
	_, err := b.PutTombstone(t.Context(), "s", nil, bus.Tombstone{At: 1}, nil)
	runtest.NoError(t, err)
	if _, err := knows.Log().Last(t.Context(), "s"); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("got %v, want an erased error", err)
	}
}

// largeReopened makes a session with an archive entry of some hundred KiB.
func largeReopened(tb testing.TB, b *bus.Bus) (last events.Seq) {
	tb.Helper()
	const n = 40
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same text in each run
	for i := range n + 1 {
		c := commit("s", i+1)
		text := make([]byte, 12<<10) // incompressible
		for j := range text {
			text[j] = byte(' ' + random.IntN(90))
		}
		c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: string(text)})}
		if i == n {
			runtest.NoError(tb, makeCold(tb.Context(), b, "s", n))
		}
		_, err := b.Log().Append(tb.Context(), c, events.Seq(i))
		runtest.NoError(tb, err)
	}
	return n + 1
}

// TestEndIsCheap reads the end of a session that was cold: after the first read the bus receives nothing of its
// archive.
func TestEndIsCheap(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	last := largeReopened(t, b)
	look := func() uint64 {
		before := b.Conn().Stats().InBytes
		if got, err := b.Log().Last(t.Context(), "s"); err != nil || got != last {
			t.Fatalf("got %d, %v, want %d", got, err, last)
		}
		for _, err := range b.Log().Read(t.Context(), "s", last+1) {
			t.Fatalf("got a commit after the end, %v", err)
		}
		return b.Conn().Stats().InBytes - before
	}
	look()
	if got := look(); got > 8<<10 {
		t.Errorf("got %d bytes, want at most 8 KiB", got)
	}
}

// BenchmarkEnd reads the end of a session that was never cold, and of one that was.
func BenchmarkEnd(b *testing.B) {
	on := bustest.Start(b)
	largeReopened(b, on)
	appendLarge(b, on, "never", 10, 100)
	for _, id := range []events.SessionID{"never", "s"} {
		b.Run(string(id), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, err := on.Log().Last(b.Context(), id)
				runtest.NoError(b, err)
			}
		})
	}
}
