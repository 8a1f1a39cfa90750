package turn

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Request records a requested turn, and the effect of its policy (the request's Busy) on another turn, in one commit.
// In an idle session the policy has no effect.
func Request(s *projector.State, id events.TurnID, r events.TurnRequested) []events.Event {
	by := otherTurn(s)
	if by == "" || r.Busy == events.BusyEnqueue {
		r.Busy = events.BusyEnqueue
		return []events.Event{events.Of(id, &r)}
	}
	r.Behind = by
	list := []events.Event{events.Of(id, &r)}
	switch r.Busy { //nolint:exhaustive // other policies have no effect yet
	case events.BusyReject:
		return append(list, events.Of(id, &events.TurnDiverted{End: events.EndRejected, By: by}))
	case events.BusyInterrupt:
		if interruptible(s) {
			return append(list, events.Of(by, &events.TurnCancelRequested{Request: string(id), Origin: "replaced by turn " + string(id)}))
		}
	}
	return list
}

// otherTurn is the running turn, otherwise the first that waits to run here. Without one it is empty.
func otherTurn(s *projector.State) events.TurnID {
	if t := s.Turn(); t != nil {
		return t.ID
	}
	for i := range s.Queue {
		if s.Queue[i].Busy != events.BusyBranch {
			return s.Queue[i].ID
		}
	}
	return ""
}

// interruptible reports whether the other turn has started and is not cancelled: it runs, or a frame switch requested
// it. A waiting turn is overtaken instead.
func interruptible(s *projector.State) bool {
	if t := s.Turn(); t != nil {
		return !t.Cancelled
	}
	return len(s.Queue) > 0 && s.Queue[0].Switches > 0 && !s.Queue[0].Cancelled
}

// Branching is the first turn that waits to run in another session, or nil. It cannot be cancelled here, because that
// session may have it already.
func Branching(s *projector.State) *projector.QueuedTurn {
	for i := range s.Queue {
		if s.Queue[i].Busy == events.BusyBranch {
			return &s.Queue[i]
		}
	}
	return nil
}
