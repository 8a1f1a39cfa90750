package hint

import (
	"context"
	"slices"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// TurnKey names the wake of a session's turns.
func TurnKey(s *projector.State) bus.WakeKey {
	if s.Relation == events.RelationChild {
		return bus.WakeKey{Class: bus.ClassAgent, Session: s.Session}
	}
	return FallbackKey(s.Session)
}

// FallbackKey is the key of a wake for a session whose kind is not known: class turn. A session of an agent may then have a wake of each
// class.
func FallbackKey(id events.SessionID) bus.WakeKey {
	return bus.WakeKey{Class: bus.ClassTurn, Session: id}
}

// HasWake reports whether a session is among those with a wake.
func HasWake(wakes map[bus.WakeKey]bool, id events.SessionID) bool {
	return slices.ContainsFunc(bus.TurnClasses(), func(class bus.Class) bool { return wakes[bus.WakeKey{Class: class, Session: id}] })
}

// TaskKey names the wake of a task.
func TaskKey(id events.SessionID, t *projector.Task) bus.WakeKey {
	key := bus.WakeKey{Class: bus.ClassTask, Session: id, Task: t.ID}
	if t.Of == events.TaskTool && t.Runner == task.ToolRunner {
		key.Class = bus.ClassTool
	}
	return key
}

// Hints publishes the hints of a process.
type Hints struct {
	b           *bus.Bus
	worker      events.WorkerID        // of this process; empty: it has none
	needsWorker func(*projector.State) // called before the wake of a session is published; may be nil
}

// New makes hints for a process. needsWorker, which may be nil, receives a session that needs a worker before its wake is
// published, and must not block.
func New(b *bus.Bus, worker events.WorkerID, needsWorker func(*projector.State)) *Hints {
	return &Hints{b: b, worker: worker, needsWorker: needsWorker}
}

// Commit publishes the hints of a commit that led to a state. due is the time for which the session had a timer before.
func (h *Hints) Commit(s *projector.State, list []events.Event, due events.Millis) {
	if turn.NeedsWake(list) || len(s.Unnotified) > 0 { // a host that ends a turn wakes a worker for what follows from the end
		h.Wake(s)
	}
	h.Tasks(s, list)
	if at := turn.Due(s); at != 0 && at != due {
		_ = h.b.SetTimer(s.Session, at)
	}
}

// Wake publishes the wake of a session that needs a worker. It also notifies the worker that
// runs the session, so that it reads the log at once.
func (h *Hints) Wake(s *projector.State) {
	if hint, needed := h.notify(s); needed {
		_ = h.b.PublishWake(TurnKey(s), hint)
	}
}

// notify notifies the worker that runs a session which needs a worker, and returns the content of its wake.
func (h *Hints) notify(s *projector.State) (_ bus.WakeHint, needed bool) {
	if !turn.NeedsWorker(s, 0) { // a timer wakes the session for what is due later
		return bus.WakeHint{}, false
	}
	hint := bus.WakeHint{Worker: h.worker}
	if t := s.Turn(); t != nil && !turn.Parked(s) {
		hint.Worker = t.Worker
		if t.Worker != h.worker {
			_ = h.b.Notify(t.Worker, s.Session)
		}
	} else if hint.Worker == "" {
		hint.Worker = s.Worker
	}
	if h.needsWorker != nil {
		h.needsWorker(s)
	}
	return hint, true
}

// RepeatTurn publishes the wake and the timer of a state again where they are missing: the process that made its commit
// may have died before it published them. A wake that is in the queue keeps its place there. Wakes of tasks it leaves to
// [Hints.Task].
func (h *Hints) RepeatTurn(ctx context.Context, s *projector.State) error {
	if hint, needed := h.notify(s); needed {
		waits, err := h.b.HasWake(ctx, TurnKey(s))
		if err == nil && !waits && TurnKey(s) != FallbackKey(s.Session) {
			waits, err = h.b.HasWake(ctx, FallbackKey(s.Session))
		}
		if err == nil && !waits {
			err = h.b.PublishWake(TurnKey(s), hint)
		}
		if err != nil {
			return err
		}
	}
	due := turn.Due(s)
	if due == 0 {
		return nil
	}
	at, err := h.b.Timer(ctx, s.Session)
	if err == nil && (at == 0 || at > due) {
		err = h.b.SetTimer(s.Session, due)
	}
	return err
}

// Store stores the wakes and the timer of a state whose commits this server did not get one by one: nothing published them.
func Store(ctx context.Context, b *bus.Bus, s *projector.State) error {
	if turn.NeedsWorker(s, 0) {
		if err := b.StoreWake(ctx, TurnKey(s), bus.WakeHint{}); err != nil {
			return err
		}
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; task.NeedsWorker(t) {
			if err := b.StoreWake(ctx, TaskKey(s.Session, t), bus.WakeHint{}); err != nil {
				return err
			}
		}
	}
	if due := turn.Due(s); due != 0 {
		return b.StoreTimer(ctx, s.Session, due)
	}
	return nil
}

// Tasks publishes the wakes of the tasks that a commit registers, of those that have to leave the session, and of those whose
// cancel has to be passed on.
func (h *Hints) Tasks(s *projector.State, list []events.Event) {
	for i := range list {
		switch p := list[i].Payload.(type) {
		case *events.TaskRegistered:
			h.Task(s, p.Task)
		case *events.TaskLeaving:
			for _, id := range p.Tasks {
				h.Task(s, id)
			}
		case *events.TaskCancelRequested:
			h.passing(s, p.Task)
		case *events.TaskEnded:
			h.passing(s, p.Task)
		}
	}
}

// CancelsToPassOn publishes the wakes of the tasks whose cancel has to be passed on, for a worker that finds them in a state: the
// host that cancelled them may have died before its wakes, and no sweep reads a session whose turn runs.
func (h *Hints) CancelsToPassOn(s *projector.State) {
	for i := range s.Tasks {
		h.passing(s, s.Tasks[i].ID)
	}
}

func (h *Hints) passing(s *projector.State, id events.TaskID) {
	if t, ok := s.Task(id); ok && t.PassOnPending() {
		h.Task(s, id)
	}
}

// Task publishes the wake of a task that needs a worker.
func (h *Hints) Task(s *projector.State, id events.TaskID) {
	if t, ok := s.Task(id); ok && task.NeedsWorker(t) {
		_ = h.b.PublishWake(TaskKey(s.Session, t), bus.WakeHint{})
	}
}
