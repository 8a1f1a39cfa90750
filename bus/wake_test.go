package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// fetchWait bounds a fetch of a wake that must arrive.
const fetchWait = time.Minute

func turnKey(id events.SessionID) bus.WakeKey {
	return bus.WakeKey{Class: bus.ClassTurn, Session: id}
}

// onEach runs a test on one server and on three. Each call of open is another connection.
func onEach(t *testing.T, test func(t *testing.T, open func() *bus.Bus)) {
	t.Helper()
	t.Run("one", func(t *testing.T) {
		t.Parallel()
		s := bustest.Server(t, busembed.Config{})
		test(t, func() *bus.Bus { return bustest.Open(t, s) })
	})
	t.Run("three", func(t *testing.T) {
		t.Parallel()
		c := bustest.StartCluster(t)
		test(t, func() *bus.Bus { return c.Open(t) })
	})
}

func joinQueue(t *testing.T, b *bus.Bus, class bus.Class) *bus.Queue {
	t.Helper()
	q, err := b.Queue(t.Context(), class)
	runtest.NoError(t, err)
	return q
}

func publish(t *testing.T, b *bus.Bus, key bus.WakeKey, hint bus.WakeHint) {
	t.Helper()
	runtest.NoError(t, b.PublishWake(key, hint))
}

// next is the next wake. A pull ends early while the consumer has no leader.
func next(t *testing.T, q *bus.Queue) *bus.Wake {
	t.Helper()
	var w *bus.Wake
	bustest.Eventually(t, "a wake", func() bool {
		w = fetchWithin(t, q, fetchWait)
		return w != nil
	})
	return w
}

// fetchWithin is a wake that arrives within a time; nil where none does, also where the server does not answer in
// that time.
func fetchWithin(t *testing.T, q *bus.Queue, wait time.Duration) (w *bus.Wake) {
	t.Helper()
	recreated, err := q.Fetch(t.Context(), 1, wait, func(got *bus.Wake) { w = got })
	if recreated || err != nil && !errors.Is(err, events.ErrOutcomeUnknown) {
		t.Fatalf("fetch: got recreated %v, %v", recreated, err)
	}
	return w
}

// confirm acks a wake and waits for the queue's confirmation.
func confirm(t *testing.T, b *bus.Bus, w *bus.Wake) {
	t.Helper()
	_, err := b.Conn().RequestWithContext(t.Context(), w.Handle(), []byte("+ACK"))
	runtest.NoError(t, err)
}

// flush returns when the queue has every wake that this bus published.
func flush(t *testing.T, b *bus.Bus) {
	t.Helper()
	_, err := jetStream(t, b).Publish(t.Context(), "lash.work.task.flush.flush", nil)
	runtest.NoError(t, err)
}

// awaitWakes waits until the queue has n wakes.
func awaitWakes(t *testing.T, b *bus.Bus, n int) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("%d wakes", n), func() bool {
		wakes, err := b.Wakes(t.Context())
		runtest.NoError(t, err)
		return len(wakes) == n
	})
}

// TestStoreWakeAndTimer: StoreWake and StoreTimer return when the message is stored, and fail where the stream is
// missing. A publish does not.
func TestStoreWakeAndTimer(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for range 100 {
		runtest.NoError(t, b.StoreWake(t.Context(), turnKey("s"), bus.WakeHint{}))
	}
	runtest.NoError(t, b.StoreTimer(t.Context(), "s", inMillis(1e9)))
	wakes, err := b.Wakes(t.Context())
	timers, timersErr := b.Timers(t.Context())
	if err := errors.Join(err, timersErr); err != nil || len(wakes) != 1 || len(timers) != 1 {
		t.Errorf("got the wakes %v and the timers %v, %v, want one of each", wakes, timers, err)
	}
	for _, stream := range []string{"lash-work", "lash-timers"} {
		runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), stream))
	}
	if err := b.StoreWake(t.Context(), turnKey("s"), bus.WakeHint{}); err == nil {
		t.Error("a wake in no queue: got no error")
	}
	if err := b.StoreTimer(t.Context(), "s", inMillis(1e9)); err == nil {
		t.Error("a timer in no store: got no error")
	}
	runtest.WantError(t, "hints", errors.Join(b.PublishWake(turnKey("s"), bus.WakeHint{}), b.SetTimer("s", inMillis(1e9))), nil)
}

func TestWakeReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func() *bus.Bus) {
		b := open()
		q := joinQueue(t, b, bus.ClassTurn)
		for i := range 100 {
			publish(t, b, turnKey("s"), bus.WakeHint{Worker: events.WorkerID(fmt.Sprintf("w%d", i)), Repair: i == 99})
		}
		flush(t, b)
		stream, err := jetStream(t, b).Stream(t.Context(), "lash-work")
		runtest.NoError(t, err)
		if n := stream.CachedInfo().State.Msgs; n != 2 {
			t.Errorf("messages: got %d, want the wake and the flush", n)
		}
		w := next(t, q)
		for strings.HasSuffix(t.Name(), "/three") && !w.Repair { // the consumer's leader may not have the newest yet
			runtest.WantError(t, "ack", w.Ack(), nil)
			w = next(t, q)
		}
		if w.WakeKey != turnKey("s") || w.WakeHint != (bus.WakeHint{Worker: "w99", Repair: true}) || w.Deliveries != 1 {
			t.Errorf("got %+v %+v, delivery %d, want the newest", w.WakeKey, w.WakeHint, w.Deliveries)
		}
		runtest.WantError(t, "ack", w.Ack(), nil)
		awaitWakes(t, b, 1)
	})
}

// TestWakeReplacesDelivered replaces a delivered wake: the ack of the replaced one, before and after the delivery of
// the new one, has no effect on the new one.
func TestWakeReplacesDelivered(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func() *bus.Bus) {
		b := open()
		q := joinQueue(t, b, bus.ClassTurn)
		publish(t, b, turnKey("s"), bus.WakeHint{Worker: "first"})
		first := next(t, q)
		publish(t, b, turnKey("s"), bus.WakeHint{Worker: "second"})
		flush(t, b)
		confirm(t, b, first)
		second := next(t, q)
		if second.Worker != "second" || second.Deliveries != 1 {
			t.Errorf("got %+v, delivery %d, want the second wake", second.WakeHint, second.Deliveries)
		}
		confirm(t, b, first)
		runtest.WantError(t, "progress", first.Progress(), nil)
		runtest.WantError(t, "nak", second.Nak(0), nil)
		if again := next(t, q); again.Worker != "second" || again.Deliveries != 2 {
			t.Errorf("got %+v, delivery %d, want the second wake again", again.WakeHint, again.Deliveries)
		}
	})
}

// TestWakeAfterAck publishes right after each confirmed ack: every wake is delivered.
func TestWakeAfterAck(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func() *bus.Bus) {
		b, other := open(), open()
		q := joinQueue(t, b, bus.ClassTurn)
		publish(t, other, turnKey("s"), bus.WakeHint{})
		for i := range 200 {
			w := next(t, q)
			if want := events.WorkerID(fmt.Sprint(i)); i > 0 && w.Worker != want {
				t.Fatalf("got the wake of round %s, want %s", w.Worker, want)
			}
			confirm(t, b, w)
			publish(t, other, turnKey("s"), bus.WakeHint{Worker: events.WorkerID(fmt.Sprint(i + 1))})
		}
	})
}

// TestLongWakeOfSilentWorker: a wake is redelivered after AckWait of silence, and not while its worker reports progress.
func TestLongWakeOfSilentWorker(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	for name, sign := range map[string]func(w *bus.Wake) error{
		"progress": (*bus.Wake).Progress,
		"hold":     func(w *bus.Wake) error { return w.Extend(t.Context()) },
	} {
		publish(t, b, turnKey("s"), bus.WakeHint{})
		w := next(t, q)
		w, signed := holdWake(t, q, w, 5, sign)
		before := w.Deliveries
		w = next(t, q)
		if silent := time.Since(signed); w.Deliveries != before+1 || silent < bus.AckWait*9/10 {
			t.Errorf("%s: got delivery %d after %v of silence, want the next after %v", name, w.Deliveries, silent, bus.AckWait)
		}
		confirm(t, b, w)
	}
}

