package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// hint tells workers of events that leave them something to do. Nothing but
// time is lost where a hint is: the sweep finds what the history owes. due is a
// time for which the session has a timer already.
func (h *Host) hint(s *projector.State, list []events.Event, due events.Millis) {
	if turn.Asks(list) {
		h.Wake(s)
	}
	h.hintTasks(s, list)
	if at := turn.Due(s); at != 0 && at != due {
		_ = h.b.SetTimer(s.Session, at)
	}
}

// Wake tells workers that a session owes work, where it does. A worker that
// runs the session hears of it besides, so that it looks at the log at once.
func (h *Host) Wake(s *projector.State) {
	if hint, owes := h.nudge(s); owes {
		_ = h.b.PublishWake(turnKey(s.Session), hint)
	}
}

func turnKey(id events.SessionID) bus.WakeKey { return bus.WakeKey{Class: bus.ClassTurn, Session: id} }

// nudge tells the worker that runs the session, or had it last here, that it
// owes work, and gives the hints of a wake.
func (h *Host) nudge(s *projector.State) (_ bus.WakeHint, owes bool) {
	if !turn.Owing(s, 0) { // what is due is the servers' to tell
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
	h.moved(s.Session)
	return hint, true
}

// again gives the hints of a state that a command has led to before, where they
// are missing: a wake that waits keeps its place among the others'.
func (h *Host) again(ctx context.Context, s *projector.State) error {
	if hint, owes := h.nudge(s); owes {
		waits, err := h.b.Waits(ctx, turnKey(s.Session))
		if err == nil && !waits {
			err = h.b.PublishWake(turnKey(s.Session), hint)
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

// hintTasks wakes the tasks that a commit registers, those that are to leave, and those whose cancel is to be passed on.
func (h *Host) hintTasks(s *projector.State, list []events.Event) {
	for i := range list {
		switch p := list[i].Payload.(type) {
		case *events.TaskRegistered:
			h.wakeTask(s, p.Task)
		case *events.TaskLeaving:
			for _, id := range p.Tasks {
				h.wakeTask(s, id)
			}
		case *events.TaskCancelRequested:
			h.wakePassing(s, p.Task)
		case *events.TaskEnded:
			h.wakePassing(s, p.Task)
		}
	}
}

// WakePassing wakes the tasks whose cancel is to be passed on, for a worker that finds them in what it folds: the
// host that cancelled them may have died before its wakes, and no sweep looks at a session whose turn runs.
func (h *Host) WakePassing(s *projector.State) {
	for i := range s.Tasks {
		h.wakePassing(s, s.Tasks[i].ID)
	}
}

func (h *Host) wakePassing(s *projector.State, id events.TaskID) {
	if t, ok := s.Task(id); ok && t.Passing() {
		h.wakeTask(s, id)
	}
}

func (h *Host) wakeTask(s *projector.State, id events.TaskID) {
	if t, ok := s.Task(id); ok && TaskOwed(t) {
		_ = h.b.PublishWake(TaskKey(s.Session, t), bus.WakeHint{})
	}
}

// TakeState is the state that this process has of a session, with what was computed from it, for a worker that continues
// with it; nil where there is none. It may be behind the log. The host keeps a copy.
func (h *Host) TakeState(ctx context.Context, id events.SessionID) *projector.State {
	return h.states.Take(ctx, id)
}

// ReturnState is the inverse of [Host.TakeState]: the host owns the state from then on. It replaces an older one, and is
// dropped where the host has none or a newer one.
func (h *Host) ReturnState(ctx context.Context, state *projector.State) {
	h.states.Return(ctx, state)
}

// AppendAs appends a commit that a worker of this process decided on at seq, in
// turn with the host's own decisions about the session, so that neither starves
// the other. after is called once the commit is in the log, and gives the state with it.
func (h *Host) AppendAs(ctx context.Context, c *events.Commit, at events.Seq, after func() *projector.State) (events.Seq, error) {
	s, err := h.states.Lock(ctx, c.Session)
	if err != nil {
		return 0, err
	}
	defer s.Unlock()
	seq, err := h.log.Append(ctx, c, at)
	if err == nil && seq == at+1 {
		s.State = after()
		h.hintTasks(s.State, c.Events)
	}
	return seq, err
}
