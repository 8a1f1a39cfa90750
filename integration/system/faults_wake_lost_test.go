package system

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/oklog/ulid/v2"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
)

// appendWithoutWake appends events as a host does that dies before it publishes a wake.
func (s *site) appendWithoutWake(id events.SessionID, list ...events.Event) {
	s.T.Helper()
	_, err := s.Bus.Log().Append(s.Ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()),
		Actor: events.Actor{Kind: events.ActorSystem, ID: "dead"}, Events: list,
	}, s.LastSeq(id))
	runtest.WantError(s.T, "append", err, nil)
}

func workloadInput(turn events.TurnID) events.TurnInput {
	return events.TurnInput{Parts: []events.Part{harness.Text("do " + string(turn))}}
}

// TestSmokeWakeLost commits requests without a wake, while nodes run without work: in new sessions and in idle ones.
func TestSmokeWakeLost(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const sessions, turns = 4, 2
		w := s.wakeFixture(0)
		w.gate.open()
		for range 2 {
			w.start()
		}
		for i := range sessions {
			s.Open(api.CreateRequest{ID: workloadSession(i)})
		}
		for k := range turns { // the second time the sessions rest since the first
			began := time.Now()
			for i := range sessions {
				s.appendWithoutWake(workloadSession(i), events.Of(workloadTurn(k), &events.TurnRequested{Input: workloadInput(workloadTurn(k))}))
			}
			for i := range sessions {
				runtest.Equal(s.T, "end", s.AwaitTurn(workloadSession(i), workloadTurn(k)).End, events.EndFinished)
				s.AwaitUnqueued(workloadSession(i))
			}
			s.T.Logf("ended after %v", time.Since(began))
		}
		runtest.Equal(s.T, "audit", w.audit(sessions, turns), totals{})
	})
}

// TestWakeDoubled publishes ten wakes of a session at once in each of its effects, with hints that are right,
// wrong and missing: each effect runs once, and each turn has one attempt.
func TestWakeDoubled(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		sessions, turns := s.share(8, 4), s.share(4, 2)
		w := s.wakeFixture(0)
		w.gate.open()
		var hints []bus.WakeHint
		for range 2 {
			hints = append(hints, bus.WakeHint{Worker: w.start().ID()}, bus.WakeHint{Worker: "nobody"}, bus.WakeHint{})
		}
		again := w.effects(func(id events.SessionID) {
			var all sync.WaitGroup
			for n := range 10 {
				all.Go(func() {
					runtest.WantError(s.T, "wake", s.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, hints[n%len(hints)]), nil)
				})
			}
			all.Wait()
		})
		for i := range sessions {
			s.Open(api.CreateRequest{ID: workloadSession(i)})
			for k := range turns {
				s.StartTurn(workloadSession(i), workloadTurn(k), harness.Text("do "+string(workloadTurn(k))))
			}
		}
		for i := range sessions {
			s.AwaitTurn(workloadSession(i), workloadTurn(turns-1))
			s.AwaitUnqueued(workloadSession(i))
		}
		runtest.Equal(s.T, "audit", w.audit(sessions, turns), totals{})
		runtest.Equal(s.T, "effects that ran again", again(), 0)
	})
}

// effects calls a function in each effect, and counts the effects that run again.
func (w *wakeFixture) effects(do func(events.SessionID)) (again func() int) {
	var mu sync.Mutex
	seen, more := make(map[string]bool), 0
	block := w.workload.block
	w.workload.block = func(ctx context.Context, effect string) {
		mu.Lock()
		if seen[effect] {
			more++
		}
		seen[effect] = true
		mu.Unlock()
		id, _, _ := strings.Cut(effect, "/")
		do(events.SessionID(id))
		block(ctx, effect)
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return more
	}
}

