package integration

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
	"github.com/lash-go/lash/session/api"
)

// leaves appends what a host does that dies before it publishes a wake.
func (s *site) leaves(id events.SessionID, list ...events.Event) {
	s.t.Helper()
	_, err := s.bus.Log().Append(s.ctx, &events.Commit{
		ID: events.CommitID(ulid.Make().String()), Session: id, At: events.MillisOf(time.Now()),
		Actor: events.Actor{Kind: events.ActorSystem, ID: "dead"}, Events: list,
	}, s.last(id))
	must(s.t, "append", err, nil)
}

func toilInput(turn events.TurnID) events.TurnInput {
	return events.TurnInput{Parts: []events.Part{text("do " + string(turn))}}
}

// TestWakeLost has requests land in the histories without a wake, while nodes
// run that have nothing to do: in new sessions and in ones that rest.
func TestWakeLost(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		const sessions, turns = 4, 2
		w := s.worksite(0)
		w.gate.open()
		for range 2 {
			w.start()
		}
		for i := range sessions {
			s.open(api.CreateRequest{ID: toilSession(i)})
		}
		for k := range turns { // the second time the sessions rest since the first
			began := time.Now()
			for i := range sessions {
				s.leaves(toilSession(i), events.Of(toilTurn(k), &events.TurnRequested{Input: toilInput(toilTurn(k))}))
			}
			for i := range sessions {
				equal(s.t, "end", s.ended(toilSession(i), toilTurn(k)).End, events.EndFinished)
				s.unqueued(toilSession(i))
			}
			s.t.Logf("ended after %v", time.Since(began))
		}
		equal(s.t, "audit", w.audit(sessions, turns), totals{})
	})
}

// TestWakeDoubled publishes ten wakes at once of a session in each of its
// effects, with hints that are right, wrong and missing: each effect runs once,
// and each turn has one attempt.
func TestWakeDoubled(t *testing.T) {
	t.Parallel()
	onSites(t, func(s *site) {
		sessions, turns := s.share(8, 4), s.share(4, 2)
		w := s.worksite(0)
		w.gate.open()
		var hints []bus.WakeHint
		for range 2 {
			hints = append(hints, bus.WakeHint{Worker: w.start().ID()}, bus.WakeHint{Worker: "nobody"}, bus.WakeHint{})
		}
		again := w.effects(func(id events.SessionID) {
			var all sync.WaitGroup
			for n := range 10 {
				all.Go(func() {
					must(s.t, "wake", s.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, hints[n%len(hints)]), nil)
				})
			}
			all.Wait()
		})
		for i := range sessions {
			s.open(api.CreateRequest{ID: toilSession(i)})
			for k := range turns {
				s.submit(toilSession(i), toilTurn(k), text("do "+string(toilTurn(k))))
			}
		}
		for i := range sessions {
			s.ended(toilSession(i), toilTurn(turns-1))
			s.unqueued(toilSession(i))
		}
		equal(s.t, "audit", w.audit(sessions, turns), totals{})
		equal(s.t, "effects that ran again", again(), 0)
	})
}

// effects does something in each effect, and counts those that run again.
func (w *worksite) effects(do func(events.SessionID)) (again func() int) {
	var mu sync.Mutex
	seen, more := make(map[string]bool), 0
	hold := w.toil.hold
	w.toil.hold = func(ctx context.Context, effect string) {
		mu.Lock()
		if seen[effect] {
			more++
		}
		seen[effect] = true
		mu.Unlock()
		id, _, _ := strings.Cut(effect, "/")
		do(events.SessionID(id))
		hold(ctx, effect)
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return more
	}
}

// acked hears what is said about the deliveries of the queue, as "<said> <reply subject>".
func (s *site) acked() <-chan string {
	s.t.Helper()
	list := make(chan string, 1<<12)
	sub, err := s.bus.Conn().Subscribe("$JS.ACK."+workStream+".turn.>", func(m *nats.Msg) {
		select {
		case list <- string(m.Data) + " " + m.Subject:
		default: // the test has seen enough
		}
	})
	must(s.t, "subscribe", err, nil)
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	must(s.t, "flush", s.bus.Conn().Flush(), nil)
	return list
}

// TestWakeElsewhere has a wake of a running session reach a node that does not
// run it, as the one that does is full: the first one holds that wake from then
// on, longer than the queue waits, and the second one has dropped it.
func TestWakeElsewhere(t *testing.T) {
	t.Parallel()
	for name, hinted := range map[string]bool{"hinted": true, "without_hint": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onSites(t, func(s *site) {
				id := toilSession(0)
				w := s.worksite(1)
				again := w.effects(func(events.SessionID) {})
				s.open(api.CreateRequest{ID: id})
				first := w.start()
				s.submit(id, toilTurn(0), text("do it"))
				w.held(1)
				second := w.start()
				acked, answers := s.acked(), s.answers(first.ID())
				hint := bus.WakeHint{}
				if hinted {
					hint.Worker = first.ID()
				}
				must(t, "wake", s.bus.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: id}, hint), nil)
				for signs, longest := make(map[string]int), 0; longest < 5; { // four take longer than the queue waits
					select {
					case handle := <-answers:
						signs[handle] = 0
					case said := <-acked:
						word, handle, _ := strings.Cut(said, " ")
						if _, asked := signs[handle]; asked {
							equal(t, "what is said of the second delivery", word, "+WPI")
							signs[handle]++
							longest = max(longest, signs[handle])
						}
					case <-s.ctx.Done():
						t.Fatalf("signs of life: got %v", signs)
					}
				}
				turns, _ := second.Running()
				equal(t, "turns of the second node", turns, 0)
				w.gate.open()
				record := s.ended(id, toilTurn(0))
				equal(t, "attempts", record.Attempts, 1)
				s.unqueued(id)
				for _, e := range find[*events.TurnStarted](s.bundle, id) {
					equal(t, "worker", e.Worker, first.ID())
				}
				equal(t, "audit", w.audit(1, 1), totals{})
				equal(t, "effects that ran again", again(), 0)
			})
		})
	}
}

