package bus_test

import (
	"errors"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
)

func joinTimers(t *testing.T, b *bus.Bus) *bus.Due {
	t.Helper()
	d, err := b.Due(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// due is the next timer.
func due(t *testing.T, d *bus.Due) *bus.DueTimer {
	t.Helper()
	var timer *bus.DueTimer
	for timer == nil && t.Context().Err() == nil { // one that came early comes again
		if err := d.Fetch(t.Context(), 1, fetchWait, func(got *bus.DueTimer) { timer = got }); err != nil {
			t.Fatalf("fetch: %v", err)
		}
	}
	return timer
}

func timers(t *testing.T, b *bus.Bus) (list []string) {
	t.Helper()
	for timer, err := range b.Timers(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, timer.ID)
	}
	return list
}

func TestTimer(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := joinTimers(t, b)
	now := events.MillisOf(time.Now())
	soon := bus.Timer{Session: "s1", ID: "soon", At: now + 1200, Body: []byte("body")}
	for range 2 {
		if err := b.Schedule(t.Context(), soon); err != nil {
			t.Fatal(err)
		}
	}
	later := soon
	later.At++
	if err := b.Schedule(t.Context(), later); !errors.Is(err, bus.ErrStale) {
		t.Errorf("another time under the same id: got %v, want %v", err, bus.ErrStale)
	}
	far := bus.Timer{Session: "s1", ID: "far", At: now + 1e9}
	if err := b.Schedule(t.Context(), far); err != nil {
		t.Fatal(err)
	}
	if err := b.Schedule(t.Context(), bus.Timer{Session: "s1", ID: "past", At: 1}); err != nil {
		t.Fatal(err)
	}
	past := due(t, d)
	if past.ID != "past" || past.At != 1 {
		t.Errorf("first: got %+v, want the one whose time has passed", past.Timer)
	}
	if err := past.GiveBack(0); err != nil {
		t.Fatal(err)
	}
	if past = due(t, d); past.ID != "past" {
		t.Errorf("given back: got %+v, want past", past.Timer)
	}
	if err := past.Ack(); err != nil {
		t.Fatal(err)
	}
	got := due(t, d)
	if got.ID != "soon" || got.Session != "s1" || got.At != soon.At || string(got.Body) != "body" {
		t.Errorf("second: got %+v, want %+v", got.Timer, soon)
	}
	if early := time.Until(soon.At.Time()); early > 0 {
		t.Errorf("it came %v early", early)
	}
	if err := b.Schedule(t.Context(), later); !errors.Is(err, bus.ErrStale) {
		t.Errorf("another while it is handled: got %v, want %v", err, bus.ErrStale)
	}
	if err := got.Ack(); err != nil {
		t.Fatal(err)
	}
	if list := timers(t, b); len(list) != 1 || list[0] != "far" {
		t.Errorf("timers: got %v, want far", list)
	}
	for range 2 {
		if err := b.Unschedule(t.Context(), "s1", "far"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Timer(t.Context(), "s1", "far"); !errors.Is(err, bus.ErrNotFound) {
		t.Errorf("after it was taken back: got %v, want %v", err, bus.ErrNotFound)
	}
	for _, at := range []events.Millis{-1, 1 << 50} {
		if err := b.Schedule(t.Context(), bus.Timer{Session: "s1", ID: "never", At: at}); !errors.Is(err, events.ErrInvalid) {
			t.Errorf("at %d: got %v, want %v", at, err, events.ErrInvalid)
		}
	}
}

// TestTimerRestart stops the server before a timer is due.
func TestTimerRestart(t *testing.T) {
	t.Parallel()
	cfg := busembed.Config{StoreDir: t.TempDir()}
	server := bustest.Server(t, cfg)
	b := bustest.Open(t, server)
	want := bus.Timer{Session: "s1", ID: "t1", At: events.MillisOf(time.Now()) + 1500, Body: []byte("body")}
	if err := b.Schedule(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b.Close()
	server.Stop()
	d := joinTimers(t, bustest.Open(t, bustest.Server(t, cfg)))
	if got := due(t, d); got.ID != want.ID || got.At != want.At || string(got.Body) != "body" {
		t.Errorf("got %+v, want %+v", got.Timer, want)
	}
}

// TestTimerCluster stops the server that leads the timers before one is due.
func TestTimerCluster(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	b := c.Open(t)
	want := bus.Timer{Session: "s1", ID: "t1", At: events.MillisOf(time.Now()) + 2500, Body: []byte("body")}
	if err := b.Schedule(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	stream, err := jetStream(t, b).Stream(t.Context(), "lash-timers")
	if err != nil {
		t.Fatal(err)
	}
	leader := stream.CachedInfo().Cluster.Leader
	stopped := false
	for _, s := range c.Servers {
		if s.Name() == leader {
			s.Stop()
			stopped = true
		}
	}
	if !stopped {
		t.Fatalf("no server is called %s", leader)
	}
	if got := due(t, joinTimers(t, b)); got.ID != want.ID || got.At != want.At || string(got.Body) != "body" {
		t.Errorf("got %+v, want %+v", got.Timer, want)
	}
}
