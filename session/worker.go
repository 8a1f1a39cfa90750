package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Wake publishes the wake of a session that owes work.
func (h *Host) Wake(s *projector.State) { h.hints.Wake(s) }

// WakePassing publishes the wakes of the tasks whose cancel has to be passed on, for a worker that finds them in a state.
func (h *Host) WakePassing(s *projector.State) { h.hints.Passing(s) }

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
		h.hints.Tasks(s.State, c.Events)
	}
	return seq, err
}
