package bus_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// awaitSubscriptions returns when the server has the bus's subscriptions.
func awaitSubscriptions(t *testing.T, b *bus.Bus) {
	t.Helper()
	runtest.NoError(t, b.Conn().Flush())
}

func TestRequestWorker(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	for _, id := range []events.WorkerID{"w1", "w2"} {
		stop, err := b.ServeWorker(id, func(question []byte) []byte { return append([]byte(string(id)+" "), question...) })
		runtest.NoError(t, err)
		defer stop()
	}
	awaitSubscriptions(t, b)
	for _, id := range []events.WorkerID{"w1", "w2"} {
		if got, err := other.RequestWorker(t.Context(), id, []byte("why")); err != nil || string(got) != string(id)+" why" {
			t.Errorf("%s: got %q, %v", id, got, err)
		}
	}
	if _, err := other.RequestWorker(t.Context(), "w3", nil); !errors.Is(err, bus.ErrNoResponder) { // a timeout is another error
		t.Errorf("no listener: got %v, want %v", err, bus.ErrNoResponder)
	}
	for _, id := range []events.WorkerID{"", "*", "w1.x"} {
		if _, err := other.RequestWorker(t.Context(), id, nil); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("request %q: got %v, want %v", id, err, events.ErrInvalidID)
		}
		if err := other.Notify(id, "s"); !errors.Is(err, events.ErrInvalidID) {
			t.Errorf("notify %q: got %v, want %v", id, err, events.ErrInvalidID)
		}
	}
}

// TestRequestSlowWorker: a request ends with its ctx.
func TestRequestSlowWorker(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	released := make(chan struct{})
	stop, err := b.ServeWorker("w1", func([]byte) []byte {
		cancel()
		<-released
		return nil
	})
	runtest.NoError(t, err)
	defer stop()
	defer close(released)
	awaitSubscriptions(t, b)
	if _, err := other.RequestWorker(ctx, "w1", nil); !errors.Is(err, events.ErrOutcomeUnknown) || errors.Is(err, bus.ErrNoResponder) {
		t.Errorf("got %v, want %v", err, events.ErrOutcomeUnknown)
	}
}

func TestNotified(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	got := make(chan events.SessionID, 4)
	stop, err := b.OnNotify("w1", func(id events.SessionID) { got <- id })
	runtest.NoError(t, err)
	defer stop()
	awaitSubscriptions(t, b)
	for _, notice := range []struct {
		worker  events.WorkerID
		session events.SessionID
	}{{"w2", "of-another"}, {"w1", "s1"}, {"w1", "s2"}} {
		runtest.NoError(t, other.Notify(notice.worker, notice.session))
	}
	for _, want := range []events.SessionID{"s1", "s2"} {
		runtest.Equal(t, "delivery", bustest.Receive(t, "a delivery", got), want)
	}
}

// TestWorkerGone distinguishes a worker that has ended from one that does not respond.
func TestWorkerGone(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, frozen, other := bustest.Open(t, s), bustest.Open(t, s), bustest.Open(t, s)
	_, err := b.OnNotify("w1", func(events.SessionID) {})
	runtest.NoError(t, err)
	blocked, released := make(chan struct{}), make(chan struct{})
	_, err = frozen.OnNotify("w2", func(events.SessionID) {
		close(blocked)
		<-released
	})
	runtest.NoError(t, err)
	defer close(released)
	awaitSubscriptions(t, b)
	awaitSubscriptions(t, frozen)
	runtest.NoError(t, other.Notify("w2", "s"))
	bustest.Receive(t, "a delivery", blocked)
	for worker, want := range map[events.WorkerID]bool{"w1": false, "w2": false, "w3": true} {
		if got := other.WorkerGone(t.Context(), worker); got != want {
			t.Errorf("%s: got gone %v, want %v", worker, got, want)
		}
	}
	b.Close()
	bustest.Eventually(t, "the server notices the end of the connection", func() bool { return other.WorkerGone(t.Context(), "w1") })
}

func TestAnnounced(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	got := make(chan events.WorkerID, 8)
	stop, err := b.OnAnnounce(func(id events.WorkerID) { got <- id })
	runtest.NoError(t, err)
	defer stop()
	awaitSubscriptions(t, b)
	for _, id := range []events.WorkerID{"w1", "", "a.b", "w 3", "w2"} {
		runtest.NoError(t, other.Announce(id))
	}
	if list := []events.WorkerID{bustest.Receive(t, "a delivery", got), bustest.Receive(t, "a delivery", got)}; !slices.Equal(list, []events.WorkerID{"w1", "w2"}) {
		t.Errorf("got %v, want what are ids of workers", list)
	}
}
