package task

import (
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// Errors of decisions. Nothing is appended where one is returned.
var (
	// ErrUnknown is a task that the session does not have.
	ErrUnknown = api.ErrUnknownTask
	// ErrRunning is the id of a task that has not ended.
	ErrRunning = api.ErrTaskRunning
	// ErrTaken is a claim that is not, or no longer, the one that the history has.
	ErrTaken = api.ErrTaskTaken
	// ErrUnknownMonitor is a monitor that the session does not have.
	ErrUnknownMonitor = api.ErrUnknownMonitor
	// ErrMonitorTask is the task of a monitor where only others are possible: monitors stay in their session.
	ErrMonitorTask = api.ErrMonitorTask
)

// Bounds of the live tasks of a session.
const (
	MaxLive     = 1024
	MaxLiveArgs = 8 << 20 // bytes of their arguments together
)

// roomFor refuses registrations that a session has no place for, beside the live tasks that they do not replace, and
// those whose cancel has yet to be passed on: that is as much as one look at a session has to wake.
func roomFor(s *projector.State, list ...events.TaskRegistered) error {
	return within(s, list, MaxLive, MaxLiveArgs, func(*projector.Task) bool { return true })
}

// within is roomFor among those tasks that count.
func within(s *projector.State, list []events.TaskRegistered, most, mostArgs int, counts func(*projector.Task) bool) error {
	n, args := 0, 0
	count := func(size int) { n, args = n+1, args+size }
	for i := range list {
		count(len(list[i].Args))
	}
	for i := range s.Tasks {
		replaced := slices.ContainsFunc(list, func(reg events.TaskRegistered) bool { return reg.Task == s.Tasks[i].ID })
		if s.Tasks[i].Owing() && counts(&s.Tasks[i]) && !replaced {
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

// Claim is a worker's right to run a task, as task.started gave it.
type Claim struct {
	Task    events.TaskID
	Seq     events.Seq // of the registration
	Worker  events.WorkerID
	Attempt int64
}

// ClaimOf is the claim that stands in a task's record.
func ClaimOf(t *projector.Task) Claim {
	return Claim{Task: t.ID, Seq: t.Seq, Worker: t.Worker, Attempt: t.Attempt}
}

func of(p events.Payload) []events.Event { return []events.Event{events.Of("", p)} }

// here finds a task of the session; one that was transferred away is none.
func here(s *projector.State, id events.TaskID) (*projector.Task, bool) {
	t, ok := s.Task(id)
	if !ok || t.To != "" {
		return nil, false
	}
	return t, true
}

// Live lists the tasks that have not ended, by creation; hidden ones are left out.
func Live(s *projector.State) []events.TaskID {
	var ids []events.TaskID
	for i := range s.Tasks {
		if s.Tasks[i].Live() && !s.Tasks[i].Hidden {
			ids = append(ids, s.Tasks[i].ID)
		}
	}
	return ids
}

// Register puts a task in the registry. The id of a live one is [ErrRunning]; that of an ended one is free.
// More than [MaxLive] are [events.ErrTooLarge], and more than [MaxLiveArgs] an [api.LimitError].
func Register(s *projector.State, reg events.TaskRegistered) ([]events.Event, error) {
	if err := reg.Validate(); err != nil {
		return nil, err
	}
	switch t, ok := here(s, reg.Task); {
	case ok && !t.Live() && reg.Child != "" && t.Child == reg.Child:
		return nil, nil // it ended before its creator, which a worker runs again, came here again: a child is one work
	case ok && t.Owing():
		return nil, fmt.Errorf("task %s: %w", reg.Task, ErrRunning)
	}
	if err := roomFor(s, reg); err != nil {
		return nil, err
	}
	return of(&reg), nil
}

// Start claims a task for a worker: the first time, or when the claim before
// it has died. taken is the claim that the decision was made on; if the
// history has another one meanwhile, it is [ErrTaken].
func Start(s *projector.State, taken Claim, worker events.WorkerID) ([]events.Event, error) {
	t, ok := here(s, taken.Task)
	if !ok || !t.Live() || ClaimOf(t) != taken {
		return nil, fmt.Errorf("task %s: %w", taken.Task, ErrTaken)
	}
	list := of(&events.TaskStarted{Task: t.ID, Worker: worker, Attempt: t.Attempt + 1})
	if id, ok := monitorOf(t); ok {
		list = append(list, events.Of("", &events.MonitorStarted{Monitor: id, Worker: worker, Attempt: t.Attempt + 1}))
	}
	return list, nil
}

// Held reports whether a claim is the one that the history has of a live task; else it is [ErrTaken].
func Held(s *projector.State, c Claim) (*projector.Task, error) {
	t, ok := here(s, c.Task)
	if !ok || !t.Live() || ClaimOf(t) != c {
		return nil, fmt.Errorf("task %s: %w", c.Task, ErrTaken)
	}
	return t, nil
}

// While is a decision about a task that counts only while a claim is the one
// that the history has; else it is [ErrTaken].
func While(s *projector.State, c Claim, decide func() []events.Event) ([]events.Event, error) {
	if _, err := Held(s, c); err != nil {
		return nil, err
	}
	return decide(), nil
}

// Transition moves a live task to running or waiting. In a closed session it changes nothing, as [Progress].
func Transition(s *projector.State, id events.TaskID, to events.TaskState) []events.Event {
	t, ok := here(s, id)
	if !ok || !t.Live() || s.Status == projector.StatusClosed || t.State == to || t.State == events.TaskCancelling {
		return nil
	}
	if to != events.TaskRunning && to != events.TaskWaiting {
		return nil
	}
	return of(&events.TaskStateChanged{Task: id, State: to})
}

// Progress records what a live task has to say. Of a task that goes on in a closed session only its
// cancel and its end are recorded: its history does not grow on without end.
func Progress(s *projector.State, id events.TaskID, message string) []events.Event {
	if t, ok := here(s, id); !ok || !t.Live() || s.Status == projector.StatusClosed {
		return nil
	}
	return of(&events.TaskProgressed{Task: id, Message: message})
}

// Complete ends a live task. A state that does not end one changes nothing.
func Complete(s *projector.State, id events.TaskID, state events.TaskState, summary string) []events.Event {
	t, ok := here(s, id)
	if !ok || !t.Live() || !state.Terminal() {
		return nil
	}
	return of(&events.TaskEnded{Task: id, State: state, Summary: summary})
}

// RequestCancel asks a live task to stop by itself. The first request wins. A task
// that is not to be waited for is cancelled instead: [events.CancelAbortLocal].
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
	return of(&events.TaskCancelRequested{Task: t.ID, Reason: reason})
}

// external reports whether a program outside runs a task, and alone may say that it ended.
func external(t *projector.Task) bool {
	return t.Cancel == events.CancelExternal && t.Runner == "" && t.Worker == "" && t.Child == ""
}

// Cancel ends a live task as cancelled, at once; that of a monitor stops the
// monitor, and that of a call gives the call its result, as no worker may look
// at the task any more. One that is [events.CancelExternal] is asked to stop.
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

// CallTask is the id of the task that runs a call of a turn elsewhere.
func CallTask(session events.SessionID, effect events.EffectID) events.TaskID {
	return events.TaskID(events.DerivedID("call-", string(session), string(effect)))
}

// cancelCall is the result of the call that a task runs, where the turn awaits one.
func cancelCall(s *projector.State, t *projector.Task) []events.Event {
	run := s.Turn()
	if t.Of != events.TaskTool || t.Runner != ToolRunner || run == nil || run.Cancelled {
		return nil
	}
	for i := range run.Calls {
		effect := turn.ToolEffect(run.ID, run.Iteration, int64(i))
		if CallTask(s.Session, effect) == t.ID && turn.Resolvable(run, effect) {
			return []events.Event{events.Of(run.ID, &events.ToolResolved{Effect: effect, By: string(t.ID), Result: events.ToolResult{
				Call: int64(i), Outcome: events.OutcomeCancelled, Text: "[cancelled] the call was cancelled",
			}})}
		}
	}
	return nil
}

// CancelAll cancels tasks in the order given.
func CancelAll(s *projector.State, ids []events.TaskID, reason string) []events.Event {
	var list []events.Event
	for _, id := range ids {
		list = append(list, Cancel(s, id, reason)...)
	}
	return list
}

// PassedOn records that the cancel of a task has reached its child, or why it never can. One that was only asked to
// stop ends with it: as cancelled, or as failed for that reason.
func PassedOn(s *projector.State, id events.TaskID, registered events.Seq, why string) []events.Event {
	t, ok := here(s, id)
	if !ok || t.Seq != registered || !t.Passing() {
		return nil
	}
	state, summary := events.TaskCancelled, t.Reason
	if why != "" {
		state, summary = events.TaskFailed, why
	}
	return append(Complete(s, id, state, summary), events.Of("", &events.TaskPassedOn{Task: id}))
}

// Close is what becomes of the live tasks of a session that closes, see [events.ClosePolicy].
// Those that are to be the parent's owe that from then on; where there is no parent they are cancelled.
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

// Abandon ends a live task whose worker is gone and whose policy is not to restart.
func Abandon(s *projector.State, c Claim, why string) ([]events.Event, error) {
	t, err := Held(s, c)
	if err != nil {
		return nil, err
	}
	list := of(&events.TaskEnded{Task: t.ID, State: events.TaskFailed, Summary: why})
	if m, ok := monitorOf(t); ok {
		list = append(list, events.Of("", &events.MonitorEnded{Monitor: m, State: events.MonitorIdle, Error: why}))
	}
	return list, nil
}

// Remove takes a task out of the registry, whatever its state.
func Remove(s *projector.State, id events.TaskID) []events.Event {
	if _, ok := here(s, id); !ok {
		return nil
	}
	return of(&events.TaskRemoved{Task: id})
}

// Validate reports the first id that is not a live task of the session, as [ErrUnknown].
func Validate(s *projector.State, ids []events.TaskID) error {
	for _, id := range ids {
		if t, ok := here(s, id); !ok || !t.Live() || t.Hidden {
			return fmt.Errorf("task %s: %w", id, ErrUnknown)
		}
	}
	return nil
}

// Unreferenced lists the live tasks that are not kept, by creation.
func Unreferenced(s *projector.State, keep []events.TaskID) []events.TaskID {
	return slices.DeleteFunc(Live(s), func(id events.TaskID) bool { return slices.Contains(keep, id) })
}
