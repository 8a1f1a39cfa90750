package turn

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Request is what records the turn of a command: its request, with whatever its
// policy, which is the request's Busy, makes of the turn in its way, all in one
// commit. Where the session is idle the policy says nothing.
func Request(s *projector.State, id events.TurnID, r events.TurnRequested) []events.Event {
	by := inTheWay(s)
	if by == "" || r.Busy == events.BusyEnqueue {
		r.Busy = events.BusyEnqueue
		return []events.Event{events.Of(id, &r)}
	}
	r.Behind = by
	list := []events.Event{events.Of(id, &r)}
	switch r.Busy { //nolint:exhaustive // the others change nothing yet
	case events.BusyReject:
		return append(list, events.Of(id, &events.TurnDiverted{End: events.EndRejected, By: by}))
	case events.BusyInterrupt:
		if interruptible(s) {
			return append(list, events.Of(by, &events.TurnCancelRequested{Request: string(id), Origin: "replaced by turn " + string(id)}))
		}
	}
	return list
}

// inTheWay is the running turn, or the first that waits to run here; empty: neither.
func inTheWay(s *projector.State) events.TurnID {
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

// interruptible reports whether the turn in the way has begun and nobody has
// cancelled it: it runs, or a frame switch led to it. What only waits is passed instead.
func interruptible(s *projector.State) bool {
	if t := s.Turn(); t != nil {
		return !t.Cancelled
	}
	return len(s.Queue) > 0 && s.Queue[0].Switches > 0 && !s.Queue[0].Cancelled
}

// Branching is the first turn that waits to go on in another session; nil where
// there is none. It cannot be cancelled here: that session may have it already.
func Branching(s *projector.State) *projector.QueuedTurn {
	for i := range s.Queue {
		if s.Queue[i].Busy == events.BusyBranch {
			return &s.Queue[i]
		}
	}
	return nil
}
