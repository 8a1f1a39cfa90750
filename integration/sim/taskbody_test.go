package sim

import (
	"errors"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/task"
)

// runs executes a step of the body or its supervisor.
func (r *taskRun) runs() (over bool) {
	switch {
	case r.ended != "":
		return r.finish()
	case r.n.draining && (r.again || r.monitors):
		r.stop(causeStopped)
		r.ended = bodyFailed
		return false
	case r.outOfTouch && !r.local && r.n.w.chance(2, "fence"):
		r.stop(causeOutOfTouch)
		r.ended = bodyFailed
		return false
	}
	do := "ends"
	if !r.n.w.settling {
		do = r.body()
	}
	for r.n.w.settling && len(r.inbox) > 0 {
		r.storeWake(r.inbox[0])
		r.inbox = r.inbox[1:]
	}
	switch do {
	case "holds":
		r.storeWake(r.inbox[0])
		r.inbox = r.inbox[1:]
	case "look":
		r.compare()
	case "says":
		_ = r.append(func(s *projector.State) []events.Event { return task.Progress(s, r.task, "half of it") })
	case "waits":
		_ = r.append(func(s *projector.State) []events.Event { return task.Transition(s, r.task, events.TaskWaiting) })
	case "reports":
		r.report()
	case "ends":
		r.ends()
	}
	return false
}

// ends ends the body. Before that, the tool of a call runs and returns its result.
func (r *taskRun) ends() {
	if r.call == nil || r.cause != "" {
		r.ended = bodyDone
		if r.cause != "" || !r.n.w.settling && rapid.Bool().Draw(r.n.w.t, "fails") {
			r.ended = bodyFailed
		}
		return
	}
	s := r.n.host.load(r.session, true)
	switch {
	case r.result == nil && !r.call.awaited(s.Turn()):
		r.ended = bodyDone // the turn has ended
	case r.result == nil:
		r.n.w.startCall(r.session, r.call.tool, r.call.effect)
		r.result = &events.ToolResult{Text: "done"}
	case r.resolveCall(*r.call, *r.result) == nil:
		r.ended, r.resolved = bodyDone, true
	}
}

// report records a line of a monitor. The line may become a turn.
func (r *taskRun) report() {
	own := act{by: r.n.id, claim: r.claim, own: true}
	hints, err := r.n.host.decideAs(r.session, own, func(s *projector.State) ([]events.Event, error) {
		return task.Report(s, r.claim, []task.Line{{Text: "line"}})
	})
	_ = r.n.w.tolerated(err)
	r.hints = append(r.hints, hints...)
}

// append appends a decision while the run's claim is current.
func (r *taskRun) append(d func(*projector.State) []events.Event) error {
	own := act{by: r.n.id, claim: r.claim, own: true}
	hints, err := r.n.host.decideAs(r.session, own, func(s *projector.State) ([]events.Event, error) {
		return task.While(s, r.claim, func() []events.Event { return d(s) })
	})
	r.hints = append(r.hints, hints...)
	return r.n.w.tolerated(err)
}

// stop cancels the body's context; the first cause counts.
func (r *taskRun) stop(cause string) {
	if r.cause == "" {
		r.cause = cause
	}
}

// storeWake receives a wake that arrives while the task runs.
func (r *taskRun) storeWake(m *wake) {
	have := r.wake
	r.wake = m
	if r.over { // it may be of a later task of that id, which waits for the end of this run
		r.later()
		r.wake = have
	}
}

// ackWake acknowledges the wake: no work is left.
func (r *taskRun) ackWake() {
	r.over = true
	r.ack()
}

// compare compares a run with the history.
func (r *taskRun) compare() {
	if r.over {
		return
	}
	rec, ok := r.recordOf(r.session)
	if !ok {
		r.ackWake()
		return
	}
	switch r.claim.OnChange(&rec, r.made) {
	case task.StepFollow:
		r.move(rec.To)
	case task.StepReturn: // the id now belongs to another registration
		r.over = true
		r.returnWake()
		r.wake = nil
	case task.StepDone:
		r.ackWake()
		r.stop(causeCancelled)
	case task.StepYield:
		r.over, r.listed, r.wake = true, false, nil
		r.stop(causeSuperseded)
	case task.StepCancel:
		r.stopRequested = true
		r.stop(causeCancelled)
	default: // it goes on
	}
}

// move continues the task in another session. The transfer publishes a wake there.
func (r *taskRun) move(to events.SessionID) {
	rec, ok := r.recordOf(to)
	if !ok || rec.CreatedAt != r.made {
		r.ackWake()
		return
	}
	if r.wake != nil && r.wake.session == r.session { // the wake of the other session may have arrived already
		r.ack()
	}
	r.session, r.claim.Seq = to, rec.Seq
}

// finish records the outcome of a body.
func (r *taskRun) finish() (over bool) {
	interrupted := r.cause == causeOutOfTouch || r.cause == causeStopped
	switch {
	case r.call != nil && r.cause == causeCancelled && !r.resolved:
		r.resolved = r.resolveCall(*r.call, cancelledCall()) == nil
		return false
	case r.over:
		return true
	case interrupted && r.again:
		_ = r.append(func(s *projector.State) []events.Event { return task.Transition(s, r.task, events.TaskWaiting) })
		return r.returnWake()
	case r.call != nil && r.ended == bodyFailed && !r.resolved:
		r.resolved = r.resolveCall(*r.call, events.ToolResult{Outcome: events.OutcomeLost, Text: "lost"}) == nil
		return false
	}
	return r.record(interrupted)
}

func (r *taskRun) record(interrupted bool) (over bool) {
	state, summary := r.endState(), r.ended
	if interrupted && r.ended != bodyDone {
		state, summary = events.TaskFailed, "abandoned: worker "+string(r.n.id)+" "+r.cause
	}
	var err error
	if r.monitors && !interrupted && r.cause == "" {
		err = r.endMonitor()
	} else {
		err = r.append(func(s *projector.State) []events.Event { return task.End(s, r.task, state, summary) })
	}
	switch {
	case err == nil:
		r.ackWake()
		r.do = func() bool { return true } // after the wakes and notifications
	case errors.Is(err, api.ErrTaskTaken):
		was := r.session
		if r.compare(); !r.over && r.session == was {
			r.n.w.t.Fatalf("claim %+v is taken, and the history has it", r.claim)
		}
	}
	return false // unknown outcome: try again
}

func (r *taskRun) endMonitor() error {
	own := act{by: r.n.id, claim: r.claim, own: true}
	hints, err := r.n.host.decideAs(r.session, own, func(s *projector.State) ([]events.Event, error) {
		return task.EndMonitor(s, r.claim, events.MonitorEnded{State: events.MonitorExited})
	})
	r.hints = append(r.hints, hints...)
	return r.n.w.tolerated(err)
}

func (r *taskRun) endState() events.TaskState {
	switch {
	case r.ended == bodyDone:
		return events.TaskCompleted
	case r.stopRequested:
		return events.TaskCancelled
	}
	return events.TaskFailed
}
