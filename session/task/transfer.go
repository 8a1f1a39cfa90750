package task

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Leaving lists, of ids, the registrations that another session needs to take
// the tasks over. Ids that the session does not have are left out.
func Leaving(s *projector.State, ids []events.TaskID) ([]events.TaskRegistered, error) {
	var list []events.TaskRegistered
	for _, id := range ids {
		t, ok := here(s, id)
		if !ok || t.Hidden {
			continue
		}
		if _, ok := monitorOf(t); ok {
			return nil, fmt.Errorf("task %s: %w", id, ErrMonitorTask)
		}
		list = append(list, events.TaskRegistered{
			Task: t.ID, Of: t.Of, Producer: t.Producer, Child: t.Child, Parent: t.Parent, Cancel: t.Cancel, Close: t.Close,
			Restart: t.Restart, Runner: t.Runner, Args: t.Args, Worker: t.Worker, State: t.State,
			From: s.Session, Attempt: t.Attempt, Created: t.CreatedAt, Summary: t.Summary, Trace: t.Trace,
		})
	}
	return list, nil
}

// Arrive registers tasks that come from another session. Where one has the id
// of a live task of this session, nothing is registered: [ErrRunning]. A copy
// that came before is left, or brought up to date. One that has ended here meanwhile,
// as by a cancel, stays ended, whatever its worker did in the other session.
func Arrive(s *projector.State, list []events.TaskRegistered) ([]events.Event, error) {
	var out []events.Event
	var regs []events.TaskRegistered
	for i := range list {
		reg := list[i]
		t, ok := here(s, reg.Task)
		switch {
		case ok && t.From == reg.From && sameCopy(t, &reg):
			continue
		case ok && t.Owing() && (t.From != reg.From || t.CreatedAt != reg.Created):
			return nil, fmt.Errorf("task %s: %w", reg.Task, ErrRunning)
		}
		out, regs = append(out, events.Of("", &reg)), append(regs, reg)
	}
	if err := roomFor(s, regs...); err != nil {
		return nil, err
	}
	return out, nil
}

// sameCopy reports whether a record is what the registration would make it, or further on.
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
		t.State == reg.State && t.Worker == reg.Worker && t.Runner == reg.Runner && t.Summary == reg.Summary && bytes.Equal(t.Args, reg.Args)
}

// Depart marks tasks as transferred, where they are still what was registered
// in the other session; moved is false when one is not, and then nothing is
// marked. seen is where the source ended when the list was made: a task that was
// registered after that has left and come back meanwhile, and what was
// registered in the other session may have gone on from there.
func Depart(s *projector.State, to events.SessionID, list []events.TaskRegistered, seen events.Seq) (out []events.Event, moved bool) {
	var ids []events.TaskID
	for i := range list {
		t, ok := here(s, list[i].Task)
		if !ok || t.CreatedAt != list[i].Created {
			continue // removed or transferred meanwhile, by a call like this one
		}
		if t.Seq > seen || t.State != list[i].State || t.Worker != list[i].Worker || t.Attempt != list[i].Attempt {
			return nil, false
		}
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return nil, true
	}
	return of(&events.TaskTransferred{Tasks: ids, To: to}), true
}

// Bounds of the places that tasks of closed sessions may take in their parent, together with all others that came from
// another session: what children leave does not keep a session from having tasks of its own.
const (
	MaxLeft     = MaxLive / 2
	MaxLeftArgs = MaxLiveArgs / 2 // bytes of their arguments together
)

// RoomForLeft refuses, as [Register] does, tasks of a closed session that are more than [MaxLeft] and [MaxLeftArgs] allow.
func RoomForLeft(s *projector.State, list []events.TaskRegistered) error {
	return within(s, list, MaxLeft, MaxLeftArgs, func(t *projector.Task) bool { return t.From != "" })
}

// New reports whether a session has no copy yet of one of the tasks that come from another.
func New(s *projector.State, list []events.TaskRegistered) bool {
	return slices.ContainsFunc(list, func(reg events.TaskRegistered) bool {
		t, ok := here(s, reg.Task)
		return !ok || t.From != reg.From || t.CreatedAt != reg.Created
	})
}

// Stay is for a task that the session which it is to go to does not take: it is cancelled here. registered tells it
// from others that had its id.
func Stay(s *projector.State, id events.TaskID, registered events.Seq, reason string) []events.Event {
	t, ok := here(s, id)
	if !ok || t.Seq != registered || !t.LeavePending() {
		return nil
	}
	return append(of(&events.TaskStayed{Task: id}), Cancel(s, id, reason)...)
}
