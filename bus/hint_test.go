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
)

// onceCold makes a session that was archived after three commits, and has five.
func onceCold(t *testing.T, b *bus.Bus, id events.SessionID) []string {
	t.Helper()
	want := say(t, b, id, nil, 3)
	mustGoColdAs(t, b, id, 3)
	return say(t, b, id, want, 5)
}

func mustGoColdAs(t *testing.T, b *bus.Bus, id events.SessionID, last int) {
	t.Helper()
	if err := goCold(t.Context(), b, id, events.Seq(last)); err != nil {
		t.Fatal(err)
	}
}

// endsAt wants that a bus finds the end of a session, and what comes from any sequence on.
func endsAt(t *testing.T, b *bus.Bus, id events.SessionID, want []string, when string) {
	t.Helper()
	for from := range len(want) + 2 { // the last look first: it leaves the hint as it is
		from = len(want) + 1 - from
		if got := said(t, b, id, events.Seq(from)); !slices.Equal(got, want[min(max(from-1, 0), len(want)):]) {
			t.Errorf("%s, from %d: got %v, want the rest of %v", when, from, got, want)
		}
	}
	if got, err := b.Log().Last(t.Context(), id); err != nil || got != events.Seq(len(want)) {
		t.Errorf("%s: got the end at %d, %v, want %d", when, got, err, len(want))
	}
}

// TestOldHints has others archive a session, bring it back, and die at each request of that. A bus that knew the
// session before finds the end at every step.
func TestOldHints(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b := bustest.Open(t, server)
	for name, work := range map[string]func(ctx context.Context, victim *bus.Bus, id events.SessionID) error{
		"archive": func(ctx context.Context, victim *bus.Bus, id events.SessionID) error {
			return goCold(ctx, victim, id, 5)
		},
		"append": func(ctx context.Context, victim *bus.Bus, id events.SessionID) error {
			return appendCold(ctx, victim, id)
		},
	} {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s_late_%t", name, late), func(t *testing.T) {
				t.Parallel()
				for k := 1; ; k++ {
					id := events.SessionID(fmt.Sprintf("%s-%t-%d", name, late, k))
					want := onceCold(t, b, id)
					knows := bustest.Open(t, server)
					endsAt(t, knows, id, want, "hot again")
					done := bustest.KilledAt(t, server, k, late, func(ctx context.Context, victim *bus.Bus) error { return work(ctx, victim, id) })
					last, err := b.Log().Last(t.Context(), id)
					if err != nil {
						t.Fatal(err)
					}
					if last == 6 { // what the victim appended
						want = append(want, fmt.Sprintf("6:%s", commit(id, 6).ID))
					}
					endsAt(t, knows, id, want, fmt.Sprintf("killed at request %d", k))
					want = say(t, b, id, want, 8)
					endsAt(t, knows, id, want, "later")
					mustGoColdAs(t, b, id, 8)
					endsAt(t, knows, id, want, "cold")
					knows.Close()
					if done {
						return
					}
				}
			})
		}
	}
}

// appendCold archives a session, and appends to it.
func appendCold(ctx context.Context, b *bus.Bus, id events.SessionID) error {
	err := goCold(ctx, b, id, 5)
	if err == nil {
		_, err = b.Log().Append(ctx, commit(id, 6), 5)
	}
	return err
}

// TestHintOfStreamMadeAgain has a stream that a hint names come back, empty, by one who slept, after the session went on in another.
func TestHintOfStreamMadeAgain(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, knows := bustest.Open(t, server), bustest.Open(t, server)
	want := say(t, b, "s", nil, 3)
	mustGoColdAs(t, b, "s", 3)
	name, err := b.HalfOpen(t.Context(), "s")
	if err == nil {
		err = name()
	}
	if err != nil {
		t.Fatal(err)
	}
	want = say(t, b, "s", want, 5)
	endsAt(t, knows, "s", want, "in the stream")
	mustGoColdAs(t, b, "s", 5)
	want = say(t, b, "s", want, 7)
	if _, err := b.HalfOpen(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	endsAt(t, knows, "s", want, "in another stream")
}

// TestHintOfErased finds a session erased of which it has a hint.
func TestHintOfErased(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t, busembed.Config{})
	b, knows := bustest.Open(t, server), bustest.Open(t, server)
	want := onceCold(t, b, "s")
	endsAt(t, knows, "s", want, "hot again")
	if _, err := b.Bury(t.Context(), "s", nil, bus.Tombstone{At: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := knows.Log().Last(t.Context(), "s"); !errors.As(err, new(*events.ErasedError)) {
		t.Errorf("got %v, want an erased error", err)
	}
}

// largeOnceCold makes a session whose entry among the archives has some hundred KiB.
func largeOnceCold(tb testing.TB, b *bus.Bus) (last events.Seq) {
	tb.Helper()
	const n = 40
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same text each time
	for i := range n + 1 {
		c := commit("s", i+1)
		text := make([]byte, 12<<10) // which does not compress away
		for j := range text {
			text[j] = byte(' ' + random.IntN(90))
		}
		c.Events = []events.Event{events.Of("", &events.SessionClosed{Reason: string(text)})}
		if i == n {
			if err := goCold(tb.Context(), b, "s", n); err != nil {
				tb.Fatal(err)
			}
		}
		if _, err := b.Log().Append(tb.Context(), c, events.Seq(i)); err != nil {
			tb.Fatal(err)
		}
	}
	return n + 1
}

// TestEndIsCheap looks at the end of a session that was cold: after the first look nothing of its archive comes to the bus.
func TestEndIsCheap(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	last := largeOnceCold(t, b)
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

// BenchmarkEnd looks at the end of a session that was never cold, and of one that was.
func BenchmarkEnd(b *testing.B) {
	on := bustest.Start(b)
	largeOnceCold(b, on)
	large(b, on, "never", 10, 100)
	for _, id := range []events.SessionID{"never", "s"} {
		b.Run(string(id), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := on.Log().Last(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
