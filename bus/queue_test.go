package bus_test

import (
	"context"
	"errors"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/internal/runtest"
)

// TestWakes lists the keys that have a wake, delivered or not. A deleted queue is created again, and the list is
// empty.
func TestWakes(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	keys := []bus.WakeKey{
		turnKey("s1"), turnKey("s2"), {Class: bus.ClassTask, Session: "s1", Task: "k"}, {Class: bus.ClassTool, Session: "s1", Task: "k"},
	}
	publish(t, b, keys[0], bus.WakeHint{})
	inFlight := next(t, q)
	for _, key := range keys[1:] {
		publish(t, b, key, bus.WakeHint{})
	}
	awaitWakes(t, b, len(keys))
	wakes, err := b.Wakes(t.Context())
	for _, key := range keys {
		if err != nil || !wakes[key] {
			t.Errorf("got %v, %v, want %+v among them", wakes, err, key)
		}
	}
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-work"))
	if wakes, err := b.Wakes(t.Context()); err != nil || len(wakes) != 0 {
		t.Errorf("deleted: got %v, %v, want none", wakes, err)
	}
	publish(t, b, inFlight.WakeKey, bus.WakeHint{})
	awaitWakes(t, b, 1)
}

// TestFetchMakesQueueAgain deletes the queue, and its consumer, before and during a fetch.
func TestFetchMakesQueueAgain(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(ctx context.Context, b *bus.Bus) error{
		"stream": func(ctx context.Context, b *bus.Bus) error { return jetStream(t, b).DeleteStream(ctx, "lash-work") },
		"consumer": func(ctx context.Context, b *bus.Bus) error {
			return jetStream(t, b).DeleteConsumer(ctx, "lash-work", string(bus.ClassTurn))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := bustest.Start(t)
			q := joinQueue(t, b, bus.ClassTurn)
			runtest.NoError(t, remove(t.Context(), b))
			if recreated, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {}); !recreated || err != nil {
				t.Errorf("fetch after: got recreated %v, %v", recreated, err)
			}
			publish(t, b, turnKey("s1"), bus.WakeHint{})
			confirm(t, b, next(t, q))
			done := make(chan error, 1)
			go func() {
				recreated, err := q.Fetch(t.Context(), 1, fetchWait, func(*bus.Wake) {})
				if err == nil && !recreated {
					err = errors.New("it did not say so")
				}
				done <- err
			}()
			for waiting := false; !waiting; { // until the server has the pull
				c, err := jetStream(t, b).Consumer(t.Context(), "lash-work", string(bus.ClassTurn))
				runtest.NoError(t, err)
				waiting = c.CachedInfo().NumWaiting > 0
			}
			runtest.NoError(t, remove(t.Context(), b))
			runtest.WantError(t, "fetch during", bustest.Receive(t, "a delivery", done), nil)
			publish(t, b, turnKey("s2"), bus.WakeHint{})
			if w := next(t, q); w.Session != "s2" {
				t.Errorf("got %s, want s2", w.Session)
			}
		})
	}
}

// TestFetchStops: wakes that arrive while the worker stops are returned to the queue, and another worker gets them
// before the delivered one is redelivered. A wake that the server has already sent arrives later, so several workers
// stop.
func TestFetchStops(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	for range 10 {
		publish(t, b, turnKey("s1"), bus.WakeHint{})
		publish(t, b, turnKey("s2"), bus.WakeHint{})
		if stopsWithNak(t, q) {
			return
		}
		confirm(t, b, next(t, q))
	}
	t.Error("got none of 10 wakes back before those that were taken")
}

// stopsWithNak has a worker stop with the first of two wakes. It reports whether the second is delivered next, and
// acks both.
func stopsWithNak(t *testing.T, q *bus.Queue) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var taken []*bus.Wake
	_, err := q.Fetch(ctx, 2, fetchWait, func(w *bus.Wake) {
		taken = append(taken, w)
		cancel()
	})
	if !errors.Is(err, context.Canceled) || len(taken) != 1 {
		t.Fatalf("took %v, %v, want one and %v", taken, err, context.Canceled)
	}
	w := next(t, q)
	runtest.WantError(t, "join", errors.Join(taken[0].Ack(), w.Ack()), nil)
	return w.Session != taken[0].Session
}