// acked receives the acknowledgements of the queue's deliveries, as "<kind> <reply subject>".
func (s *site) acked() <-chan string {
	s.T.Helper()
	list := make(chan string, 1<<12)
	sub, err := s.Bus.Conn().Subscribe("$JS.ACK."+workStream+".turn.>", func(m *nats.Msg) {
		select {
		case list <- string(m.Data) + " " + m.Subject:
		default: // the test has seen enough
		}
	})
	runtest.WantError(s.T, "subscribe", err, nil)
	s.T.Cleanup(func() { _ = sub.Unsubscribe() })
	runtest.WantError(s.T, "flush", s.Bus.Conn().Flush(), nil)
	return list
}

// TestWakeElsewhere has a wake of a running session reach a node that does not run it, because the node that does
// is full. The first node has that wake from then on, longer than the queue waits, and the second one has dropped
// it.
func TestWakeElsewhere(t *testing.T) {
	t.Parallel()
	for name, hinted := range map[string]bool{"hinted": true, "without_hint": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				id := workloadSession(0)
				w := s.wakeFixture(1)
				again := w.effects(func(events.SessionID) {})
				s.Open(api.CreateRequest{ID: id})
				first := w.start()
				s.StartTurn(id, workloadTurn(0), harness.Text("do it"))
				w.awaitBlocked(1)
				second := w.start()
				acked, answers := s.acked(), s.acceptedWakes(first.ID())
				hint := bus.WakeHint{}
				if hinted {
					hint.Worker = first.ID()
				}
				runtest.WantError(t, "wake", s.Bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, hint), nil)
				for signs, longest := make(map[string]int), 0; longest < 5; { // four take longer than the queue waits
					select {
					case handle := <-answers:
						signs[handle] = 0
					case message := <-acked:
						line, handle, _ := strings.Cut(message, " ")
						if _, requested := signs[handle]; requested {
							runtest.Equal(t, "what is said of the second delivery", line, "+WPI")
							signs[handle]++
							longest = max(longest, signs[handle])
						}
					case <-s.Ctx.Done():
						t.Fatalf("signs of life: got %v", signs)
					}
				}
				turns, _ := second.Running()
				runtest.Equal(t, "turns of the second node", turns, 0)
				w.gate.open()
				record := s.AwaitTurn(id, workloadTurn(0))
				runtest.Equal(t, "attempts", record.Attempts, 1)
				s.AwaitUnqueued(id)
				for _, e := range harness.Find[*events.TurnStarted](s.System, id) {
					runtest.Equal(t, "worker", e.Worker, first.ID())
				}
				runtest.Equal(t, "audit", w.audit(1, 1), totals{})
				runtest.Equal(t, "effects that ran again", again(), 0)
			})
		})
	}
}

// acceptedWakes receives the acceptance of a worker, and returns the handle of the wake that was handed to it.
func (s *site) acceptedWakes(worker events.WorkerID) <-chan string {
	s.T.Helper()
	list := make(chan string, 64)
	sub, err := s.Bus.Conn().Subscribe("lash.ask."+string(worker), func(m *nats.Msg) {
		var question struct {
			Handle string `msgpack:"h,omitempty"`
		}
		runtest.WantError(s.T, "question", msgpack.Unmarshal(m.Data, &question), nil)
		if question.Handle != "" {
			list <- question.Handle
		}
	})
	runtest.WantError(s.T, "subscribe", err, nil)
	s.T.Cleanup(func() { _ = sub.Unsubscribe() })
	runtest.WantError(s.T, "flush", s.Bus.Conn().Flush(), nil)
	return list
}

