package task

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Leaving lists the registrations with which another session takes the tasks over. Unknown ids are skipped.
func Leaving(s *projector.State, ids []events.TaskID) ([]events.TaskRegistered, error) {
	var list []events.TaskRegistered
	for _, id := range ids {
		t, ok := here(s, id)
		if !ok || t.Hidden {
			continue
		}
		if _, ok := monitorOf(t); ok {
			return nil, fmt.Errorf("task %s: %w", id, api.ErrMonitorTask)
		}
		list = append(list, events.TaskRegistered{
			Task: t.ID, Of: t.Of, Producer: t.Producer, Child: t.Child, Parent: t.Parent, Cancel: t.Cancel, Close: t.Close,
			Restart: t.Restart, Runner: t.Runner, Args: t.Args, Worker: t.Worker, State: t.State,
			From: s.Session, Attempt: t.Attempt, Created: t.CreatedAt, Summary: t.Summary, Callers: t.Callers, Trace: t.Trace,
		})
	}
	return list, nil
}

// Arrive registers tasks that come from another session. If one has the id of a live task of this session, nothing is
// registered: [api.ErrTaskRunning]. An existing copy is kept or updated. A copy that has ended here, for example by a cancel,
// stays ended, and one that was requested to stop here still has to.
func Arrive(s *projector.State, list []events.TaskRegistered) ([]events.Event, error) {
	var out []events.Event
	var regs []events.TaskRegistered
	for i := range list {
		reg := list[i]
		t, ok := here(s, reg.Task)
		switch {
		case ok && t.From == reg.From && sameCopy(t, &reg):
			continue
		case ok && t.Unfinished() && (t.From != reg.From || t.CreatedAt != reg.Created):
			return nil, fmt.Errorf("task %s: %w", reg.Task, api.ErrTaskRunning)
		}
		out, regs = append(out, events.Of("", &reg)), append(regs, reg)
		if ok && t.State == events.TaskCancelling && !reg.State.Terminal() && reg.State != t.State {
			out = append(out, events.Of("", &events.TaskCancelRequested{Task: t.ID, Reason: t.Reason}))
		}
	}
	if err := checkCapacity(s, regs...); err != nil {
		return nil, err
	}
	return out, nil
}

// sameCopy reports whether a task equals the registration, or is further on.
func sameCopy(t *projector.Task, reg *events.TaskRegistered) bool {
	switch {
	case t.CreatedAt != reg.Created:
		return false
	case t.State.Terminal():
		return true
	case t.Attempt < reg.Attempt:
		return false
	}
	return t.Attempt > reg.Attempt ||
		(t.State == reg.State || t.State == events.TaskCancelling) && t.Worker == reg.Worker && t.Runner == reg.Runner && t.Summary == reg.Summary && bytes.Equal(t.Args, reg.Args)
}

// Depart marks tasks as transferred if they are unchanged since the registration in the other session. If one has
// changed, moved is false and nothing is marked.
//
// seen is the source's last sequence when the list was made. A task with a later registration has left and come back,
// and the copy in the other session may have continued.
func Depart(s *projector.State, to events.SessionID, list []events.TaskRegistered, seen events.Seq) (out []events.Event, moved bool) {
	var ids []events.TaskID
	for i := range list {
		t, ok := here(s, list[i].Task)
		if !ok || t.CreatedAt != list[i].Created {
			continue // removed or transferred by a concurrent call
		}
		if t.Seq > seen || t.State != list[i].State || t.Worker != list[i].Worker || t.Attempt != list[i].Attempt {
			return nil, false
		}
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return nil, true
	}
	return eventOf(&events.TaskTransferred{Tasks: ids, To: to}), true
}

// Limits of tasks of closed children in their parent, together with all other transferred tasks. They leave capacity
// for the session's own tasks.
const (
	MaxLeft     = MaxLive / 2
	maxLeftArgs = MaxLiveArgs / 2 // bytes of all their arguments
)

// CheckTransferCapacity refuses tasks of a closed session above [MaxLeft] and maxLeftArgs, with the errors of
// [Register].
func CheckTransferCapacity(s *projector.State, list []events.TaskRegistered) error {
	return checkLimits(s, list, MaxLeft, maxLeftArgs, func(t *projector.Task) bool { return t.From != "" })
}

// New reports whether the session has no copy of one of the tasks from another session.
func New(s *projector.State, list []events.TaskRegistered) bool {
	return slices.ContainsFunc(list, func(reg events.TaskRegistered) bool {
		t, ok := here(s, reg.Task)
		return !ok || t.From != reg.From || t.CreatedAt != reg.Created
	})
}

// Stay keeps and cancels a task that the target session does not accept. registered distinguishes it from other tasks
// with its id.
func Stay(s *projector.State, id events.TaskID, registered events.Seq, reason string) []events.Event {
	t, ok := here(s, id)
	if !ok || t.Seq != registered || !t.LeavePending() {
		return nil
	}
	return append(eventOf(&events.TaskStayed{Task: id}), Cancel(s, id, reason)...)
}
