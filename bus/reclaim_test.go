package bus_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

// hold keeps a job from being delivered again because its worker is quiet, until the test ends.
func hold(t *testing.T, j *bus.Job) {
	t.Helper()
	var holding sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); holding.Wait() })
	holding.Go(func() {
		ticks := time.NewTicker(bus.AckWait / 10)
		defer ticks.Stop()
		for ctx.Err() == nil {
			_ = j.Progress()
			select {
			case <-ticks.C:
			case <-ctx.Done():
			}
		}
	})
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	w := workers(t, b)
	for _, id := range []string{"t0", "t1"} {
		if err := b.Enqueue(t.Context(), bus.ClassTurn, "s1", id, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := next(t, w).Ack(); err != nil { // so that numbers of deliveries and of messages are not the same by chance
		t.Fatal(err)
	}
	hold(t, next(t, w))
	job := bus.JobName{Session: "s1", ID: "t1"}
	take := func(from *bus.Bus, job bus.JobName, evidence string, want bool) {
		t.Helper()
		r, err := from.Reclaims(t.Context(), bus.ClassTurn)
		if err != nil {
			t.Fatal(err)
		}
		if first, err := r.Take(t.Context(), job, evidence); err != nil || first != want {
			t.Fatalf("take %+v: got %t, %v, want %t", job, first, err, want)
		}
		if err := from.Conn().Flush(); err != nil {
			t.Fatal(err)
		}
	}
	take(b, job, "w1", true)
	take(other, job, "w1", false)
	if j := next(t, w); j.ID != "t1" || j.Deliveries != 2 {
		t.Errorf("after it was taken: got %s delivery %d, want t1 2", j.ID, j.Deliveries)
	}
	take(other, job, "w1", false)
	take(b, bus.JobName{Session: "s1", ID: "t0"}, "w1", false) // done
	take(b, job, "w2", true)
	j := next(t, w)
	if j.ID != "t1" || j.Deliveries != 3 {
		t.Errorf("on other evidence: got %s delivery %d, want t1 3", j.ID, j.Deliveries)
	}
	if list, err := b.Jobs(t.Context(), bus.ClassTurn); err != nil || len(list) != 1 || list[0] != job {
		t.Errorf("jobs: got %v, %v, want only t1", list, err)
	}
	if err := b.Enqueue(t.Context(), bus.ClassTurn, "s2", "t2", nil); err != nil {
		t.Fatal(err)
	}
	take(b, bus.JobName{Session: "s2", ID: "t2"}, "w3", true) // in nobody's hands
	if j := next(t, w); j.ID != "t2" || j.Deliveries != 1 {
		t.Errorf("what nobody had: got %s delivery %d, want t2 1", j.ID, j.Deliveries)
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	b, other := bustest.Open(t, s), bustest.Open(t, s)
	stop, err := b.Pokes("w1", func(id events.SessionID) { t.Errorf("got poked for %q", id) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := b.Conn().Flush(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tc := range []struct {
		what   string
		ctx    context.Context
		worker events.WorkerID
		want   bool
	}{{"one that listens", t.Context(), "w1", false}, {"one that never was", t.Context(), "w2", true}, {"no time to ask", ended, "w2", false}} {
		if got := other.Gone(tc.ctx, tc.worker); got != tc.want {
			t.Errorf("%s: got gone %v, want %v", tc.what, got, tc.want)
		}
	}
	b.Close()
	until, cancel := context.WithTimeout(t.Context(), fetchWait)
	defer cancel()
	for !other.Gone(t.Context(), "w1") { // once the server has noticed
		if until.Err() != nil {
			t.Fatal("got a worker whose connection is closed not gone")
		}
	}
}

func TestAnnounce(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	got := make(chan events.WorkerID, 4)
	stop, err := b.Announced(func(id events.WorkerID) { got <- id })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	for _, id := range []events.WorkerID{"w1", "not.a.worker", "w2"} {
		if err := b.Announce(id); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []events.WorkerID{"w1", "w2"} {
		if id := delivered(t, got); id != want {
			t.Errorf("got %s, want %s", id, want)
		}
	}
}
