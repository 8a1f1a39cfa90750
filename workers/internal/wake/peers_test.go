package wake

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
)

// TestRing expects each worker to watch the one before it, and the first to watch the last.
func TestRing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, id := range []events.WorkerID{"w1", "w2", "w3"} {
		b.peer(id, "")
	}
	for id, want := range map[events.WorkerID]struct {
		before events.WorkerID
		lowest bool
	}{"w1": {"w3", true}, "w2": {"w1", false}, "w3": {"w2", false}} {
		p := NewPeers(b.bus, id, "", zaptest.NewLogger(t))
		if p.watched() != "" || !p.Lowest() {
			t.Errorf("%s alone: got %q, lowest %v", id, p.watched(), p.Lowest())
		}
		for _, other := range []events.WorkerID{"w2", "w1", "w3", id, "0", "zz"} { // "0" and "zz" have no subscriber
			p.addPeer(t.Context(), other)
		}
		if got := p.watched(); got != want.before || p.Lowest() != want.lowest {
			t.Errorf("%s: got %q, lowest %v, want %q, %v", id, got, p.Lowest(), want.before, want.lowest)
		}
	}
}

// peer is a worker that responds, on its own connection.
func (b *bundle) peer(id events.WorkerID, name string) (*Peers, *bus.Bus) {
	b.t.Helper()
	on := bustest.Open(b.t, b.server)
	p := NewPeers(on, id, name, zaptest.NewLogger(b.t))
	stop, err := p.Listen()
	runtest.NoError(b.t, err)
	b.t.Cleanup(stop)
	_, err = on.OnNotify(id, func(events.SessionID) {})
	runtest.NoError(b.t, err)
	runtest.NoError(b.t, on.Conn().Flush())
	return p, on
}

// TestPeerRequest distinguishes yes, no, and no response.
func TestPeerRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	requester, _ := b.peer("w1", "")
	holder, _ := b.peer("w2", "")
	request := PeerRequest{Session: "s", Turn: "t", Attempt: 3, Offer: true, Task: "k", Created: 7, Transferred: true, Handle: "h", Class: bus.ClassTool}
	released := make(chan struct{})
	for _, p := range []*Peers{requester, holder} {
		p.Add(func(*PeerRequest) bool { return false })
		p.Add(func(q *PeerRequest) bool { return *q == request })
	}
	silent, _ := b.peer("w4", "")
	silent.Add(func(*PeerRequest) bool {
		<-released
		return true
	})
	t.Cleanup(func() { close(released) })
	other := request
	other.Attempt++
	for name, c := range map[string]struct {
		worker     events.WorkerID
		q          PeerRequest
		yes, known bool
	}{
		"yes": {"w2", request, true, true}, "no": {"w2", other, false, true}, "own": {"w1", request, true, true},
		"ownNo": {"w1", other, false, true}, "gone": {"w3", request, false, false}, "silent": {"w4", request, false, false}, "none": {"", request, false, false},
	} {
		bustest.Eventually(t, name+": answers within 5 s", func() bool { // later where this process has no time
			began := time.Now()
			if yes, known := requester.RequestReply(t.Context(), c.worker, c.q); yes != c.yes || known != c.known {
				t.Errorf("%s: got %v, known %v, want %v, %v", name, yes, known, c.yes, c.known)
			}
			if yes := requester.Request(t.Context(), c.worker, c.q); yes != c.yes {
				t.Errorf("%s: request: got %v, want %v", name, yes, c.yes)
			}
			return time.Since(began) < 5*time.Second
		})
	}
}

// runPeers starts the peers until the end of the test.
func (b *bundle) runPeers(p *Peers) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { p.Run(ctx); close(done) }()
	b.t.Cleanup(func() { cancel(); <-done })
}

// meet waits until a worker knows another.
func meet(t *testing.T, p *Peers, other events.WorkerID) {
	t.Helper()
	bustest.Eventually(t, "the workers know each other", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.peers[other]
	})
}

// TestWatcherWakes closes the connection of a worker that has wakes: the worker that watches it wakes these sessions, long
// before the queue does.
func TestWatcherWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, dying := b.peer("w1", "")
	second, alive := b.peer("w2", "")
	b.runPeers(first)
	b.runPeers(second)
	meet(t, second, "w1")
	meet(t, first, "w2")
	if first.Lowest() == second.Lowest() {
		t.Error("got none or two that lead")
	}
	held, err := dying.Queue(t.Context(), bus.ClassTurn)
	runtest.NoError(t, err)
	b.create("s")
	b.submit("s", "t1")
	var w *bus.Wake
	if _, err := held.Fetch(t.Context(), 1, time.Minute, func(got *bus.Wake) { w = got }); err != nil || w == nil {
		t.Fatalf("fetch: got %v, %v", w, err)
	}
	if err := w.Extend(t.Context()); err != nil { // AckWait begins here
		t.Fatal(err)
	}
	dying.Close()
	q, err := alive.Queue(t.Context(), bus.ClassTurn)
	runtest.NoError(t, err)
	var again *bus.Wake
	if _, err := q.Fetch(t.Context(), 1, time.Minute, func(got *bus.Wake) { again = got }); err != nil || again == nil {
		t.Fatalf("fetch: got %v, %v", again, err)
	}
	if again.Session != "s" || !again.Repair || again.Deliveries != 1 {
		t.Errorf("got %+v, delivery %d, want a new wake", again.WakeHint, again.Deliveries)
	}
	bustest.Eventually(t, "the dead worker no longer leads", second.Lowest)
}

// TestStartWakes wakes the sessions of an earlier run: a node with a name at once, a worker that is alone after
// [WatchEvery].
func TestStartWakes(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]string{"named": "node", "alone": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.create("s")
			b.submit("s", "t1")
			w := b.fetchWake(bus.ClassTurn, false)
			runtest.NoError(t, w.Extend(t.Context()))
			p, _ := b.peer("w1", node)
			b.runPeers(p)
			if again := b.fetchWake(bus.ClassTurn, true); again.Deliveries != 1 || !again.Repair {
				t.Errorf("got %+v, delivery %d, want a new wake", again.WakeHint, again.Deliveries)
			}
		})
	}
}
