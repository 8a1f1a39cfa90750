package task

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// Limits of the live tasks of a session.
const (
	MaxLive     = 1024
	MaxLiveArgs = 8 << 20 // bytes of all their arguments
)

// checkCapacity refuses registrations above the limits of live tasks. Tasks whose cancel must still be passed on
// count too, because one pass over a session wakes all of them. Replaced tasks do not count.
func checkCapacity(s *projector.State, list ...events.TaskRegistered) error {
	return checkLimits(s, list, MaxLive, MaxLiveArgs, func(*projector.Task) bool { return true })
}

// checkLimits is checkCapacity for the tasks that counts accepts.
func checkLimits(s *projector.State, list []events.TaskRegistered, most, mostArgs int, counts func(*projector.Task) bool) error {
	n, args := 0, 0
	count := func(size int) { n, args = n+1, args+size }
	for i := range list {
		count(len(list[i].Args))
	}
	for i := range s.Tasks {
		replaced := slices.ContainsFunc(list, func(reg events.TaskRegistered) bool { return reg.Task == s.Tasks[i].ID })
		if s.Tasks[i].Unfinished() && counts(&s.Tasks[i]) && !replaced {
			count(len(s.Tasks[i].Args))
		}
	}
	switch {
	case n > most:
		return &events.FieldError{Field: "tasks", Reason: fmt.Sprintf("%d live ones or with a cancel to pass on, limit is %d", n, most), Err: events.ErrTooLarge}
	case args > mostArgs:
		return &api.LimitError{What: "bytes of arguments of live tasks", Limit: mostArgs}
	}
	return nil
}

// Claim is a worker's right to run a task, from task.started.
type Claim struct {
	Task    events.TaskID
	Seq     events.Seq // of the registration
	Worker  events.WorkerID
	Attempt int64
}

// ClaimOf is the claim in a task's record.
func ClaimOf(t *projector.Task) Claim {
	return Claim{Task: t.ID, Seq: t.Seq, Worker: t.Worker, Attempt: t.Attempt}
}

func eventOf(p events.Payload) []events.Event { return []events.Event{events.Of("", p)} }

// here finds a task of the session. A transferred task is not found.
func here(s *projector.State, id events.TaskID) (*projector.Task, bool) {
	t, ok := s.Task(id)
	if !ok || t.To != "" {
		return nil, false
	}
	return t, true
}

// Live lists the tasks that have not ended, in order of creation, without hidden ones.
func Live(s *projector.State) []events.TaskID {
	var ids []events.TaskID
	for i := range s.Tasks {
		if s.Tasks[i].Live() && !s.Tasks[i].Hidden {
			ids = append(ids, s.Tasks[i].ID)
		}
	}
	return ids
}

// Register adds a task to the registry. The id of a live task is [api.ErrTaskRunning]; the id of an ended one can be reused.
// More than [MaxLive] tasks are [events.ErrTooLarge], and more than [MaxLiveArgs] an [api.LimitError].
func Register(s *projector.State, reg events.TaskRegistered) ([]events.Event, error) {
	if err := reg.Validate(); err != nil {
		return nil, err
	}
	switch t, ok := here(s, reg.Task); {
	case ok && !t.Live() && reg.Child != "" && t.Child == reg.Child:
		return nil, nil // a repeated creator finds its child's task ended: a child is registered once
	case ok && t.Unfinished():
		return nil, fmt.Errorf("task %s: %w", reg.Task, api.ErrTaskRunning)
	}
	if err := checkCapacity(s, reg); err != nil {
		return nil, err
	}
	return eventOf(&reg), nil
}

// ClaimFor claims a task for a worker: for the first time, or after the worker of the claim before died. seen is the
// claim that the worker read. If the history has another claim, the error is [api.ErrTaskTaken].
func ClaimFor(s *projector.State, seen Claim, worker events.WorkerID) ([]events.Event, error) {
	t, ok := here(s, seen.Task)
	if !ok || !t.Live() || ClaimOf(t) != seen {
		return nil, fmt.Errorf("task %s: %w", seen.Task, api.ErrTaskTaken)
	}
	list := eventOf(&events.TaskStarted{Task: t.ID, Worker: worker, Attempt: t.Attempt + 1})
	if id, ok := monitorOf(t); ok {
		list = append(list, events.Of("", &events.MonitorStarted{Monitor: id, Worker: worker, Attempt: t.Attempt + 1}))
	}
	return list, nil
}

