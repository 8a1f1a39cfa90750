package wake

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
)

// TestSweepWakesWhatNeedsAWorker loses the wakes of sessions that need a worker in every possible way, and expects them again.
func TestSweepWakesWhatNeedsAWorker(t *testing.T) {
	t.Parallel()
	for name, find := range map[string]func(b *bundle){
		"moved": func(b *bundle) { b.sweep.Moved("s", 0, false) },
		"full":  func(b *bundle) { b.sweep.QueueLost(false) },
		"queue deleted": func(b *bundle) {
			b.sweep.Moved("s", 0, false)
			deleteStream(b, "lash-work")
		},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create("s")
			b.create("idle")
			b.submit("s", "t1")
			b.append("s", "t1", &events.TurnStarted{Attempt: 1, Worker: "w1"})
			b.fetchWake(bus.ClassTurn, true)
			find(b)
			b.swept()
			w := b.fetchWake(bus.ClassTurn, false)
			if w.Session != "s" || !w.Repair || w.Worker != "w1" {
				t.Errorf("got %+v %+v, want a repair that names the worker", w.WakeKey, w.WakeHint)
			}
			runtest.Equal(t, "wakes", len(b.wakes()), 1)
			b.swept()
			if !b.candidate("s") || b.candidate("idle") {
				t.Errorf("candidates: s %v, idle %v, want only the one that needs a worker", b.candidate("s"), b.candidate("idle"))
			}
			b.append("s", "t1", &events.TurnCompleted{End: events.EndFinished})
			_, err := b.bus.Conn().RequestWithContext(t.Context(), w.Handle(), []byte("+ACK"))
			runtest.NoError(t, err)
			b.swept()
			if b.candidate("s") || len(b.wakes()) != 0 {
				t.Errorf("at rest: candidate %v, wakes %v, want it forgotten", b.candidate("s"), b.wakes())
			}
		})
	}
}

func deleteStream(b *bundle, name string) {
	b.t.Helper()
	js, err := jetstream.New(b.bus.Conn())
	runtest.NoError(b.t, err)
	runtest.NoError(b.t, js.DeleteStream(b.t.Context(), name))
}

// TestSweepFoldsNothingThatHasAWake does not fold a candidate that has its wake, queued or delivered, or that has
// recent commits.
func TestSweepFoldsNothingThatHasAWake(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const none events.SessionID = "none" // the fold finds that it does not exist
	runtest.NoError(t, b.bus.PublishWake(hint.FallbackKey(none), bus.WakeHint{}))
	b.sweep.Moved(none, 0, false)
	b.wakes()
	b.swept()
	if !b.candidate(none) {
		t.Error("with a wake: it was folded")
	}
	w := b.fetchWake(bus.ClassTurn, false)
	b.swept()
	if !b.candidate(none) {
		t.Error("with a wake that is held: it was folded")
	}
	_, err := b.bus.Conn().RequestWithContext(t.Context(), w.Handle(), []byte("+ACK"))
	runtest.NoError(t, err)
	b.sweep.quiet = time.Hour
	b.swept()
	if !b.candidate(none) {
		t.Error("just moved: it was folded")
	}
	b.sweep.quiet = time.Nanosecond
	b.swept()
	if b.candidate(none) {
		t.Error("without a wake: it was not folded")
	}
}

