package system

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// flood submits that many turns of a new session, named t0 and so on.
func flood(f *harness.Fleet, name events.SessionID, turns int) {
	f.T.Helper()
	f.Open(api.CreateRequest{ID: name})
	for i := range turns {
		f.StartTurn(name, events.TurnID(fmt.Sprintf("t%d", i)), harness.Text("go"))
	}
}

// before counts the model calls of one session before the first one of another.
func before(f *harness.Fleet, one, other events.SessionID) (n int) {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	for _, id := range f.Requested {
		switch id {
		case one:
			n++
		case other:
			return n
		}
	}
	return n
}

// TestFleetFair queues 200 turns of each of two sessions and one of each of eight others behind them. The two
// large sessions occupy all slots. The turns of the others still run after a few of theirs, and all turns end.
func TestFleetFair(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]int{"one_node": {2}, "two_nodes": {1, 1}} { // their concurrency
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const turns = 200
			f := harness.StartFleet(t)
			flood(f, "a", turns)
			flood(f, "b", turns)
			small := []events.SessionID{"c", "d", "e", "f", "g", "h", "i", "j"}
			for _, id := range small {
				flood(f, id, 1)
			}
			for _, n := range nodes {
				f.Join(workers.Config{Concurrency: n})
			}
			for _, id := range []events.SessionID{"a", "b"} {
				for i := range turns { // nodes may record them in another order than that of the requests
					runtest.Equal(t, "end", f.AwaitTurn(id, events.TurnID(fmt.Sprintf("t%d", i))).End, events.EndFinished)
				}
			}
			for _, id := range small {
				runtest.Equal(t, "end of "+string(id), f.AwaitTurn(id, "t0").End, events.EndFinished)
				// About 8 turns of each large session where both nodes are equally fast. Where one node stands
				// still, the other admits one small session after each 8 of its own; and a takeover repeats a
				// model call. One large session may run more often while its node has capacity and waits for the
				// next wake: it delays no other session.
				if n := min(before(f, "a", id), before(f, "b", id)); n > turns/2 {
					t.Errorf("%s: got its turn after %d of a and of b, want at most half of the %d", id, n, turns)
				}
			}
		})
	}
}

// TestFleetFairPrefetched has eight sessions wait in the prefetch buffers of two nodes, one of which is busy for the
// whole test. The other one has a flood of its own, and admits one of the eight each time that a slot is free.
func TestFleetFairPrefetched(t *testing.T) {
	t.Parallel()
	const turns, others, share = 200, 8, 8
	f := harness.StartFleet(t)
	running := make(chan events.SessionID, 2)
	release := map[events.SessionID]chan struct{}{"a": make(chan struct{}), "busy": make(chan struct{})}
	first := map[events.SessionID]*sync.Once{"a": {}, "busy": {}}
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		if once := first[req.Session]; once != nil {
			once.Do(func() {
				running <- req.Session
				select {
				case <-release[req.Session]:
				case <-ctx.Done():
				}
			})
		}
		return harness.Reply(harness.Text("ok"))(ctx, req)
	}
	workerOn(f, bustest.Open(t, f.Server), 1)
	flood(f, "a", turns)
	runtest.Equal(t, "first", harness.Receive(f.System, "call", running), "a")
	f.AwaitState("a", "queue", func(s *projector.State) bool { return len(s.Queue) == turns-1 })
	workerOn(f, bustest.Open(t, f.Server), 1)
	flood(f, "busy", 1)
	runtest.Equal(t, "second", harness.Receive(f.System, "call", running), "busy")
	var small []events.SessionID
	for i := range others {
		small = append(small, events.SessionID(fmt.Sprintf("o%d", i)))
		flood(f, small[i], 1)
	}
	close(release["a"])
	for _, id := range small {
		runtest.Equal(t, "end of "+string(id), f.AwaitTurn(id, "t0").End, events.EndFinished)
	}
	close(release["busy"])
	for _, id := range small {
		if n := before(f, "a", id); n > share*(others+1) {
			t.Errorf("%s: got its turn after %d of the flood, want at most %d", id, n, share*(others+1))
		}
	}
	runtest.Equal(t, "end of the flood", f.AwaitTurn("a", events.TurnID(fmt.Sprintf("t%d", turns-1))).End, events.EndFinished)
}

// TestFleetFlood queues 1 000 turns of one session and then one of each of 50 others, on two nodes. The others do
// not wait for the thousand. The workers read the queue in order, and the flood runs meanwhile. A session whose
// wake was read waits for no more than a share of the flood for each of the others.
func TestFleetFlood(t *testing.T) {
	t.Parallel()
	const turns, others, share = 1000, 50, 8
	f := harness.StartFleet(t)
	flood(f, "a", turns)
	for i := range others {
		flood(f, events.SessionID(fmt.Sprintf("o%d", i)), 1)
	}
	for range 2 {
		f.Join(workers.Config{Concurrency: 4})
	}
	for i := range others {
		id := events.SessionID(fmt.Sprintf("o%d", i))
		runtest.Equal(t, "end of "+string(id), f.AwaitTurn(id, "t0").End, events.EndFinished)
		if n := before(f, "a", id); n > share*others {
			t.Errorf("%s: got its turn after %d of the flood, want at most %d", id, n, share*others)
		}
	}
}

// TestFleetFairKilled removes workers that continuously yield to one another's sessions: some stop, softly or at
// once, some lose their connection. Every turn ends, without a sweep.
func TestFleetFairKilled(t *testing.T) {
	t.Parallel()
	const turns = 40
	sessions := []events.SessionID{"a", "b", "c", "d"}
	f := harness.StartFleet(t)
	calls := make(chan struct{}, 1<<12)
	f.Reply = func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		calls <- struct{}{}
		return harness.Reply(harness.Text("ok"))(ctx, req)
	}
	for _, id := range sessions {
		flood(f, id, turns)
	}
	now, cancel := context.WithCancel(f.Ctx)
	cancel()
	for round := range 9 {
		on := bustest.Open(t, f.Server)
		w := workerOn(f, on, 2)
		for range 12 {
			harness.Receive(f.System, "model calls", calls)
		}
		switch round % 3 {
		case 0:
			w.Stop(f.Ctx)
		case 1:
			w.Stop(now)
		case 2:
			on.Close()
			w.Stop(now)
		}
	}
	workerOn(f, bustest.Open(t, f.Server), 2)
	for _, id := range sessions {
		for i := range turns {
			runtest.Equal(t, "end", f.AwaitTurn(id, events.TurnID(fmt.Sprintf("t%d", i))).End, events.EndFinished)
		}
		runtest.Equal(t, "turns", f.StateOf(id).Turns, turns)
		runtest.Equal(t, "ends", len(harness.Find[*events.TurnCompleted](f.System, id)), turns)
		harness.VerifyHistory(t, f.Bus, id)
	}
}
