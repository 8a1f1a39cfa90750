package task

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Step is what a worker does next with a task.
type Step int

// See [OnWake], [OnGone] and [Claim.OnChange].
const (
	StepNone    Step = iota // nothing: the task needs no worker, or goes on
	StepLeave               // let it leave its closed session
	StepResolve             // record the result of its call, as it was ended from outside
	StepPassOn              // pass its cancel on to its child
	StepStart               // claim it
	StepAsk                 // ask its worker whether it runs the task; if not, see [OnGone]
	StepCancel              // end it as cancelled, or its work
	StepGiveUp              // end it: its attempts all failed
	StepAbandon             // end it: its worker is gone, and it must not run again
	StepFollow              // follow it to the session that has it now
	StepReturn              // return the wake: the id has another registration
	StepDone                // ack the wake, and end the work: it has ended
	StepYield               // end the work: another worker has claimed it, and owns the wake
)

// NeedsWorker reports whether a task needs a worker: it lives, and no host runs it or it has to leave its session, or
// its cancel has to be passed on to its child session.
func NeedsWorker(t *projector.Task) bool {
	return t.Live() && (t.Runner != "" || t.Worker != "" || t.From != "" || t.LeavePending()) || t.PassOnPending()
}

// OnWake is the step of a worker that receives the wake of a task. call: the task is for a tool call.
func OnWake(t *projector.Task, call bool) Step {
	switch {
	case t.LeavePending():
		return StepLeave
	case !t.Live() && call:
		return StepResolve
	case t.PassOnPending():
		return StepPassOn
	case !NeedsWorker(t), t.Runner == "" && t.Worker == "":
		return StepNone
	case t.Attempt == 0 && t.Runner != "":
		return StepStart
	}
	return StepAsk
}

// OnGone is the step of a worker that has the wake of a task whose worker is gone. attempts is the limit of starts without progress.
func OnGone(t *projector.Task, attempts int64) Step {
	restartable := t.Restart == events.RestartAlways && t.Runner != ""
	switch {
	case t.State == events.TaskCancelling:
		return StepCancel
	case restartable && t.Starts >= attempts:
		return StepGiveUp
	case restartable:
		return StepStart
	}
	return StepAbandon
}

// OnChange is the step of the worker that runs a task on a claim, after a change of its record. createdAt is the time at which the
// task was registered first, in any session.
func (c Claim) OnChange(t *projector.Task, createdAt events.Millis) Step {
	switch {
	case t.To != "" && t.CreatedAt == createdAt:
		return StepFollow
	case t.Seq != c.Seq:
		return StepReturn
	case t.LeavePending():
		return StepLeave
	case !t.Live():
		return StepDone
	case t.Worker != c.Worker || t.Attempt != c.Attempt:
		return StepYield
	case t.State == events.TaskCancelling:
		return StepCancel
	}
	return StepNone
}
