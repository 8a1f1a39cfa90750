package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// fleet is a bundle with several nodes, whose model keeps whose turns it was asked for.
type fleet struct {
	*bundle
	mu     sync.Mutex
	asked  []events.SessionID // a call each, over all nodes
	answer step               // instead of "ok"; may be nil
}

func setupFleet(t *testing.T) *fleet {
	t.Helper()
	return &fleet{bundle: setupIdle(t)}
}

func (f *fleet) model(ctx context.Context, req llm.Request) (scripted.Answer, error) {
	f.mu.Lock()
	f.asked = append(f.asked, req.Session)
	f.mu.Unlock()
	if f.answer != nil {
		return f.answer(ctx, req)
	}
	return reply(text("ok"))(ctx, req)
}

// join starts a node on a connection of its own that ends with the test.
func (f *fleet) join(cfg workers.Config) *workers.Node {
	f.t.Helper()
	return f.joinOn(bustest.Open(f.t, f.server), cfg)
}

func (f *fleet) joinOn(on *bus.Bus, cfg workers.Config) *workers.Node {
	f.t.Helper()
	cfg.Bus, cfg.Providers, cfg.Provider = on, map[string]llm.Provider{"scripted": scripted.New(f.model)}, "scripted"
	n, err := workers.NewNode(cfg)
	must(f.t, "node", err, nil)
	must(f.t, "start", n.Start(f.ctx), nil)
	f.t.Cleanup(func() {
		now, cancel := context.WithCancel(context.Background()) // the test's own has ended
		cancel()
		n.Stop(now)
	})
	return n
}

// flood submits so many turns of a new session, named t0 and so on.
func (f *fleet) flood(name events.SessionID, turns int) {
	f.t.Helper()
	f.open(api.CreateRequest{ID: name})
	for i := range turns {
		f.submit(name, events.TurnID(fmt.Sprintf("t%d", i)), text("go"))
	}
}

// before counts the model calls of one session before the first one of another.
func (f *fleet) before(one, other events.SessionID) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range f.asked {
		switch id {
		case one:
			n++
		case other:
			return n
		}
	}
	return n
}

// TestFleetFair queues 200 turns of each of two sessions and one of each of
// eight others behind them. The two have all the slots there are; yet the
// others' turns come after a few of theirs, and everybody's end.
func TestFleetFair(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]int{"one_node": {2}, "two_nodes": {1, 1}} { // their concurrency
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const turns = 200
			f := setupFleet(t)
			f.flood("a", turns)
			f.flood("b", turns)
			small := []events.SessionID{"c", "d", "e", "f", "g", "h", "i", "j"}
			for _, id := range small {
				f.flood(id, 1)
			}
			for _, n := range nodes {
				f.join(workers.Config{Concurrency: n})
			}
			for _, id := range []events.SessionID{"a", "b"} {
				for i := range turns { // nodes may record them in another order than they were asked for in
					equal(t, "end", f.ended(id, events.TurnID(fmt.Sprintf("t%d", i))).End, events.EndFinished)
				}
			}
			for _, id := range small {
				equal(t, "end of "+string(id), f.ended(id, "t0").End, events.EndFinished)
				// About 8 of theirs where both nodes are as fast as each other. Where one stands still all the while, the other
				// lets one of the small in after each 8 of its own; and what is taken over is asked for once more. One of the two
				// may do more while its node has a free place and waits for the next wake: it keeps nobody out.
				if n := min(f.before("a", id), f.before("b", id)); n > turns/2 {
					t.Errorf("%s: got its turn after %d of a and of b, want at most half of the %d", id, n, turns)
				}
			}
		})
	}
}