// TestWakeStaleAck has a worker take a wake and become silent. Later, during the work of another worker, it acks
// the delivery, or releases it. No work is lost, whether the other worker lives or dies, and turns that are
// submitted meanwhile run as well.
func TestWakeStaleAck(t *testing.T) {
	t.Parallel()
	ack, back := (*bus.Wake).Ack, func(w *bus.Wake) error { return w.Nak(0) }
	for name, tc := range map[string]struct {
		acknowledge func(*bus.Wake) error
		replaced    bool // a new wake arrived after the delivery
		killed      bool // the other worker is
	}{
		"acked":                 {ack, false, false},
		"acked_killed":          {ack, false, true},
		"acked_replaced":        {ack, true, false},
		"acked_replaced_killed": {ack, true, true},
		"given_back":            {back, false, false},
		"given_back_killed":     {back, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				id, busy := s.Open(api.CreateRequest{ID: workloadSession(0)}), s.Open(api.CreateRequest{ID: workloadSession(1)})
				key := bus.WakeKey{Class: bus.ClassTurn, Session: id}
				w := s.wakeFixture(1)
				free := w.busies(busy)
				s.StartTurn(busy, workloadTurn(0), harness.Text("do it"))
				repaired := s.repaired(busy)
				w.start()
				harness.Receive(s.System, "what a node wakes when it comes", repaired)
				w.awaitBlocked(1)
				s.StartTurn(id, workloadTurn(0), harness.Text("do it"))
				stale := s.takeWake(id)
				if tc.replaced {
					runtest.WantError(t, "wake", s.Bus.PublishWake(key, bus.WakeHint{}), nil)
				}
				close(free)
				w.awaitBlocked(1)
				runtest.WantError(t, "stale word", tc.acknowledge(stale), nil)
				if tc.killed {
					w.kills[0]()
					w.start()
				} else {
					s.StartTurn(id, workloadTurn(1), harness.Text("do more"))
				}
				w.gate.open()
				runtest.Equal(t, "end", s.AwaitTurn(id, workloadTurn(0)).End, events.EndFinished)
				s.StartTurn(id, workloadTurn(1), harness.Text("do more")) // a repeat, where it was submitted
				s.StartTurn(busy, workloadTurn(1), harness.Text("do more"))
				for k := range 2 {
					runtest.Equal(t, "end", s.AwaitTurn(id, workloadTurn(k)).End, events.EndFinished)
					runtest.Equal(t, "end", s.AwaitTurn(busy, workloadTurn(k)).End, events.EndFinished)
				}
				s.AwaitUnqueued(id)
				w.audit(2, 2)
			})
		})
	}
}

// repaired receives the wakes of a session that follow a death or a loss.
func (s *site) repaired(id events.SessionID) <-chan struct{} {
	s.T.Helper()
	list := make(chan struct{}, 64)
	sub, err := s.Bus.Conn().Subscribe("lash.work.turn."+string(id), func(m *nats.Msg) {
		if m.Header.Get("Lash-Repair") != "" {
			list <- struct{}{}
		}
	})
	runtest.WantError(s.T, "subscribe", err, nil)
	s.T.Cleanup(func() { _ = sub.Unsubscribe() })
	runtest.WantError(s.T, "flush", s.Bus.Conn().Flush(), nil)
	return list
}

// busies blocks the first effect of a session until free is closed, and the effects of others as before.
func (w *wakeFixture) busies(id events.SessionID) (free chan struct{}) {
	free = make(chan struct{})
	block := w.workload.block
	w.workload.block = func(ctx context.Context, effect string) {
		if !strings.HasPrefix(effect, string(id)+"/") {
			block(ctx, effect)
			return
		}
		select {
		case <-free:
			return
		default:
		}
		w.gate.came <- effect
		select {
		case <-free:
		case <-ctx.Done():
		}
	}
	return free
}

// takeWake takes a wake of a session as a worker does that becomes silent then.
func (s *site) takeWake(id events.SessionID) (received *bus.Wake) {
	s.T.Helper()
	queue, err := s.Bus.Queue(s.Ctx, bus.ClassTurn)
	runtest.WantError(s.T, "join", err, nil)
	for received == nil && s.Ctx.Err() == nil {
		_, err = queue.Fetch(s.Ctx, 1, time.Minute, func(w *bus.Wake) {
			if w.Session == id {
				received = w
			}
		})
		runtest.WantError(s.T, "fetch", err, nil)
	}
	return received
}
