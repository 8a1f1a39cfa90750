package turn

import (
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// NeedsWorker reports whether a worker has work in the session at a time: a turn that can start, a running turn that
// is not parked, a turn that must continue in another session, something of which plugins must be notified, or
// something due. It is the only rule for waking, processing, acknowledging and repairing a session.
func NeedsWorker(s *projector.State, now events.Millis) bool {
	if len(s.Unnotified) > 0 && (s.Status == projector.StatusOpen || s.Status == projector.StatusClosed) {
		return true
	}
	if s.Status != projector.StatusOpen {
		return false
	}
	if due := Due(s); due != 0 && due <= now {
		return true
	}
	if s.Turn() == nil {
		return Claimable(s)
	}
	return Branching(s) != nil || !Parked(s)
}

// Claimable reports whether a turn can start.
func Claimable(s *projector.State) bool {
	return s.Status == projector.StatusOpen && s.Turn() == nil && (len(s.Queue) > 0 || wakeInput(s) != "")
}

// NeedsWake reports whether one of the events wakes a worker, see [events.WakesWorker]. The program that appends them wakes
// the session.
func NeedsWake(list []events.Event) bool {
	return slices.ContainsFunc(list, func(ev events.Event) bool { return events.WakesWorker(ev.Kind) })
}

// wakeInput is the pending input of a monitor that starts a turn. Without one it is empty.
func wakeInput(s *projector.State) events.InputID {
	for i := range s.Monitors {
		if s.Monitors[i].Wake != "" {
			return s.Monitors[i].Wake
		}
	}
	return ""
}

// Due is the earliest time at which something is due: a scheduled turn, the scheduled result of a call, the end of
// the time for an answer. Without one it is 0.
func Due(s *projector.State) events.Millis {
	if s.Status != projector.StatusOpen {
		return 0
	}
	return s.EarliestDue(Resolvable)
}

// DueEvents are the events that are due. At most one scheduled turn is requested, because its policy depends on the
// queue after the one before. Due results and refusals are limited by the size of a commit.
func DueEvents(s *projector.State, now events.Millis) []events.Event {
	if due := Due(s); due == 0 || due > now {
		return nil
	}
	if len(s.Scheduled) > 0 && s.Scheduled[0].At <= now {
		first := &s.Scheduled[0]
		return Request(s, first.ID, events.TurnRequested{Input: first.Input, Busy: first.Busy, Callers: first.Callers, Trace: first.Trace})
	}
	var list []events.Event
	t, bytes := s.Turn(), 0
	for i := range t.Timed {
		r := &t.Timed[i]
		if r.At > now || !Resolvable(t, r.Effect) {
			continue
		}
		p := &events.ToolResolved{Effect: r.Effect, Result: r.Result, By: r.By}
		body, _ := events.EncodePayload(p) // decoded from a history, so it encodes
		if bytes += len(body); len(list) > 0 && bytes > maxDueBytes || len(list) == maxDueEvents {
			return list
		}
		list = append(list, events.Of(t.ID, p))
	}
	for i := range t.Asks {
		if a := &t.Asks[i]; !a.Answered && a.Until != 0 && a.Until <= now && len(list) < maxDueEvents {
			list = append(list, events.Of(t.ID, &events.ToolApprovalGiven{Effect: a.Effect, By: events.ByTimer, Reason: "no answer came in time"}))
		}
	}
	return list
}

// Limits of one commit of [DueEvents], below those of a commit.
const (
	maxDueBytes  = events.MaxCommitBytes / 2
	maxDueEvents = 512
)

// Resolvable reports whether a call of the running iteration has no result yet.
func Resolvable(t *projector.Turn, effect events.EffectID) bool {
	if t.Resolution(effect) != nil {
		return false
	}
	for i := range t.Calls {
		if ToolEffect(t.ID, t.Iteration, int64(i)) == effect {
			return !t.Calls[i].Done
		}
	}
	return false
}

// GiveUp ends a turn whose attempts all fail, with the reason: the running turn, otherwise the next one.
func GiveUp(s *projector.State, issue events.Issue) ([]events.Event, error) {
	if t := s.Turn(); t != nil {
		out, err := Step(s, Broken{Iteration: t.Iteration, Issue: issue})
		return out.Events, err
	}
	switch {
	case len(s.Queue) == 0 && wakeInput(s) == "":
		return nil, nil
	case len(s.Queue) == 0:
		out, err := Step(s, Claim{Refused: issue})
		return out.Events, err
	}
	return []events.Event{events.Of(s.Queue[0].ID, &events.TurnCompleted{End: events.EndFailed, Issue: issue})}, nil
}
