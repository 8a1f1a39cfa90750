package wake

import (
	"testing"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
)

// TestSweepRepairsRowsFirst expects the wake of a session that needs a worker by its row before the request for the list
// of streams.
func TestSweepRepairsRowsFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	b.submit("s", "t1")
	b.append("s", "t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})
	b.fetchWake(bus.ClassTurn, true)
	runtest.NoError(t, follow.NewProjector(b.bus, nil).Project(t.Context(), "s"))
	seen, err := b.bus.Conn().SubscribeSync(">")
	runtest.NoError(t, err)
	b.sweep.allMayHaveMoved(false)
	b.swept()
	const wake, list = "lash.work.turn.s", "$JS.API.STREAM.LIST"
	var order []string
	for len(order) < 2 {
		msg, err := seen.NextMsg(time.Minute)
		if err != nil {
			t.Fatalf("after %v: %v", order, err)
		}
		if msg.Subject == wake || msg.Subject == list {
			order = append(order, msg.Subject)
		}
	}
	if order[0] != wake || order[1] != list {
		t.Errorf("got %v, want the wake first", order)
	}
	if wakes := b.wakes(); len(wakes) != 1 || !wakes[hint.FallbackKey("s")] {
		t.Errorf("wakes: got %v, want that of s", wakes)
	}
}

// TestSweepOfClockAhead writes a row with a clock that is ahead: the list of streams corrects its time, but not the
// time of a commit that was seen.
func TestSweepOfClockAhead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ahead, listed := time.Now().Add(time.Hour), time.Now().Add(-time.Minute)
	b.sweep.quiet = 30 * time.Second
	for _, id := range []events.SessionID{"row", "seen"} {
		b.sweep.missing(id, candidate{lastCommitAt: ahead})
	}
	b.sweep.Moved("seen", 7, false)
	runtest.Equal(t, "by rows", len(b.sweep.due()), 0)
	for _, id := range []events.SessionID{"row", "seen"} {
		b.sweep.missing(id, candidate{lastCommitAt: listed})
	}
	if due := b.sweep.due(); len(due) != 1 || !due["row"].lastCommitAt.Equal(listed) {
		t.Errorf("by the list: got %v, want the session that was not seen to move", due)
	}
}

// TestSweepByTheServersClock has this machine's clock off by an hour. A listed session is quiet, and its creator is dead, for as long as
// the servers say.
func TestSweepByTheServersClock(t *testing.T) {
	t.Parallel()
	for _, passed := range []time.Duration{-time.Hour, 0, time.Hour} {
		t.Run(passed.String(), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.append("s", "", &events.SessionOpened{Commits: 2})
			b.sweep.quiet, b.sweep.opening = 30*time.Minute, 30*time.Minute
			b.bus.Later(passed)
			b.sweep.allMayHaveMoved(false)
			runtest.NoError(t, b.sweep.list(t.Context()))
			if due := b.sweep.due(); len(due) == 1 != (passed > 0) {
				t.Errorf("got %v due", due)
			}
			b.sweep.QueueLost(false)
			b.swept()
			want := projector.StatusOpening
			if passed > 0 {
				want = projector.StatusClosed
			}
			if s, err := b.host.State(t.Context(), "s"); err != nil || s.Status != want {
				t.Errorf("got %v, %v, want %v", s.Status, err, want)
			}
		})
	}
}

// TestSweepAfterLoss loses the last commit of a session, with its wake, for a sweeper that knows the session already. The
// list after the loss finds the work at once, whatever the sweeper knew.
func TestSweepAfterLoss(t *testing.T) {
	t.Parallel()
	work := map[string]struct {
		key  bus.WakeKey
		adds func(b *bundle)
	}{
		"turn": {hint.FallbackKey("s"), func(b *bundle) { b.submit("s", "t2") }},
		"task": {bus.WakeKey{Class: bus.ClassTask, Session: "s", Task: "k"}, func(b *bundle) {
			_, err := b.host.RegisterTask(b.t.Context(), "s", api.TaskRequest{ID: "k", Runner: "r"})
			runtest.NoError(b.t, err)
		}},
	}
	known := map[string]func(b *bundle, last events.Seq){
		"unknown": func(*bundle, events.Seq) {},
		"listed":  func(b *bundle, _ events.Seq) { b.sweep.missing("s", candidate{lastCommitAt: time.Now()}) },
		"moved":   func(b *bundle, last events.Seq) { b.sweep.Moved("s", last, false) },
		"folded": func(b *bundle, last events.Seq) {
			b.submit("s", "t1")
			b.sweep.Moved("s", last+1, true)
			b.swept()
			if !b.candidate("s") {
				b.t.Fatal("a session that needs a worker is no candidate")
			}
		},
	}
	for lost, w := range work {
		for name, knows := range known {
			t.Run(lost+"_"+name, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				b.create("s")
				runtest.NoError(t, follow.NewProjector(b.bus, nil).Project(t.Context(), "s"))
				knows(b, 1)
				w.adds(b)
				for b.wakes()[w.key] {
					b.fetchWake(w.key.Class, true)
				}
				b.sweep.quiet = time.Hour // the session moved just now
				b.sweep.QueueLost(false)
				b.swept()
				if got := b.wakes(); !got[w.key] {
					t.Errorf("at once: got %v, want %v among them", got, w.key)
				}
				b.fetchWake(w.key.Class, true)
				b.sweep.quiet = time.Nanosecond
				b.swept()
				if got := b.wakes(); !got[w.key] || !b.candidate("s") {
					t.Errorf("later: got %v, candidate %v, want %v among them", got, b.candidate("s"), w.key)
				}
			})
		}
	}
}
