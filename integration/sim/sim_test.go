package sim

import (
	"context"
	"flag"
	"fmt"
	"runtime/debug"
	"testing"

	"github.com/oklog/ulid/v2"
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

const (
	nodes    = 3
	sessions = 2
	turns    = 4 // number of turn ids in each session
)

// world is the state of the whole simulation.
type world struct {
	t          *rapid.T
	ctx        context.Context
	truth      *events.MemLog
	log        *eventstest.FaultyLog
	now        events.Millis
	queue      queue
	timers     map[events.SessionID]events.Millis
	nodes      []*node
	clientHost *host // host of the clients outside of nodes
	facts      *facts
	tasks      map[taskName]*taskFacts
	acts       map[events.CommitID]act

	ids      uint64
	workers  int
	script   int  // selects the replies of each turn
	lossy    bool // publishes are lost, and hosts die before theirs; the sweep runs
	settling bool // no more faults
}

func newWorld(t *rapid.T) *world {
	w := &world{
		t: t, ctx: context.Background(), truth: &events.MemLog{}, now: 1000, timers: make(map[events.SessionID]events.Millis), facts: newFacts(),
		tasks: make(map[taskName]*taskFacts), acts: make(map[events.CommitID]act),
	}
	w.lossy = rapid.Bool().Draw(t, "lossy")
	w.script = rapid.IntRange(0, len(scripts)-1).Draw(t, "script")
	giveUp := 0
	if w.lossy { // a stored append with an unknown outcome has no wake
		giveUp = 3
	}
	w.log = eventstest.NewFaultyLog(w.truth, eventstest.FaultOptions{
		Seed: rapid.Uint64().Draw(t, "faults"), Rate: rapid.SampledFrom([]float64{0, 0.1, 0.3}).Draw(t, "rate"), GiveUpAfter: giveUp,
	})
	w.clientHost = newHost(w, "")
	for i := range sessions {
		w.open(sessionID(i))
	}
	for range nodes {
		w.nodes = append(w.nodes, w.newNode())
	}
	return w
}

func sessionID(i int) events.SessionID { return events.SessionID(fmt.Sprintf("s%d", i)) }

func turnID(i int) events.TurnID { return events.TurnID(fmt.Sprintf("t%d", i)) }

// open creates a session, once.
func (w *world) open(id events.SessionID) {
	if w.facts.of[id] != nil {
		return
	}
	w.facts.add(id)
	if _, err := w.truth.Append(w.ctx, w.commit(id, "", events.Of("", &events.SessionOpened{})), 0); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) commit(id events.SessionID, by events.WorkerID, list ...events.Event) *events.Commit {
	w.ids++
	w.now++
	var raw ulid.ULID
	for i := range 8 {
		raw[15-i] = byte(w.ids >> (8 * i))
	}
	return &events.Commit{
		ID: events.CommitID(raw.String()), Session: id, At: w.now, Actor: events.Actor{Kind: events.ActorNode, ID: string(by)}, Events: list,
	}
}

// state is the state at the end of a session's history. The caller must not change it.
func (w *world) state(id events.SessionID) *projector.State {
	w.check(w.t)
	return w.facts.of[id].verifier.State()
}

// chance is true once in n times, while there are faults.
func (w *world) chance(n int, what string) bool {
	return !w.settling && rapid.IntRange(0, n-1).Draw(w.t, what) == n-1
}

// pick is an element of a list; the zero value of an empty list.
func pick[T any](w *world, list []T, what string) (one T) {
	switch len(list) {
	case 0:
		return one
	case 1:
		return list[0]
	}
	return list[rapid.IntRange(0, len(list)-1).Draw(w.t, what)]
}

// publish publishes a wake: it arrives once, twice, or never.
func (w *world) publish(key wakeKey, hint events.WorkerID) {
	if w.lossy && w.chance(6, "lost") {
		return
	}
	w.queue.publish(key, hint)
	if w.chance(12, "doubled") {
		w.clientHost.later(func() { w.queue.publish(key, hint) })
	}
}

// notify notifies a worker of a commit to a session.
func (w *world) notify(worker events.WorkerID, id events.SessionID) {
	if n := w.node(worker); n != nil && !n.frozen && !w.chance(4, "lost") {
		n.notified(id)
	}
}

// setTimer replaces the timer of a session.
func (w *world) setTimer(id events.SessionID, at events.Millis) {
	if !w.lossy || !w.chance(6, "lost") {
		w.timers[id] = at
	}
}

// maybeLost sends an acknowledgement or a return of a wake to the queue. It may be lost.
func (w *world) maybeLost(do func()) {
	if !w.chance(8, "lost") {
		do()
	}
}

// node is the node of a live worker; nil where it is dead.
func (w *world) node(id events.WorkerID) *node {
	for _, n := range w.nodes {
		if n.id == id {
			return n
		}
	}
	return nil
}

// pass advances the clock.
func (w *world) pass(*rapid.T) {
	w.now += rapid.SampledFrom([]events.Millis{1, 60, 200, 2000, 20_000}).Draw(w.t, "ms")
}

// ring delivers a due timer to a worker. The worker may die before it deletes the timer, which then fires again.
func (w *world) ring(*rapid.T) {
	for _, id := range w.facts.ids {
		at, set := w.timers[id]
		if !set || at > w.now {
			continue
		}
		w.queue.publish(wakeKey{session: id}, "")
		if !w.chance(8, "again") {
			delete(w.timers, id)
		}
		return
	}
}

// silence is the ack timeout of a wake, whether its node lives or not.
func (w *world) silence(*rapid.T) {
	var inFlight []*wake
	for _, m := range w.queue.list {
		if m.delivered {
			inFlight = append(inFlight, m)
		}
	}
	if m := pick(w, inFlight, "wake"); m != nil {
		w.t.Logf("the wake of %s %s is delivered again", m.session, m.task)
		w.queue.silent(m)
	}
}

// TestSimulation runs 300 schedules from seed 1 on, and 2 000 as a long test. The flags of rapid choose others:
// -rapid.seed, -rapid.checks.
func TestSimulation(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "1", "rapid.checks": runtest.Of("300", "2000")} {
		f := flag.Lookup(name)
		if f.Value.String() != f.DefValue {
			continue
		}
		if err := flag.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // most memory of a schedule is short-lived
	rapid.Check(t, simulate)
}

func simulate(t *rapid.T) {
	w := newWorld(t)
	actions := w.actions()
	for range 4 {
		t.Repeat(actions)
	}
	w.finishAll()
}

func (w *world) actions() map[string]func(*rapid.T) {
	on := func(do func(*node)) func(*rapid.T) {
		return func(*rapid.T) { do(pick(w, w.nodes, "node")) }
	}
	return map[string]func(*rapid.T){
		"submit": w.submit, "schedule": w.schedule, "cancel": w.cancel, "inject": w.inject, "answer": w.answerApproval, "resolve": w.resolve,
		"register": w.register, "cancel_task": w.cancelTask, "transfer": w.transfer, "monitor": w.startMonitor, "spawn": on((*node).spawn),
		"client": w.clientHost.goOn, "client_more": w.clientHost.goOn, "pass": w.pass, "ring": w.ring, "silence": w.silence, "sweep": w.sweep,
		"fetch": on((*node).fetch), "fetch_more": on((*node).fetch),
		"step": on((*node).step), "step_more": on((*node).step), "step_on": on((*node).step),
		"finish": on((*node).finish), "finish_more": on((*node).finish), "host": on((*node).goOn),
		"work": on((*node).work), "work_more": on((*node).work),
		"freeze": on((*node).freeze), "drain": on((*node).Drain), "kill": on((*node).kill),
		"": w.check,
	}
}
