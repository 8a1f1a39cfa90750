package projector

import (
	"slices"

	"github.com/lash-go/lash/events"
)

func (s *State) applyScheduled(id events.TurnID, p *events.TurnScheduled, at events.Millis) {
	i := len(s.Scheduled)
	for i > 0 && s.Scheduled[i-1].At > p.At {
		i--
	}
	due := ScheduledTurn{ID: id, Input: p.Input, At: p.At, Busy: p.Busy, Seq: s.Seq, Asked: at, Callers: p.Callers, Trace: p.Trace}
	if i == len(s.Scheduled) {
		s.Scheduled = append(s.Scheduled, due) // clones have clipped slices
		return
	}
	s.Scheduled = slices.Concat(s.Scheduled[:i], []ScheduledTurn{due}, s.Scheduled[i:])
}

// unschedule removes a turn from the scheduled ones.
func (s *State) unschedule(id events.TurnID) (ScheduledTurn, bool) {
	i := slices.IndexFunc(s.Scheduled, func(d ScheduledTurn) bool { return d.ID == id })
	if i < 0 {
		return ScheduledTurn{}, false
	}
	due := s.Scheduled[i]
	switch {
	case len(s.Scheduled) == 1:
		s.Scheduled = nil
	case i == 0:
		s.Scheduled = s.Scheduled[1:]
	default:
		s.Scheduled = slices.Concat(s.Scheduled[:i], s.Scheduled[i+1:])
	}
	return due, true
}

func (s *State) applyTimed(id events.TurnID, p *events.ToolResultScheduled) {
	if t := s.running(id); t != nil && t.TimedResult(p.Effect) == nil {
		t.Timed = append(slices.Clip(t.Timed), TimedResult{Effect: p.Effect, At: p.At, Result: p.Result, By: p.By})
	}
}

// TimedResult finds the scheduled result of a call. Without one it returns nil.
func (t *Turn) TimedResult(effect events.EffectID) *TimedResult {
	return findFirst(t.Timed, func(x *TimedResult) bool { return x.Effect == effect })
}

// EarliestDue is the earliest time at which something is due, or 0. A scheduled result counts if waits reports that
// its call still has no result.
func (s *State) EarliestDue(waits func(t *Turn, call events.EffectID) bool) (due events.Millis) {
	earlier := func(at events.Millis) {
		if at != 0 && (due == 0 || at < due) {
			due = at
		}
	}
	if len(s.Scheduled) > 0 {
		earlier(s.Scheduled[0].At)
	}
	t := s.Turn()
	if t == nil || t.Cancelled {
		return due
	}
	for i := range t.Timed {
		if waits(t, t.Timed[i].Effect) {
			earlier(t.Timed[i].At)
		}
	}
	for i := range t.Asks {
		if !t.Asks[i].Answered {
			earlier(t.Asks[i].Until)
		}
	}
	return due
}
