package bus_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

func joinTimers(t *testing.T, b *bus.Bus) *bus.Due {
	t.Helper()
	d, err := b.Due(t.Context())
	runtest.NoError(t, err)
	return d
}

// nextDue is the session of the next timer.
func nextDue(t *testing.T, d *bus.Due) (session events.SessionID) {
	t.Helper()
	bustest.Eventually(t, "a timer is due", func() bool { // an early timer is redelivered
		if recreated, err := d.Fetch(t.Context(), 1, fetchWait, func(id events.SessionID, _ events.Millis) error { session = id; return nil }); recreated || err != nil {
			t.Fatalf("fetch: got recreated %v, %v", recreated, err)
		}
		return session != ""
	})
	return session
}

func setTimer(t *testing.T, b *bus.Bus, session events.SessionID, at events.Millis) {
	t.Helper()
	runtest.NoError(t, b.SetTimer(session, at))
}

// awaitTimers waits until exactly these sessions have a waiting timer.
func awaitTimers(t *testing.T, b *bus.Bus, want ...events.SessionID) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("timers of %v", want), func() bool {
		list, err := b.Timers(t.Context())
		runtest.NoError(t, err)
		slices.Sort(list)
		return slices.Equal(list, want)
	})
}

// inMillis is a time from now.
func inMillis(ms events.Millis) events.Millis { return events.MillisOf(time.Now()) + ms }

// TestTimerComesOnTime sets timers at all kinds of times: none is delivered before its time.
func TestTimerComesOnTime(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := joinTimers(t, b)
	at := map[events.SessionID]events.Millis{"past": 1, "now": inMillis(0), "soon": inMillis(1200), "later": inMillis(2700)}
	for session, at := range at {
		setTimer(t, b, session, at)
	}
	setTimer(t, b, "far", inMillis(1e9))
	var order []events.SessionID
	for range at {
		session := nextDue(t, d)
		if early := time.Until(at[session].Time()); early > 0 {
			t.Errorf("%s came %v early", session, early)
		}
		order = append(order, session)
	}
	if !slices.Equal(order[2:], []events.SessionID{"soon", "later"}) {
		t.Errorf("order: got %v", order)
	}
	awaitTimers(t, b, "far")
}

// TestTimerReplacesTheOneBefore sets an earlier time and a later one.
func TestTimerReplacesTheOneBefore(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := joinTimers(t, b)
	setTimer(t, b, "earlier", inMillis(1e9))
	setTimer(t, b, "earlier", inMillis(300))
	setTimer(t, b, "later", inMillis(300))
	setTimer(t, b, "later", inMillis(2500))
	last := inMillis(2500)
	for _, want := range []events.SessionID{"earlier", "later"} {
		runtest.Equal(t, "next due", nextDue(t, d), want)
	}
	if early := time.Until(last.Time()); early > time.Second {
		t.Errorf("the later one came %v early", early)
	}
	awaitTimers(t, b)
}

// TestLongTimerOfDeadWorker loses the connection of the worker that handles a timer: another worker gets it.
func TestLongTimerOfDeadWorker(t *testing.T) {
	t.Parallel()
	s := bustest.Server(t, busembed.Config{})
	first, second := bustest.Open(t, s), bustest.Open(t, s)
	setTimer(t, first, "s", 1)
	rang := events.SessionID("")
	_, _ = joinTimers(t, first).Fetch(t.Context(), 1, fetchWait, func(id events.SessionID, _ events.Millis) error {
		rang = id
		first.Close()
		return nil
	})
	if got := nextDue(t, joinTimers(t, second)); rang != "s" || got != "s" {
		t.Errorf("got %q, and then %q, want s twice", rang, got)
	}
}

// TestTimerFiresAgain redelivers a timer whose handler failed.
func TestTimerFiresAgain(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := joinTimers(t, b)
	setTimer(t, b, "s", 1)
	failed := errors.New("the handler failed")
	fired := 0
	bustest.Eventually(t, "the timer fires twice", func() bool {
		_, err := d.Fetch(t.Context(), 1, fetchWait, func(events.SessionID, events.Millis) error {
			if fired++; fired == 1 {
				return failed
			}
			return nil
		})
		runtest.NoError(t, err)
		return fired == 2
	})
}

// TestTimerStreamDeleted: Fetch creates the stream again and reports it; every timer is lost.
func TestTimerStreamDeleted(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	d := joinTimers(t, b)
	setTimer(t, b, "lost", inMillis(1e9))
	awaitTimers(t, b, "lost")
	runtest.NoError(t, jetStream(t, b).DeleteStream(t.Context(), "lash-timers"))
	if recreated, err := d.Fetch(t.Context(), 1, fetchWait, func(events.SessionID, events.Millis) error { return nil }); !recreated || err != nil {
		t.Errorf("got recreated %v, %v", recreated, err)
	}
	awaitTimers(t, b)
	setTimer(t, b, "s", 1)
	runtest.Equal(t, "next due", nextDue(t, d), "s")
}

// TestTimerAfterRestart stops the server before a timer is due.
func TestTimerAfterRestart(t *testing.T) {
	t.Parallel()
	cfg := busembed.Config{StoreDir: t.TempDir()}
	server := bustest.Server(t, cfg)
	b := bustest.Open(t, server)
	at := inMillis(1500)
	setTimer(t, b, "s", at)
	awaitTimers(t, b, "s")
	b.Close()
	server.Stop()
	got := nextDue(t, joinTimers(t, bustest.Open(t, bustest.Server(t, cfg))))
	if early := time.Until(at.Time()); got != "s" || early > 0 {
		t.Errorf("got %s %v early, want s", got, early)
	}
}

// TestLongTimerOfDeadLeader stops the server that leads the timers before one is due.
func TestLongTimerOfDeadLeader(t *testing.T) {
	t.Parallel()
	c := bustest.StartCluster(t)
	b := c.Open(t)
	setTimer(t, b, "s", inMillis(2500))
	awaitTimers(t, b, "s")
	stream, err := jetStream(t, b).Stream(t.Context(), "lash-timers")
	runtest.NoError(t, err)
	leader, stopped := stream.CachedInfo().Cluster.Leader, false
	for _, s := range c.Servers {
		if s.Name() == leader {
			s.Stop()
			stopped = true
		}
	}
	if !stopped {
		t.Fatalf("no server is called %s", leader)
	}
	runtest.Equal(t, "next due", nextDue(t, joinTimers(t, b)), "s")
}

func TestSetTimerRefuses(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	for _, session := range []events.SessionID{"", "a.b", "*", ">"} {
		runtest.WantError(t, fmt.Sprintf("%q", session), b.SetTimer(session, 1), events.ErrInvalidID)
	}
}