// checkClaim returns the live task of a claim. If the history has another claim, the error is [api.ErrTaskTaken].
func checkClaim(s *projector.State, c Claim) (*projector.Task, error) {
	t, ok := here(s, c.Task)
	if !ok || !t.Live() || ClaimOf(t) != c {
		return nil, fmt.Errorf("task %s: %w", c.Task, api.ErrTaskTaken)
	}
	return t, nil
}

// While makes a decision if the claim is the one in the history, otherwise the error is [api.ErrTaskTaken].
func While(s *projector.State, c Claim, decide func() []events.Event) ([]events.Event, error) {
	if _, err := checkClaim(s, c); err != nil {
		return nil, err
	}
	return decide(), nil
}

// Transition moves a live task to running or waiting. In a closed session it changes nothing, like [Progress].
func Transition(s *projector.State, id events.TaskID, to events.TaskState) []events.Event {
	t, ok := here(s, id)
	if !ok || !t.Live() || s.Status == projector.StatusClosed || t.State == to || t.State == events.TaskCancelling {
		return nil
	}
	if to != events.TaskRunning && to != events.TaskWaiting {
		return nil
	}
	return eventOf(&events.TaskStateChanged{Task: id, State: to})
}

// Progress records a progress message of a live task. A closed session records only the cancel and the end of a task,
// so that its history does not grow without limit.
func Progress(s *projector.State, id events.TaskID, message string) []events.Event {
	if t, ok := here(s, id); !ok || !t.Live() || s.Status == projector.StatusClosed {
		return nil
	}
	return eventOf(&events.TaskProgressed{Task: id, Message: message})
}

// End ends a live task. A state that is not final changes nothing.
func End(s *projector.State, id events.TaskID, state events.TaskState, summary string) []events.Event {
	t, ok := here(s, id)
	if !ok || !t.Live() || !state.Terminal() {
		return nil
	}
	return eventOf(&events.TaskEnded{Task: id, State: state, Summary: summary})
}

// RequestCancel requests that a live task stops. The first request wins. A task with [events.CancelAbortLocal] is
// cancelled instead.
func RequestCancel(s *projector.State, id events.TaskID, reason string) []events.Event {
	t, ok := here(s, id)
	if ok && t.Cancel == events.CancelAbortLocal {
		return Cancel(s, id, reason)
	}
	if !ok {
		return nil
	}
	return requested(t, reason)
}

func requested(t *projector.Task, reason string) []events.Event {
	if !t.Live() || t.State == events.TaskCancelling {
		return nil
	}
	return eventOf(&events.TaskCancelRequested{Task: t.ID, Reason: reason})
}

// external reports whether only a program outside may report the end of a task.
func external(t *projector.Task) bool {
	return t.Cancel == events.CancelExternal && t.Runner == "" && t.Worker == "" && t.Child == ""
}

// Cancel ends a live task as cancelled, at once. It also stops a monitor, and gives a call its result, because no
// worker may process the task again. A task with [events.CancelExternal] gets a stop request instead.
func Cancel(s *projector.State, id events.TaskID, reason string) []events.Event {
	t, ok := here(s, id)
	if !ok || !t.Live() {
		return nil
	}
	if external(t) {
		return requested(t, reason)
	}
	list := append(cancelCall(s, t), requested(t, reason)...)
	list = append(list, events.Of("", &events.TaskEnded{Task: id, State: events.TaskCancelled, Summary: reason}))
	if m, ok := monitorOf(t); ok {
		list = append(list, endMonitor(s, m, &events.MonitorEnded{Monitor: m, State: events.MonitorStopped})...)
	}
	return list
}

// CallTask is the id of the task that runs a turn's call on another node.
func CallTask(session events.SessionID, effect events.EffectID) events.TaskID {
	return events.TaskID(events.DerivedID("call-", string(session), string(effect)))
}