// answers hears a worker say yes, and gives the handle of the wake that it was asked to hold.
func (s *site) answers(worker events.WorkerID) <-chan string {
	s.t.Helper()
	list := make(chan string, 64)
	sub, err := s.bus.Conn().Subscribe("lash.ask."+string(worker), func(m *nats.Msg) {
		var question struct {
			Handle string `msgpack:"h,omitempty"`
		}
		if err := msgpack.Unmarshal(m.Data, &question); err != nil {
			s.t.Errorf("question: %v", err)
		}
		if question.Handle != "" {
			list <- question.Handle
		}
	})
	must(s.t, "subscribe", err, nil)
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	must(s.t, "flush", s.bus.Conn().Flush(), nil)
	return list
}

// TestWakeStaleAck has a worker take a wake and fall silent. Later, when another
// one works, it acks the delivery, or gives it back: nothing is lost, whether
// the other lives or dies, and what is asked for meanwhile runs as well.
func TestWakeStaleAck(t *testing.T) {
	t.Parallel()
	ack, back := (*bus.Wake).Ack, func(w *bus.Wake) error { return w.GiveBack(0) }
	for name, tc := range map[string]struct {
		say      func(*bus.Wake) error
		replaced bool // a new wake came after the delivery
		killed   bool // the other worker is
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
				id, busy := s.open(api.CreateRequest{ID: toilSession(0)}), s.open(api.CreateRequest{ID: toilSession(1)})
				key := bus.WakeKey{Class: bus.ClassTurn, Session: id}
				w := s.worksite(1)
				free := w.busies(busy)
				s.submit(busy, toilTurn(0), text("do it"))
				repaired := s.repaired(busy)
				w.start()
				receive(s.bundle, "what a node wakes when it comes", repaired)
				w.held(1)
				s.submit(id, toilTurn(0), text("do it"))
				stale := s.takes(id)
				if tc.replaced {
					must(t, "wake", s.bus.PublishWake(key, bus.WakeHint{}), nil)
				}
				close(free)
				w.held(1)
				must(t, "stale word", tc.say(stale), nil)
				if tc.killed {
					w.kills[0]()
					w.start()
				} else {
					s.submit(id, toilTurn(1), text("do more"))
				}
				w.gate.open()
				equal(t, "end", s.ended(id, toilTurn(0)).End, events.EndFinished)
				s.submit(id, toilTurn(1), text("do more")) // again, where it was asked for
				s.submit(busy, toilTurn(1), text("do more"))
				for k := range 2 {
					equal(t, "end", s.ended(id, toilTurn(k)).End, events.EndFinished)
					equal(t, "end", s.ended(busy, toilTurn(k)).End, events.EndFinished)
				}
				s.unqueued(id)
				w.audit(2, 2)
			})
		})
	}
}

// repaired hears of wakes of a session that follow a death or a loss.
func (s *site) repaired(id events.SessionID) <-chan struct{} {
	s.t.Helper()
	list := make(chan struct{}, 64)
	sub, err := s.bus.Conn().Subscribe("lash.work.turn."+string(id), func(m *nats.Msg) {
		if m.Header.Get("Lash-Repair") != "" {
			list <- struct{}{}
		}
	})
	must(s.t, "subscribe", err, nil)
	s.t.Cleanup(func() { _ = sub.Unsubscribe() })
	must(s.t, "flush", s.bus.Conn().Flush(), nil)
	return list
}

// busies holds the first effect of a session until it is free, and others' as before.
func (w *worksite) busies(id events.SessionID) (free chan struct{}) {
	free = make(chan struct{})
	hold := w.toil.hold
	w.toil.hold = func(ctx context.Context, effect string) {
		if !strings.HasPrefix(effect, string(id)+"/") {
			hold(ctx, effect)
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

// takes takes a wake of a session as a worker does that falls silent then.
func (s *site) takes(id events.SessionID) (taken *bus.Wake) {
	s.t.Helper()
	queue, err := s.bus.Queue(s.ctx, bus.ClassTurn)
	must(s.t, "join", err, nil)
	for taken == nil && s.ctx.Err() == nil {
		_, err = queue.Fetch(s.ctx, 1, time.Minute, func(w *bus.Wake) {
			if w.Session == id {
				taken = w
			}
		})
		must(s.t, "fetch", err, nil)
	}
	return taken
}
