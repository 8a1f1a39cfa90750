package run

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
)

// otherWorker is a worker that answers whether it calls plugins about turns' ends.
type otherWorker struct {
	mu    sync.Mutex
	calls bool
	asked chan events.TurnID
}

func (o *otherWorker) set(calls bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls = calls
}

// serve answers as a worker until the end of the test.
func (o *otherWorker) serve(b *bundle, id events.WorkerID) {
	b.T.Helper()
	o.asked = make(chan events.TurnID, 1024)
	stop, err := b.Bus.ServeWorker(id, func(body []byte) []byte {
		var q wake.PeerRequest
		o.mu.Lock()
		defer o.mu.Unlock()
		if events.DecodePayload(body, &q) != nil || !q.Notifies || !o.calls {
			return []byte("no")
		}
		select {
		case o.asked <- q.Turn:
		default: // the test has seen enough
		}
		return []byte("yes")
	})
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(stop)
	if err := b.Bus.Conn().Flush(); err != nil {
		b.T.Fatal(err)
	}
}

// diary is a plugin that is called about the ends of turns.
func diary(called chan<- events.TurnID) plugin.Factory {
	return plugin.Func("diary", func(r *plugin.Registrar) error {
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			if e.Kind == plugin.TurnPersisted {
				called <- e.Turn
			}
			return nil
		})
		return nil
	})
}

// TestEndCallsInOrder has another worker call plugins about a turn's end while this one runs and ends the next turn. The
// call of the next turn waits until the history has the other one, or until the other worker no longer calls plugins:
// then this worker calls them about both.
func TestEndCallsInOrder(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(b *bundle, other *otherWorker)
		want []events.TurnID
	}{
		"recorded": {func(b *bundle, _ *otherWorker) { b.Append("t1", &events.TurnTold{Worker: "w2"}) }, []events.TurnID{"t2"}},
		"gone":     {func(_ *bundle, other *otherWorker) { other.set(false) }, []events.TurnID{"t1", "t2"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			other := &otherWorker{calls: true}
			other.serve(b, "w2")
			b.submit("t1")
			b.Append("t1", &events.TurnStarted{Attempt: 1, Worker: "w2"}, &events.TurnCompleted{End: events.EndFinished}, &events.TurnAnnounced{Worker: "w2"})
			b.submit("t2")
			called := make(chan events.TurnID, 16)
			p := b.start(b.pool("w1", 1, says("hi"), nil, diary(called)))
			b.await("t2")
			for range 3 { // two of them after the end of t2 at the latest: one for each tick
				if id := bustest.Receive(t, "an event", other.asked); id != "t1" {
					t.Errorf("asked about %s, want t1 only", id)
				}
			}
			if len(called) > 0 {
				t.Errorf("called about %s while the other worker calls plugins about t1", <-called)
			}
			c.end(b, other)
			bustest.Eventually(t, "all calls are recorded", func() bool { return len(b.State().Unnotified) == 0 })
			idle(t, p)
			var got []events.TurnID
			for len(called) > 0 {
				got = append(got, <-called)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("calls: got %v, want %v", got, c.want)
			}
			b.awaitWakes(0)
		})
	}
}

// TestEndCallOnce has another worker claim the next turn while this one calls plugins about a turn's end. This one gives
// its wake away, or stops, and its run stays until the call is recorded: without it the other one repeats that.
func TestEndCallOnce(t *testing.T) {
	t.Parallel()
	for name, drains := range map[string]bool{"transfers": false, "stops": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			started, release := make(chan events.TurnID, 16), make(chan struct{})
			p := b.start(b.pool("w1", 1, says("hi"), nil, plugin.Func("diary", func(r *plugin.Registrar) error {
				r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
					if e.Kind == plugin.TurnPersisted {
						started <- e.Turn
						<-release
					}
					return nil
				})
				return nil
			})))
			asked := make(chan wake.PeerRequest, 1024)
			stop, err := b.Bus.ServeWorker("w2", func(body []byte) []byte {
				var q wake.PeerRequest
				if err := events.DecodePayload(body, &q); err != nil || q.Notifies || q.Turn != "t2" {
					return []byte("no")
				}
				asked <- q
				return map[bool][]byte{false: []byte("yes"), true: []byte("no")}[drains]
			})
			if err == nil {
				t.Cleanup(stop)
				err = b.Bus.Conn().Flush()
			}
			if err != nil {
				t.Fatal(err)
			}
			b.submit("t1")
			bustest.Receive(t, "an event", started)
			if drains {
				p.Drain()
			}
			b.Append("t2", &events.TurnRequested{Input: api.Ask("go").Input}, &events.TurnStarted{Attempt: 1, Worker: "w2"})
			p.logMoved(sid)
			if q := bustest.Receive(t, "an event", asked); q.Handle == "" {
				t.Errorf("first request: got %+v, want the wake", q)
			}
			if q := bustest.Receive(t, "an event", asked); (q.Handle == "") == drains { // of the next tick, by a run that stays
				t.Errorf("second request: got %+v, want a wake: %t", q, drains)
			}
			if !p.respond(&wake.PeerRequest{Session: sid, Turn: "t1", Notifies: true}) {
				t.Error("the worker denies its call")
			}
			close(release)
			idle(t, p)
			if left := b.State().Unnotified; len(left) > 0 || len(started) > 0 {
				t.Errorf("after the run: got %+v without a call, %d more calls, want none", left, len(started))
			}
		})
	}
}

// TestOwnsEndCall is a table of what a worker answers about the turn-end calls of its run.
func TestOwnsEndCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.pool("w1", 1, says("hi"), nil)
	r := b.claimed(p, false)
	r.own(projector.NoticeKey{Turn: "t0"})
	for name, c := range map[string]struct {
		session events.SessionID
		turn    events.TurnID
		want    bool
	}{
		"own":              {sid, "t0", true},
		"runs":             {sid, "t1", true}, // its end may be in the log before the run reads it
		"of_another":       {sid, "t2", false},
		"session_not_here": {"s2", "t0", false},
	} {
		if got := p.respond(&wake.PeerRequest{Session: c.session, Turn: c.turn, Notifies: true}); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
