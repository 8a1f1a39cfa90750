package sim

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/work"
)

// concurrency is the number of sessions whose turns a node runs at once.
const concurrency = 2

// node is a process that runs turns and tasks. Its memory is lost when it dies.
type node struct {
	w        *world
	id       events.WorkerID
	host     *host
	frozen   bool // it does nothing, and responds to nothing
	draining bool // it stops in order
	runs     []*run
	effects  []*effect
	tasks    []*taskRun
}

func (w *world) newNode() *node {
	w.workers++
	id := events.WorkerID(fmt.Sprintf("w%d", w.workers))
	return &node{w: w, id: id, host: newHost(w, id)}
}

// kill is kill -9, and the start of a process with another id. Another worker may notice the death, and publishes a
// wake for every session that has one.
func (n *node) kill() {
	for _, r := range n.runs {
		n.host.later(r.branch...)
	}
	for _, r := range n.tasks {
		n.host.later(r.hints...)
	}
	for _, e := range n.effects {
		n.host.later(e.todo...)
	}
	n.host.die()
	n.w.t.Logf("%s dies", n.id)
	*n = *n.w.newNode()
	if n.w.chance(3, "noticed") {
		for _, m := range slices.Clone(n.w.queue.list) {
			if m.task == "" {
				n.w.publish(m.wakeKey, "")
			}
		}
	}
}

// freeze freezes a node between two steps for any time, or continues it.
func (n *node) freeze() { n.frozen = !n.frozen }

// Drain starts an orderly stop of a node.
func (n *node) Drain() {
	if !n.draining && n.w.chance(3, "drains") {
		n.w.t.Logf("%s drains", n.id)
		n.draining = true
	}
}

// drained ends an orderly stop, once the node has no work.
func (n *node) drained() {
	busy := slices.ContainsFunc(n.effects, func(e *effect) bool { return len(e.todo) > 0 })
	if n.draining && !busy && len(n.runs) == 0 && len(n.tasks) == 0 && len(n.host.calls) == 0 {
		*n = *n.w.newNode()
	}
}

func (n *node) goOn() {
	if !n.frozen {
		n.host.goOn(n.w.t)
	}
}

// runOf is the run of a session; nil where none runs.
func (n *node) runOf(id events.SessionID) *run {
	for _, r := range n.runs {
		if r.session == id && r.listed {
			return r
		}
	}
	return nil
}

func (n *node) full() bool {
	listed := 0
	for _, r := range n.runs {
		if r.listed {
			listed++
		}
	}
	return listed >= concurrency
}

// fetch takes a waiting wake: of a session where the node has capacity, or of a task.
func (n *node) fetch() {
	if n.frozen || n.draining {
		return
	}
	tasks := n.w.queue.waiting(n.w.now, true)
	if len(tasks) > 0 && rapid.Bool().Draw(n.w.t, "task") {
		n.takeTask(pick(n.w, tasks, "wake"))
		return
	}
	if n.full() {
		return
	}
	if m := pick(n.w, n.w.queue.waiting(n.w.now, false), "wake"); m != nil {
		n.w.queue.deliver(m)
		n.deliver(m)
	}
}

// deliver gives a wake to the session's run, offers it to the worker in its hint, or starts a run.
func (n *node) deliver(m *wake) {
	if n.runOf(m.session) != nil || m.hint == "" || m.hint == n.id || m.times > 1 {
		n.accept(m)
		return
	}
	yes := false
	n.host.later(
		func() { yes = n.w.request(m.hint, func(to *node) bool { return to.receiveOffer(m) }) },
		func() {
			if !yes {
				n.accept(m)
			}
		})
}

// request sends a request to a worker. It is false where the worker is dead or frozen, or the request or its response is
// lost.
func (w *world) request(worker events.WorkerID, question func(*node) bool) bool {
	n := w.node(worker)
	if n == nil || n.frozen || w.chance(8, "question lost") {
		return false
	}
	return question(n) && !w.chance(8, "answer lost")
}

// receiveOffer receives a wake that was delivered to another worker.
func (n *node) receiveOffer(m *wake) bool {
	r := n.runOf(m.session)
	if r == nil && (n.draining || n.full()) {
		return false
	}
	if r == nil {
		n.start(m.session, m)
		return true
	}
	r.replaceWakeLocked(m)
	return true
}

// accept gives a wake to the session's run, starts a run, or returns the wake to the queue.
func (n *node) accept(m *wake) {
	switch r := n.runOf(m.session); {
	case r != nil:
		r.replaceWakeLocked(m)
	case n.full() || n.draining:
		n.w.maybeLost(func() { n.w.queue.nak(m, n.w.now) })
	default:
		n.start(m.session, m)
	}
}

// respond receives the wake of a turn that runs here.
func (n *node) respond(id events.SessionID, turn events.TurnID, attempt int64, m *wake) bool {
	r := n.runOf(id)
	if r == nil || r.m.Claimed() != (work.Attempt{Turn: turn, Number: attempt}) {
		return false
	}
	if m != nil {
		r.replaceWakeLocked(m)
	}
	return true
}

// NeedsWorker is the notification that a host of this process appended to a session.
func (n *node) NeedsWorker(id events.SessionID) {
	switch r := n.runOf(id); {
	case r != nil:
		r.logMovedLocked()
	case !n.full() && !n.draining:
		n.start(id, nil)
	}
}

func (n *node) notified(id events.SessionID) {
	if r := n.runOf(id); r != nil {
		r.logMovedLocked()
	}
}

// step executes the next step of one of the runs.
func (n *node) step() {
	if n.frozen {
		return
	}
	n.drained()
	if len(n.tasks) > 0 && (len(n.runs) == 0 || rapid.Bool().Draw(n.w.t, "task")) {
		n.stepTask()
		return
	}
	if r := pick(n.w, n.runs, "run"); r != nil {
		r.nextStep()
	}
}

// finish executes the next step of one of the effects.
func (n *node) finish() {
	if n.frozen {
		return
	}
	n.effects = slices.DeleteFunc(n.effects, func(e *effect) bool { return e.over })
	if e := pick(n.w, n.effects, "effect"); e != nil {
		e.step()
	}
}

// work executes several steps of one node without other processes, so that schedules progress.
func (n *node) work() {
	for range rapid.IntRange(1, 10).Draw(n.w.t, "rounds") {
		n.goOn()
		n.fetch()
		n.step()
		n.finish()
	}
}

// TakeState is a copy of the cached state; nil where there is none.
func (n *node) TakeState(id events.SessionID) *projector.State {
	if s := n.host.states[id]; s != nil {
		return s.Clone()
	}
	return nil
}