// TestSweepExcusesByRow does not read the stream of a session that rests at its last commit by its row. It folds a
// session whose row is older.
func TestSweepExcusesByRow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	runtest.NoError(t, follow.NewProjector(b.bus, nil).Project(t.Context(), "s"))
	asked, err := b.bus.Conn().SubscribeSync("$JS.API.*.*.lash-s-s")
	runtest.NoError(t, err)
	for _, c := range []struct {
		seq   events.Seq
		folds bool
	}{{1, false}, {2, true}, {0, true}} {
		b.sweep.Moved("s", c.seq, false)
		b.swept()
		runtest.NoError(t, b.bus.Conn().Flush())
		n, _, err := asked.Pending()
		for range n {
			if _, err := asked.NextMsg(time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || (n > 0) != c.folds || b.candidate("s") {
			t.Errorf("seen at %d: got %d requests, %v, a candidate still: %v, want it folded: %v", c.seq, n, err, b.candidate("s"), c.folds)
		}
	}
}

// TestSweepWakesTasks finds live tasks without a wake, also if the turn of their session has one.
func TestSweepWakesTasks(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	for _, task := range []events.TaskID{"k1", "k2"} {
		_, err := b.host.RegisterTask(t.Context(), "s", api.TaskRequest{ID: task, Runner: "r"})
		runtest.NoError(t, err)
	}
	b.submit("s", "t1")
	lost := b.fetchWake(bus.ClassTask, true)
	b.sweep.Moved("s", 0, true)
	b.swept()
	got := b.wakes()
	for _, key := range []bus.WakeKey{hint.FallbackKey("s"), {Class: bus.ClassTask, Session: "s", Task: "k1"}, {Class: bus.ClassTask, Session: "s", Task: "k2"}} {
		if !got[key] {
			t.Errorf("wakes: got %v, want %+v among them", got, key)
		}
	}
	// The sweep now knows the tasks, and finds a lost wake without a fold.
	first := b.fetchWake(bus.ClassTask, true)
	second := b.fetchWake(bus.ClassTask, true)
	if first.Session != "s" || second.Session != "s" || first.Task == second.Task || lost.Repair || !second.Repair {
		t.Errorf("got %+v and %+v, want both tasks, the one that was lost as a repair", first, second)
	}
	b.swept()
	runtest.Equal(t, "wakes after both were lost", len(b.wakes()), 3)
	for _, task := range []events.TaskID{"k1", "k2"} {
		b.append("s", "", &events.TaskEnded{Task: task, State: events.TaskCompleted})
		b.fetchWake(bus.ClassTask, true)
	}
	b.fetchWake(bus.ClassTurn, true)
	b.append("s", "t1", &events.TurnCompleted{End: events.EndFailed})
	b.swept()
	if b.candidate("s") || len(b.wakes()) != 0 {
		t.Errorf("at rest: candidate %v, wakes %v", b.candidate("s"), b.wakes())
	}
}

// TestSweepSetsTimers stores the timers again after a loss of their stream, but not those of times that are due.
func TestSweepSetsTimers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := map[events.SessionID]time.Time{"later": time.Now().Add(time.Hour), "past": time.Now().Add(-time.Minute)}
	for id, at := range at {
		b.create(id)
		_, err := b.host.SubmitAt(t.Context(), id, at, api.Ask("go"))
		runtest.NoError(t, err)
	}
	b.fetchWake(bus.ClassTurn, true) // of the due turn
	deleteStream(b, "lash-timers")
	again, err := bus.Open(t.Context(), bus.Config{Options: []nats.Option{b.server.InProcess()}}) // creates the stream
	runtest.NoError(t, err)
	defer again.Close()
	b.sweep.QueueLost(true)
	b.swept()
	if wakes := b.wakes(); len(wakes) != 1 || !wakes[hint.FallbackKey("past")] {
		t.Errorf("wakes: got %v, want what is due", wakes)
	}
	for list := []events.SessionID(nil); !slices.Equal(list, []events.SessionID{"later"}); { // the only timer that is not due
		if list, err = b.bus.Timers(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSweepStoresTimersAgain stores a timer that a host which hung has replaced with a later one.
func TestSweepStoresTimersAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("s")
	_, err := b.host.SubmitAt(t.Context(), "s", time.Now().Add(2*time.Second), api.Ask("go"))
	runtest.NoError(t, err)
	b.sweep.QueueLost(false)
	b.swept()
	runtest.NoError(t, b.bus.StoreTimer(t.Context(), "s", events.MillisOf(time.Now().Add(time.Hour))))
	due, err := b.bus.Due(t.Context())
	runtest.NoError(t, err)
	fired := false
	bustest.Eventually(t, "the timer fires", func() bool {
		b.swept()
		_, err := due.Fetch(t.Context(), 1, time.Second, func(id events.SessionID, _ events.Millis) error {
			fired = id == "s"
			return nil
		})
		runtest.NoError(t, err)
		return fired
	})
	if _, err := b.host.Submit(t.Context(), "s", api.Ask("now")); err != nil { // a commit
		t.Fatal(err)
	}
}

// TestSweepClosesWhatNoCreatorFinishes closes an opening session after the limit.
func TestSweepClosesWhatNoCreatorFinishes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.append("s", "", &events.SessionOpened{Commits: 2})
	b.sweep.opening = time.Hour
	b.sweep.QueueLost(false)
	b.swept()
	if s, err := b.host.State(t.Context(), "s"); err != nil || s.Status != projector.StatusOpening || !b.candidate("s") {
		t.Fatalf("young: got %v, candidate %v, want it left open", err, b.candidate("s"))
	}
	b.sweep.opening = time.Nanosecond
	b.swept()
	if s, err := b.host.State(t.Context(), "s"); err != nil || s.Status != projector.StatusClosed {
		t.Errorf("old: got %v, want it closed", err)
	}
	b.swept()
	if b.candidate("s") {
		t.Error("closed: it is a candidate still")
	}
}

// spoil appends an entry that cannot be decoded.
func (b *bundle) spoil(id events.SessionID) {
	b.t.Helper()
	js, err := jetstream.New(b.bus.Conn())
	runtest.NoError(b.t, err)
	_, err = js.Publish(b.t.Context(), "lash.s."+string(id)+".turn", []byte("junk"))
	runtest.NoError(b.t, err)
}

// TestSweepOfUnfoldable wakes the session for other nodes until it has a dead letter.
func TestSweepOfUnfoldable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.create("bad")
	b.create("good")
	b.submit("good", "t1")
	b.fetchWake(bus.ClassTurn, true)
	b.spoil("bad")
	b.sweep.QueueLost(false)
	b.swept()
	if wakes := b.wakes(); !wakes[hint.FallbackKey("bad")] || !wakes[hint.FallbackKey("good")] {
		t.Errorf("wakes: got %v, want both", wakes)
	}
	b.fetchWake(bus.ClassTurn, true)
	b.fetchWake(bus.ClassTurn, true)
	runtest.NoError(t, b.bus.PutDeadLetter(t.Context(), &bus.DeadLetter{Session: "bad", Attempts: 8}))
	b.swept()
	if wakes := b.wakes(); wakes[hint.FallbackKey("bad")] || b.candidate("bad") || !wakes[hint.FallbackKey("good")] {
		t.Errorf("with a dead letter: got the wakes %v, candidate %v, want only the other", wakes, b.candidate("bad"))
	}
}

// TestSweeperRunsWhereItLeads sweeps only on the leading node, which finds the commits from before it led.
func TestSweeperRunsWhereItLeads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var leads atomic.Bool
	asked := make(chan struct{}, 1)
	b.sweep.every = time.Millisecond
	b.sweep.leads = func() bool {
		select {
		case asked <- struct{}{}:
		default:
		}
		return leads.Load()
	}
	b.create("s")
	b.submit("s", "t1")
	b.fetchWake(bus.ClassTurn, true)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.sweep.Run(ctx); close(done) }()
	for range 10 {
		<-asked
	}
	if wakes := b.wakes(); len(wakes) != 0 {
		t.Errorf("while it does not lead: got %v", wakes)
	}
	leads.Store(true)
	b.fetchWake(bus.ClassTurn, true)
	b.create("s2")
	b.submit("s2", "t1") // its commit is seen
	for taken := map[events.SessionID]int{}; taken["s2"] < 2; {
		taken[b.fetchWake(bus.ClassTurn, true).Session]++ // the host's wake, and the sweep's
	}
	cancel()
	<-done
}
