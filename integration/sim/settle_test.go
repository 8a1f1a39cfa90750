package sim

import (
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventstest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// sweep publishes the missing wakes of sessions and tasks.
func (w *world) sweep(*rapid.T) {
	if !w.lossy {
		return
	}
	for _, id := range w.facts.ids {
		s, key := w.state(id), wakeKey{session: id}
		owing := turn.NeedsWorker(s, w.now)
		if owing && !w.queue.has(key) {
			w.publish(key, s.Worker)
		}
		w.sweepTasks(s)
		if due := turn.Due(s); due != 0 && !owing {
			w.setTimer(id, due)
		}
	}
}

// rounds bounds the rounds of an orderly end.
const rounds = 400

// finishAll runs everything without faults until nothing is left to do, and checks that every accepted command has ended.
func (w *world) finishAll() {
	w.log = eventstest.NewFaultyLog(w.truth, eventstest.FaultOptions{})
	restart := rapid.Bool().Draw(w.t, "restart")
	w.settling = true
	for _, n := range w.nodes {
		n.frozen = false
		if restart {
			n.kill()
		}
	}
	w.t.Logf("faults end")
	for i := 0; !w.idle(); i++ {
		if i == rounds {
			w.stuck()
		}
		w.round(i)
		w.check(w.t)
	}
	for _, id := range w.facts.ids {
		w.checkEnded(w.facts.of[id])
	}
}

func (w *world) round(i int) {
	w.now += 100
	if i > rounds/2 { // pending timers
		w.now += 2000
	}
	w.clientHost.finish()
	if i%8 == 0 {
		w.approveAll()
		w.redeliver()
		w.sweep(w.t)
	}
	w.ring(w.t)
	for _, n := range w.nodes {
		n.runAll()
	}
}

// runAll runs every part of a node.
func (n *node) runAll() {
	n.host.finish()
	n.drained()
	for _, m := range n.w.queue.waiting(n.w.now, false) {
		if !n.draining && !n.full() {
			n.w.queue.deliver(m)
			n.deliver(m)
		}
	}
	for _, m := range n.w.queue.waiting(n.w.now, true) {
		if !n.draining {
			n.takeTask(m)
		}
	}
	for range 2 { // a read, and its consequence
		for _, r := range slices.Clone(n.runs) {
			r.nextStep()
		}
	}
	for _, e := range slices.Clone(n.effects) {
		if !e.over {
			e.step()
		}
	}
	n.effects = slices.DeleteFunc(n.effects, func(e *effect) bool { return e.over })
	for _, r := range slices.Clone(n.tasks) {
		n.stepRun(r)
	}
}

// redeliver is the ack timeout of wakes that no node keeps.
func (w *world) redeliver() {
	owned := make(map[*wake]bool)
	for _, n := range w.nodes {
		for _, r := range n.runs {
			owned[r.wake] = true
		}
		for _, r := range n.tasks {
			owned[r.wake] = true
			for _, m := range r.inbox {
				owned[m] = true
			}
		}
	}
	for _, m := range w.queue.list {
		if m.delivered && !owned[m] {
			w.queue.silent(m)
		}
	}
}

// approveAll is a client that answers every approval request.
func (w *world) approveAll() {
	for _, id := range w.facts.ids {
		t := w.state(id).Turn()
		for i := 0; t != nil && !t.Cancelled && i < len(t.Asks); i++ {
			if !t.Asks[i].Answered {
				w.clientHost.approve(approvalAnswer{id, events.ToolApprovalGiven{Effect: t.Asks[i].Effect, Granted: true}})
			}
		}
	}
}

// idle reports whether no work is left.
func (w *world) idle() bool {
	if len(w.queue.list) > 0 || len(w.clientHost.calls) > 0 {
		return false
	}
	for _, id := range w.facts.ids {
		if s := w.state(id); !ended(s) {
			return false
		}
	}
	return w.tasksDone()
}

func ended(s *projector.State) bool { return s.Idle() && len(s.Scheduled) == 0 }

// stuck fails with the work that never ends.
func (w *world) stuck() {
	for _, m := range w.queue.list {
		w.t.Logf("wake: %+v", *m)
	}
	for name, k := range w.tasks {
		if k.live {
			w.t.Logf("task: %+v %+v", name, *k)
		}
	}
	for _, id := range w.facts.ids {
		if s := w.state(id); !ended(s) {
			w.t.Fatalf("session %s never ends: turn %+v, owed %+v, queue %+v, scheduled %+v", id, s.Turn(), turn.Next(s), s.Queue, s.Scheduled)
		}
	}
	w.t.Fatalf("a wake, or a task, never ends")
}

// checkEnded checks that an accepted turn has ended once, and that its message is part of exactly one turn.
func (w *world) checkEnded(h *history) {
	s := h.verifier.State()
	for id := range h.requested {
		if len(h.ends[id]) != 1 {
			w.t.Fatalf("turn %s of %s: got ends %v, want one", id, h.id, h.ends[id])
		}
	}
	for _, id := range h.accepted {
		if len(h.ends[id]) != 1 {
			w.t.Fatalf("turn %s of %s: a client was told that it is accepted, got ends %v", id, h.id, h.ends[id])
		}
	}
	for _, id := range h.cancelAccepted {
		if end := h.ends[id]; len(end) != 1 || end[0] != events.EndCancelled && end[0] != events.EndFailed {
			w.t.Fatalf("turn %s of %s: a client was told that it is cancelled, got ends %v", id, h.id, h.ends[id])
		}
	}
	w.checkMessages(h, s)
}

func (w *world) checkMessages(h *history, s *projector.State) {
	nodes, err := s.AllNodes()
	if err != nil {
		w.t.Fatal(err)
	}
	turnsByText := make(map[string][]events.TurnID)
	for _, n := range nodes {
		if n.Message.Role == events.RoleUser {
			turnsByText[n.Message.Text()] = append(turnsByText[n.Message.Text()], n.Turn)
		}
	}
	for i := range turns {
		id := turnID(i)
		record, err := s.Record(id)
		if err != nil {
			w.t.Fatal(err)
		}
		var want []events.TurnID
		switch {
		case record == nil:
		case record.Index > 0:
			want = []events.TurnID{id}
		case record.End == events.EndInjected:
			want = []events.TurnID{record.By}
		case record.End == events.EndBranched && len(w.facts.of[record.Session].ends[id]) != 1:
			w.t.Fatalf("turn %s of %s: got no end in %s", id, h.id, record.Session)
		}
		if !slices.Equal(turnsByText[string(id)], want) {
			w.t.Fatalf("message of turn %s of %s: got it in turns %v, want %v", id, h.id, turnsByText[string(id)], want)
		}
	}
}