// cancelCall is the result of the call that a task runs, if the turn waits for it.
func cancelCall(s *projector.State, t *projector.Task) []events.Event {
	run := s.Turn()
	if t.Of != events.TaskTool || t.Runner != ToolRunner || run == nil || run.Cancelled {
		return nil
	}
	for i := range run.Calls {
		effect := turn.ToolEffect(run.ID, run.Iteration, int64(i))
		if CallTask(s.Session, effect) == t.ID && turn.Resolvable(run, effect) {
			return []events.Event{events.Of(run.ID, &events.ToolResolved{Effect: effect, By: string(t.ID), Result: events.ToolResult{
				Call: int64(i), Outcome: events.OutcomeCancelled, Text: turn.CancelledTaskText,
			}})}
		}
	}
	return nil
}

// CancelAll cancels tasks in the given order.
func CancelAll(s *projector.State, ids []events.TaskID, reason string) []events.Event {
	var list []events.Event
	for _, id := range ids {
		list = append(list, Cancel(s, id, reason)...)
	}
	return list
}

// PassedOn records that the cancel of a task reached its child, or why it never can. A task with a stop request ends
// with it: as cancelled, or as failed for that reason.
func PassedOn(s *projector.State, id events.TaskID, registered events.Seq, why string) []events.Event {
	t, ok := here(s, id)
	if !ok || t.Seq != registered || !t.PassOnPending() {
		return nil
	}
	state, summary := events.TaskCancelled, t.Reason
	if why != "" {
		state, summary = events.TaskFailed, why
	}
	return append(End(s, id, state, summary), events.Of("", &events.TaskPassedOn{Task: id}))
}

// Close decides about the live tasks of a session that closes, see [events.ClosePolicy]. Tasks for the parent are
// recorded as leaving; without a parent they are cancelled.
func Close(s *projector.State, reason string) []events.Event {
	var list []events.Event
	var leave []events.TaskID
	for i := range s.Tasks {
		switch t := &s.Tasks[i]; {
		case !t.Live() || closing(t) == events.CloseKeep:
		case closing(t) == events.CloseTransfer && s.Parent != "" && !t.Hidden:
			leave = append(leave, t.ID)
		default:
			list = append(list, Cancel(s, t.ID, reason)...)
		}
	}
	if len(leave) > 0 {
		list = append(list, events.Of("", &events.TaskLeaving{Tasks: leave, To: s.Parent}))
	}
	return list
}

func closing(t *projector.Task) events.ClosePolicy {
	if t.Of == events.TaskMonitor || t.Of == events.TaskTool && t.Runner == ToolRunner {
		return events.CloseCancel
	}
	return t.Close
}

// Abandon ends a live task whose worker died and whose policy does not restart it.
func Abandon(s *projector.State, c Claim, why string) ([]events.Event, error) {
	t, err := checkClaim(s, c)
	if err != nil {
		return nil, err
	}
	list := eventOf(&events.TaskEnded{Task: t.ID, State: events.TaskFailed, Summary: why})
	if m, ok := monitorOf(t); ok {
		list = append(list, events.Of("", &events.MonitorEnded{Monitor: m, State: events.MonitorIdle, Error: why}))
	}
	return list, nil
}

// Remove removes a task in any state from the registry.
func Remove(s *projector.State, id events.TaskID) []events.Event {
	if _, ok := here(s, id); !ok {
		return nil
	}
	return eventOf(&events.TaskRemoved{Task: id})
}

// Validate returns [api.ErrUnknownTask] for the first id that is not a live task of the session.
func Validate(s *projector.State, ids []events.TaskID) error {
	for _, id := range ids {
		if t, ok := here(s, id); !ok || !t.Live() || t.Hidden {
			return fmt.Errorf("task %s: %w", id, api.ErrUnknownTask)
		}
	}
	return nil
}

// Unreferenced lists the live tasks that are not in keep, in order of creation.
func Unreferenced(s *projector.State, keep []events.TaskID) []events.TaskID {
	return slices.DeleteFunc(Live(s), func(id events.TaskID) bool { return slices.Contains(keep, id) })
}
