package sim

import (
	"errors"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// taskRun is a node's work on one task: it reads the record, claims, runs the body and records the outcome.
type taskRun struct {
	n          *node
	session    events.SessionID
	task       events.TaskID
	wake       *wake // nil: another node has a newer one, or it was acknowledged
	inbox      []*wake
	do         func() (over bool)
	hints      []func() // wakes and notifications of its appends, which come before the next step
	claim      task.Claim
	made       events.Millis
	again      bool
	call       *remote // whose tool it runs
	monitors   bool
	local      bool // its body is a closure of the node
	reserved   bool // the node responds for it: it is about to be listed
	listed     bool // the node responds for it, and gives it wakes
	outOfTouch bool // the node had no contact with the queue

	over          bool // the history needs nothing from it
	stopRequested bool // a stop was requested
	cause         string
	ended         string // outcome of the body, until it is recorded
	result        *events.ToolResult
	resolved      bool // the call has its result
}

// Causes that cancel the context of a body, and outcomes of a body.
const (
	causeCancelled  = "cancelled"
	causeSuperseded = "superseded"
	causeOutOfTouch = "was out of touch"
	causeStopped    = "stopped"
	bodyDone        = "done"
	bodyFailed      = "failed"
)

// takeTask takes the wake of a task. The node's run of the task receives it, if there is one.
func (n *node) takeTask(m *wake) {
	n.w.queue.deliver(m)
	if r := n.taskRunOf(m.session, m.task); r != nil {
		r.inbox = append(r.inbox, m)
		return
	}
	r := &taskRun{n: n, session: m.session, task: m.task, wake: m}
	r.do = r.decide
	n.tasks = append(n.tasks, r)
}

func (n *node) taskRunOf(id events.SessionID, name events.TaskID) *taskRun {
	for _, r := range n.tasks {
		if r.listed && r.session == id && r.task == name {
			return r
		}
	}
	return nil
}

// stepTask executes the next step of one of the node's task runs.
func (n *node) stepTask() {
	if r := pick(n.w, n.tasks, "task run"); r != nil {
		n.stepRun(r)
	}
}

func (n *node) stepRun(r *taskRun) {
	if len(r.hints) > 0 {
		do := r.hints[0]
		r.hints = r.hints[1:]
		do()
		return
	}
	if r.do() {
		n.tasks = slices.DeleteFunc(n.tasks, func(have *taskRun) bool { return have == r })
		for _, m := range r.inbox { // not yet received
			r.wake = m
			r.returnWake()
		}
	}
}

func (r *taskRun) returnWake() (over bool) {
	if m := r.wake; m != nil {
		r.n.w.maybeLost(func() { r.n.w.queue.nak(m, r.n.w.now) })
	}
	return true
}

func (r *taskRun) ack() (over bool) {
	if m := r.wake; m != nil {
		r.n.w.maybeLost(func() { r.n.w.queue.ack(m) })
	}
	r.wake = nil
	return true
}

// later returns the wake to the queue for a while.
func (r *taskRun) later() (over bool) {
	if m := r.wake; m != nil {
		r.n.w.maybeLost(func() { r.n.w.queue.nak(m, r.n.w.now+100) })
	}
	return true
}

// recordOf is a task's record in the newest state.
func (r *taskRun) recordOf(id events.SessionID) (projector.Task, bool) {
	if r.n.w.facts.of[id] == nil {
		return projector.Task{}, false
	}
	t, ok := r.n.host.load(id, true).Task(r.task)
	if !ok {
		return projector.Task{}, false
	}
	return *t, true
}

// decide decides on a wake with the newest state.
func (r *taskRun) decide() (over bool) {
	if have := r.n.taskRunOf(r.session, r.task); have != nil { // another run of the task started meanwhile
		have.inbox = append(have.inbox, r.wake)
		return true
	}
	rec, ok := r.recordOf(r.session)
	if ok && rec.Live() && r.n.host.inTwo(&rec) {
		m := &move{h: r.n.host, from: rec.From, to: r.session, ids: []events.TaskID{rec.ID}, finishes: true}
		r.do = func() bool {
			if m.step() {
				r.do = r.decide
			}
			return false
		}
		return false
	}
	if !ok {
		return r.ack()
	}
	call, remote := remoteOf(&rec)
	switch task.OnWake(&rec, remote) {
	case task.StepResolve:
		return r.resolveEnded()
	case task.StepNone:
		return r.ack()
	case task.StepStart:
		r.do = func() bool { return r.startTask(&rec) }
		return false
	default: // task.StepAsk: no session closes, and no task has a child
	}
	if !r.gone(&rec) {
		return true // the other run has it
	}
	if remote {
		r.call = &call
	}
	return r.takeOver(&rec)
}

// resolveEnded records the result of a call whose task was ended from outside.
func (r *taskRun) resolveEnded() (over bool) {
	call, waits := awaits(r.n.host.load(r.session, true), r.task)
	if !waits {
		return r.ack()
	}
	if err := r.resolveCall(call, cancelledCall()); err != nil {
		return r.later()
	}
	r.do = r.ack
	return false
}

func cancelledCall() events.ToolResult {
	return events.ToolResult{Outcome: events.OutcomeCancelled, Text: "[cancelled]"}
}

// resolveCall records the result of a call, unless it has one, or no turn waits for it.
func (r *taskRun) resolveCall(call remote, result events.ToolResult) error {
	result.Call = call.index
	hints, err := r.n.host.resolve(r.session, call.effect, result)
	r.hints = append(r.hints, hints...)
	if errors.Is(err, errRefused) {
		return nil
	}
	return err
}

// gone asks the worker of a task whether it runs the task. If it does, it receives the wake. A dead worker does not
// respond. A worker that was frozen for too long ends its run.
func (r *taskRun) gone(rec *projector.Task) bool {
	n := r.n.w.node(rec.Worker)
	if n == nil {
		return true
	}
	for _, other := range n.tasks {
		same := other.session == r.session && other.task == r.task || rec.From != "" && other.task == r.task && other.made == rec.CreatedAt
		switch {
		case !same || !other.listed && !other.reserved || other == r:
		case n.frozen || n != r.n && other.outOfTouch:
			other.outOfTouch = true
			return true
		case other.listed:
			other.inbox = append(other.inbox, r.wake)
			return false
		default:
			return false
		}
	}
	return true
}

// takeOver handles a task of a dead worker: the task runs again, or ends with the evidence.
func (r *taskRun) takeOver(rec *projector.Task) (over bool) {
	seen := task.ClaimOf(rec)
	switch task.OnGone(rec, attempts) {
	case task.StepCancel:
		r.do = r.resolveThen(cancelledCall(), func(s *projector.State) ([]events.Event, error) {
			return task.While(s, seen, func() []events.Event { return task.Cancel(s, r.task, "requested by host") })
		}, seen)
	case task.StepStart:
		r.do = func() bool { return r.startTask(rec) }
	default: // task.StepGiveUp and task.StepAbandon
		r.do = r.resolveThen(events.ToolResult{Outcome: events.OutcomeLost, Text: "lost"}, func(s *projector.State) ([]events.Event, error) {
			return task.Abandon(s, seen, goneText(rec.Worker))
		}, seen)
	}
	return false
}

// resolveThen ends a task of a dead worker, after its call has a result.
func (r *taskRun) resolveThen(result events.ToolResult, end decideFunc, seen task.Claim) func() bool {
	return func() bool {
		if r.call != nil {
			if err := r.resolveCall(*r.call, result); err != nil {
				return r.later()
			}
		}
		r.do = func() bool {
			hints, err := r.n.host.decideAs(r.session, act{by: r.n.id, claim: seen}, end)
			if r.hints = append(r.hints, hints...); r.n.w.tolerated(err) != nil {
				return r.later()
			}
			r.do = r.ack
			return false
		}
		return false
	}
}

// startTask claims a task. The append requires the claim that the state shows.
func (r *taskRun) startTask(rec *projector.Task) (over bool) {
	if r.n.draining {
		return r.later()
	}
	r.reserved = true
	seen := task.ClaimOf(rec)
	_, err := r.n.host.decideAs(r.session, act{by: r.n.id, claim: seen}, func(s *projector.State) ([]events.Event, error) {
		return task.ClaimFor(s, seen, r.n.id)
	})
	if r.n.w.tolerated(err) != nil {
		return r.later()
	}
	claimed, _ := r.n.host.load(r.session, false).Task(r.task)
	now := *claimed
	r.do = func() bool { return r.launch(&now) }
	return false
}

// launch starts the body of a claimed task.
func (r *taskRun) launch(rec *projector.Task) (over bool) {
	if old := r.n.taskRunOf(r.session, r.task); old != nil {
		old.listed = false
	}
	r.claim, r.made, r.again = task.ClaimOf(rec), rec.CreatedAt, rec.Restart == events.RestartAlways
	r.reserved, r.listed = false, true
	if call, ok := remoteOf(rec); ok {
		r.call = &call
	}
	r.monitors = rec.Of == events.TaskMonitor && rec.Runner == task.MonitorRunner
	r.n.w.taskRuns(r)
	r.do = r.runs
	return false
}

// spawn registers a task whose body is a closure of the node, and starts it.
func (n *node) spawn() {
	if n.frozen || n.draining {
		return
	}
	id := n.w.firstSession()
	r := &taskRun{n: n, session: id, task: n.w.taskID(id), local: true, reserved: true}
	r.do = func() bool {
		reg := events.TaskRegistered{Task: r.task, Worker: n.id, State: events.TaskRunning}
		hints, err := n.host.decide(r.session, func(s *projector.State) ([]events.Event, error) { return registering(s, reg) })
		if r.hints = hints; n.w.tolerated(err) != nil {
			return true
		}
		t, _ := n.host.load(r.session, false).Task(r.task)
		rec := *t
		r.do = func() bool { return r.launch(&rec) }
		return false
	}
	n.tasks = append(n.tasks, r)
}

// body is one random action of the body or its supervisor, while there are faults.
func (r *taskRun) body() string {
	does := []string{"look", "says", "waits", "ends"}
	if r.monitors {
		does = append(does, "reports", "reports")
	}
	if len(r.inbox) > 0 {
		does = append(does, "holds", "holds")
	}
	return rapid.SampledFrom(does).Draw(r.n.w.t, "body")
}