// TestFleetFairHeld has eight sessions wait in the rooms of two nodes, one of
// which is busy for as long as it takes. The other one has a flood of its own,
// and lets one of them in each time that it makes place.
func TestFleetFairHeld(t *testing.T) {
	t.Parallel()
	const turns, others, share = 200, 8, 8
	f := setupFleet(t)
	begun := make(chan events.SessionID, 2)
	release := map[events.SessionID]chan struct{}{"a": make(chan struct{}), "busy": make(chan struct{})}
	first := map[events.SessionID]*sync.Once{"a": {}, "busy": {}}
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if once := first[req.Session]; once != nil {
			once.Do(func() {
				begun <- req.Session
				select {
				case <-release[req.Session]:
				case <-ctx.Done():
				}
			})
		}
		return reply(text("ok"))(ctx, req)
	}
	f.workerOn(bustest.Open(t, f.server), 1)
	f.flood("a", turns)
	equal(t, "first", receive(f.bundle, "call", begun), "a")
	f.await("a", "queue", func(s *projector.State) bool { return len(s.Queue) == turns-1 })
	f.workerOn(bustest.Open(t, f.server), 1)
	f.flood("busy", 1)
	equal(t, "second", receive(f.bundle, "call", begun), "busy")
	var small []events.SessionID
	for i := range others {
		small = append(small, events.SessionID(fmt.Sprintf("o%d", i)))
		f.flood(small[i], 1)
	}
	close(release["a"])
	for _, id := range small {
		equal(t, "end of "+string(id), f.ended(id, "t0").End, events.EndFinished)
	}
	close(release["busy"])
	for _, id := range small {
		if n := f.before("a", id); n > share*(others+1) {
			t.Errorf("%s: got its turn after %d of the flood, want at most %d", id, n, share*(others+1))
		}
	}
	equal(t, "end of the flood", f.ended("a", events.TurnID(fmt.Sprintf("t%d", turns-1))).End, events.EndFinished)
}

// TestFleetFlood queues 1 000 turns of one session and then one of each of 50
// others, on two nodes: they do not wait for the thousand. The queue is read in
// order, and meanwhile the flood runs; but whoever was read waits for no more
// than a share of the flood for each of the others.
func TestFleetFlood(t *testing.T) {
	t.Parallel()
	const turns, others, share = 1000, 50, 8
	f := setupFleet(t)
	f.flood("a", turns)
	for i := range others {
		f.flood(events.SessionID(fmt.Sprintf("o%d", i)), 1)
	}
	for range 2 {
		f.join(workers.Config{Concurrency: 4})
	}
	for i := range others {
		id := events.SessionID(fmt.Sprintf("o%d", i))
		equal(t, "end of "+string(id), f.ended(id, "t0").End, events.EndFinished)
		if n := f.before("a", id); n > share*others {
			t.Errorf("%s: got its turn after %d of the flood, want at most %d", id, n, share*others)
		}
	}
}

// TestFleetFairKilled takes workers away that make room for one another's
// sessions all the time: some stop, softly or at once, some are cut off. No
// turn is left behind, though nobody sweeps.
func TestFleetFairKilled(t *testing.T) {
	t.Parallel()
	const turns = 40
	sessions := []events.SessionID{"a", "b", "c", "d"}
	f := setupFleet(t)
	calls := make(chan struct{}, 1<<12)
	f.answer = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		calls <- struct{}{}
		return reply(text("ok"))(ctx, req)
	}
	for _, id := range sessions {
		f.flood(id, turns)
	}
	now, cancel := context.WithCancel(f.ctx)
	cancel()
	for round := range 9 {
		on := bustest.Open(t, f.server)
		w := f.workerOn(on, 2)
		for range 12 {
			receive(f.bundle, "model calls", calls)
		}
		switch round % 3 {
		case 0:
			w.Stop(f.ctx)
		case 1:
			w.Stop(now)
		case 2:
			on.Close()
			w.Stop(now)
		}
	}
	f.workerOn(bustest.Open(t, f.server), 2)
	for _, id := range sessions {
		for i := range turns {
			equal(t, "end", f.ended(id, events.TurnID(fmt.Sprintf("t%d", i))).End, events.EndFinished)
		}
		equal(t, "turns", f.state(id).Turns, turns)
		equal(t, "ends", len(find[*events.TurnCompleted](f.bundle, id)), turns)
		verified(t, f.bus, id)
	}
}
