package sim

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// concurrency is how many sessions' turns a node runs at once.
const concurrency = 2

// node is a process that runs turns and tasks. What it keeps is gone when it dies.
type node struct {
	w        *world
	id       events.WorkerID
	host     *host
	frozen   bool // it does nothing, and answers nothing
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

// kill is kill -9 and a new process, with another id. The neighbour of the dead
// node may notice, and wakes every session that has a wake.
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

// freeze stops a node between two steps, for any time, or lets it go on.
func (n *node) freeze() { n.frozen = !n.frozen }

// drain makes a node stop in order.
func (n *node) drain() {
	if !n.draining && n.w.chance(3, "drains") {
		n.w.t.Logf("%s drains", n.id)
		n.draining = true
		for _, r := range n.runs {
			r.moved = true
		}
	}
}

// drained is the end of a node that stops, once it holds nothing.
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

// find is the run of a session; nil where there is none, or it has ended.
func (n *node) find(id events.SessionID) *run {
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

// fetch takes a wake that waits: a session's where a run more may start here, or a task's.
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

// deliver gives a wake to the session's run, or offers it to the worker that it
// names, or starts a run.
func (n *node) deliver(m *wake) {
	if n.find(m.session) != nil || m.hint == "" || m.hint == n.id || m.times > 1 {
		n.place(m)
		return
	}
	yes := false
	n.host.later(
		func() { yes = n.w.asks(m.hint, func(to *node) bool { return to.offered(m) }) },
		func() {
			if !yes {
				n.place(m)
			}
		})
}

// asks puts a question to a worker. One that is dead, or stopped, or whose
// question or answer is lost, is a no.
func (w *world) asks(worker events.WorkerID, question func(*node) bool) bool {
	n := w.node(worker)
	if n == nil || n.frozen || w.chance(8, "question lost") {
		return false
	}
	return question(n) && !w.chance(8, "answer lost")
}

// offered takes a wake that another worker was given.
func (n *node) offered(m *wake) bool {
	r := n.find(m.session)
	if r == nil && (n.draining || n.full()) {
		return false
	}
	if r == nil {
		n.start(m.session, m)
		return true
	}
	r.hold(m)
	return true
}

// place gives a wake to the session's run, or starts one, or gives it back.
func (n *node) place(m *wake) {
	switch r := n.find(m.session); {
	case r != nil:
		r.hold(m)
	case n.full() || n.draining:
		n.w.say(func() { n.w.queue.giveBack(m, n.w.now) })
	default:
		n.start(m.session, m)
	}
}

func (n *node) start(id events.SessionID, m *wake) {
	n.runs = append(n.runs, &run{n: n, w: n.w, session: id, wake: m, came: 1, seen: -1, listed: true})
}

// holds takes the wake of a turn that runs here.
func (n *node) holds(id events.SessionID, turn events.TurnID, attempt int64, m *wake) bool {
	r := n.find(id)
	if r == nil || r.turn != turn || r.attempt != attempt {
		return false
	}
	if m != nil {
		r.hold(m)
	}
	return true
}

// hinted is told that a host of this process appended to a session.
func (n *node) hinted(id events.SessionID) {
	switch r := n.find(id); {
	case r != nil:
		r.behind()
	case !n.full() && !n.draining:
		n.start(id, nil)
	}
}

func (n *node) notified(id events.SessionID) {
	if r := n.find(id); r != nil {
		r.behind()
	}
}

// step lets one of the runs do the next thing.
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
		r.step()
	}
}

// finish lets one of the effects do the next thing.
func (n *node) finish() {
	if n.frozen {
		return
	}
	n.effects = slices.DeleteFunc(n.effects, func(e *effect) bool { return e.over })
	if e := pick(n.w, n.effects, "effect"); e != nil {
		e.step()
	}
}

// work is a while in which no other node does anything, so that schedules come far.
func (n *node) work() {
	for range rapid.IntRange(1, 10).Draw(n.w.t, "rounds") {
		n.goOn()
		n.fetch()
		n.step()
		n.finish()
	}
}

// cached is a copy of the state that the process has; nil where it has none.
func (n *node) cached(id events.SessionID) *projector.State {
	if s := n.host.held[id]; s != nil {
		return s.Clone()
	}
	return nil
}
