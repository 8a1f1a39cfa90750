package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/turn"
)

// hint tells workers of a commit that leaves them something to do. Nothing but
// time is lost where a hint is: the sweep finds what the history owes. due is
// what [turn.Due] was before the commit.
func (h *Host) hint(s *projector.State, list []events.Event, due events.Millis) {
	asks := false
	for i := range list {
		switch p := list[i].Payload.(type) {
		case *events.TurnRequested, *events.TurnScheduled, *events.TurnCancelRequested, *events.ToolApprovalGiven,
			*events.ToolResolved, *events.ToolResultScheduled, *events.InputInjected:
			asks = true
		case *events.TaskRegistered:
			h.wakeTask(s, p.Task)
		}
	}
	if asks {
		h.Wake(s)
	}
	if at := turn.Due(s); at != 0 && at != due {
		_ = h.b.SetTimer(s.Session, at)
	}
}

// Wake tells workers that a session owes work, where it does. A worker that
// runs the session hears of it besides, so that it looks at the log at once.
func (h *Host) Wake(s *projector.State) {
	if !turn.Owing(s, 0) { // what is due is the servers' to tell
		return
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
	_ = h.b.PublishWake(bus.WakeKey{Class: bus.ClassTurn, Session: s.Session}, hint)
}

func (h *Host) wakeTask(s *projector.State, id events.TaskID) {
	if t, ok := s.Task(id); ok && TaskOwed(t) {
		_ = h.b.PublishWake(TaskKey(s.Session, t), bus.WakeHint{})
	}
}

// WakeTasks tells workers of the session's live tasks, for those that missed it.
func (h *Host) WakeTasks(s *projector.State) {
	for i := range s.Tasks {
		h.wakeTask(s, s.Tasks[i].ID)
	}
}

// Take gives the state that this process saw last, with what was computed from
// it, to a worker that goes on with it; nil where there is none. It may be behind
// the log. The host keeps a copy.
func (h *Host) Take(id events.SessionID) *projector.State {
	s := h.held(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.state
	if taken != nil {
		s.state = taken.Clone()
	}
	return taken
}

// Keep is the inverse of [Host.Take]: the caller gives the state away. One that
// is behind the host's is dropped.
func (h *Host) Keep(state *projector.State) {
	s := h.held(state.Session)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != nil && s.state.Seq <= state.Seq {
		s.state = state
	}
}

// AppendAs appends a commit that a worker of this process decided on at seq, in
// turn with the host's own decisions about the session, so that neither starves
// the other. after is called once the commit is in the log, and gives the state with it.
func (h *Host) AppendAs(ctx context.Context, c *events.Commit, at events.Seq, after func() *projector.State) (events.Seq, error) {
	s := h.held(c.Session)
	s.mu.Lock()
	defer s.mu.Unlock()
	seq, err := h.log.Append(ctx, c, at)
	if err == nil && seq == at+1 {
		s.state = after()
	}
	return seq, err
}
