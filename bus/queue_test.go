package bus_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// fetchWait bounds a fetch whose job must come.
const fetchWait = 20 * time.Second

func workers(t *testing.T, b *bus.Bus) *bus.Work {
	t.Helper()
	w, err := b.Work(t.Context(), bus.ClassTurn)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// next is the next job.
func next(t *testing.T, w *bus.Work) *bus.Job {
	t.Helper()
	var job *bus.Job
	if err := w.Fetch(t.Context(), 1, fetchWait, func(j *bus.Job) { job = j }); err != nil || job == nil {
		t.Fatalf("fetch: got job %v, error %v, want a job", job, err)
	}
	return job
}

func TestQueue(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := workers(t, b)
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", []byte("body")); err != nil {
		t.Fatal(err)
	}
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", []byte("other")); !errors.Is(err, bus.ErrQueued) {
		t.Errorf("second enqueue: got %v, want %v", err, bus.ErrQueued)
	}
	if body, err := b.Queued(t.Context(), bus.ClassTurn, "s1", "t1"); err != nil || string(body) != "body" {
		t.Errorf("queued: got %q, %v, want body", body, err)
	}
	if _, err := b.Queued(t.Context(), bus.ClassTurn, "s1", "t2"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("another that is queued: got %v, want %v", err, bus.ErrNotFound)
	}
	j := next(t, w)
	if j.Session != "s1" || j.ID != "t1" || string(j.Body) != "body" || j.Deliveries != 1 {
		t.Errorf("job: got %s %s %q delivery %d, want s1 t1 body 1", j.Session, j.ID, j.Body, j.Deliveries)
	}
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", nil); !errors.Is(err, bus.ErrQueued) {
		t.Errorf("enqueue while it is worked on: got %v, want %v", err, bus.ErrQueued)
	}
	if err := j.GiveBack(0); err != nil {
		t.Fatal(err)
	}
	if j = next(t, w); j.ID != "t1" || j.Deliveries != 2 {
		t.Errorf("given back: got %s delivery %d, want t1 2", j.ID, j.Deliveries)
	}
	if err := j.Progress(); err != nil {
		t.Errorf("progress: got %v", err)
	}
	if err := j.Ack(); err != nil {
		t.Errorf("ack: got %v", err)
	}
	for { // the ack is on its way: the same id is accepted once it is there
		err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", []byte("again"))
		if err == nil {
			break
		}
		if !errors.Is(err, bus.ErrQueued) {
			t.Fatalf("enqueue after the ack: got %v", err)
		}
	}
	if j = next(t, w); string(j.Body) != "again" || j.Deliveries != 1 {
		t.Errorf("after the ack: got %q delivery %d, want again 1", j.Body, j.Deliveries)
	}
}

// TestQueueQuietWorker gives a job to another worker when the first says nothing for [bus.AckWait].
func TestQueueQuietWorker(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	one, two := workers(t, b), workers(t, b)
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", nil); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	next(t, one)
	if j := next(t, two); j.Deliveries != 2 || time.Since(began) > 2*bus.AckWait {
		t.Errorf("got delivery %d after %v, want 2 after about %v", j.Deliveries, time.Since(began), bus.AckWait)
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	var want []string
	for i := range 20 {
		id := fmt.Sprintf("t%d", i)
		want = append(want, id)
		if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	if err := workers(t, b).Fetch(t.Context(), len(want), fetchWait, func(j *bus.Job) { got = append(got, j.ID) }); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFetchCancelled hands nothing to a worker that stops.
func TestFetchCancelled(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	w := workers(t, b)
	stopped := errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stopped)
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", "t1", nil); err != nil {
		t.Fatal(err)
	}
	err := w.Fetch(ctx, 1, fetchWait, func(*bus.Job) { t.Error("got a job, want none") })
	if err == nil {
		t.Error("got no error, want one")
	}
	next(t, w)
}

func TestQueueRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	long := strings.Repeat("a", 65)
	for _, tc := range []struct {
		name    string
		session events.SessionID
		id      string
		body    int
		want    error
	}{
		{"empty_session", "", "t", 0, events.ErrInvalidID},
		{"dotted_session", "a.b", "t", 0, events.ErrInvalidID},
		{"wildcard_session", "*", "t", 0, events.ErrInvalidID},
		{"long_session", events.SessionID(long), "t", 0, events.ErrInvalidID},
		{"empty_id", "s", "", 0, events.ErrInvalidID},
		{"dotted_id", "s", "a.b", 0, events.ErrInvalidID},
		{"rest_wildcard_id", "s", ">", 0, events.ErrInvalidID},
		{"space_id", "s", "a b", 0, events.ErrInvalidID},
		{"long_id", "s", long, 0, events.ErrInvalidID},
		{"large_body", "s", "t", events.MaxCommitBytes + 1, events.ErrTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			err := b.Enqueue(t.Context(), bus.ClassTurn, tc.session, tc.id, make([]byte, tc.body))
			if !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
	t.Run("largest_body", func(t *testing.T) {
		t.Parallel()
		if err := b.Enqueue(t.Context(), bus.ClassTurn, "s", "big", make([]byte, events.MaxCommitBytes)); err != nil {
			t.Errorf("got %v, want none", err)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Enqueue(ctx, bus.ClassTurn, "s", "gone", nil); !errors.Is(err, events.ErrOutcomeUnknown) {
			t.Errorf("got %v, want %v", err, events.ErrOutcomeUnknown)
		}
	})
}