// holdWake gives n signs of a wake in a row, each after a third of AckWait in which it is not delivered again. Where this process has
// no time for the next sign, the queue delivers the wake again, rightly: then that one is held. It returns what is held, and since when.
func holdWake(t *testing.T, q *bus.Queue, w *bus.Wake, n int, sign func(*bus.Wake) error) (last *bus.Wake, signed time.Time) {
	t.Helper()
	for held := 0; held < n; held++ {
		signed = time.Now()
		runtest.NoError(t, sign(w))
		again := fetchWithin(t, q, bus.AckWait/3)
		if again == nil {
			continue
		}
		if silent := time.Since(signed); silent < bus.AckWait*9/10 {
			t.Fatalf("got delivery %d of a wake that is held, %v after a sign", again.Deliveries, silent)
		}
		w, held = again, -1
	}
	return w, signed
}

// TestNak gives a wake back: the queue delivers it again after the delay, and not only after AckWait. A try in which this process had
// no time before AckWait shows nothing, and is repeated.
func TestNak(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	publish(t, b, turnKey("s"), bus.WakeHint{})
	w := next(t, q)
	for _, delay := range []time.Duration{0, -time.Second, time.Second} {
		bustest.Eventually(t, fmt.Sprintf("the delivery %v after it was given back", delay), func() bool {
			before, began := w.Deliveries, time.Now()
			runtest.NoError(t, w.Nak(delay))
			w = next(t, q)
			took := time.Since(began)
			if w.Deliveries != before+1 || took < delay*9/10 {
				t.Errorf("given back for %v: got delivery %d after %v", delay, w.Deliveries, took)
			}
			return took < delay+bus.AckWait*9/10
		})
	}
}

// TestExtendLostWake extends a wake that is gone: the queue answers as for any other.
func TestExtendLostWake(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	q := joinQueue(t, b, bus.ClassTurn)
	publish(t, b, turnKey("s"), bus.WakeHint{})
	w := next(t, q)
	confirm(t, b, w)
	runtest.WantError(t, "hold", w.Extend(t.Context()), nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	runtest.WantError(t, "hold, cancelled", w.Extend(ctx), events.ErrOutcomeUnknown)
}

// TestLongAdopt hands a wake to another connection, which extends it after the first is closed, and acks it.
func TestLongAdopt(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, open func() *bus.Bus) {
		first, second, third := open(), open(), open()
		publish(t, first, turnKey("s"), bus.WakeHint{})
		w := next(t, joinQueue(t, first, bus.ClassTurn))
		adopted, err := second.Adopt(w.WakeKey, w.Handle())
		runtest.NoError(t, err)
		first.Close()
		q := joinQueue(t, third, bus.ClassTurn)
		adopted, _ = holdWake(t, q, adopted, 6, func(w *bus.Wake) error { return w.Extend(t.Context()) })
		runtest.NoError(t, adopted.Ack())
		awaitWakes(t, third, 0)
	})
}

func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for name, handle := range map[string]string{
		"empty": "", "work": "lash.work.turn.s", "request": "$JS.API.STREAM.DELETE.lash-work", "inbox": "_INBOX.lash-work.turn.x",
		"stream": "$JS.ACK.lash-dirty.projector.1.1.1.1.0", "class": "$JS.ACK.lash-work.task.1.1.1.1.0",
	} {
		_, err := b.Adopt(turnKey("s"), handle)
		runtest.WantError(t, name, err, events.ErrInvalid)
	}
	w, err := b.Adopt(turnKey("s"), "$JS.ACK.lash-work.turn.1.1.1.1.0\r\nPUB lash.work.turn.s2 0\r\n\r\nPUB x")
	if err == nil {
		err = errors.Join(w.Ack(), b.Conn().Flush())
	}
	if wakes, listErr := b.Wakes(t.Context()); err == nil || listErr != nil || len(wakes) != 0 {
		t.Errorf("commands in a handle: got %v and the wakes %v, %v, want a refusal", err, wakes, listErr)
	}
}

func TestPublishWakeRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for _, key := range []bus.WakeKey{
		turnKey(""), turnKey("a.b"), turnKey(">"),
		{Class: bus.ClassTask, Session: "s"},
		{Class: bus.ClassTool, Session: "s", Task: "*"},
		{Class: bus.ClassTask, Session: "a b", Task: "k"},
	} {
		runtest.WantError(t, fmt.Sprintf("%+v", key), b.PublishWake(key, bus.WakeHint{}), events.ErrInvalidID)
	}
}
