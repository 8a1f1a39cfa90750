package projector

import "github.com/lash-go/lash/events"

// TurnPlace is the place of a turn in a state. One field is set; none, where the session never accepted the turn.
type TurnPlace struct {
	Running   *Turn
	Queued    *QueuedTurn
	Scheduled *ScheduledTurn
	Ended     *TurnRecord
}

// FindTurn finds a turn by its id. The place is valid until the next Apply. Errors: [ErrPartial].
func (s *State) FindTurn(id events.TurnID) (TurnPlace, error) {
	if t := s.running(id); t != nil {
		return TurnPlace{Running: t}, nil
	}
	if q := findFirst(s.Queue, func(q *QueuedTurn) bool { return q.ID == id }); q != nil {
		return TurnPlace{Queued: q}, nil
	}
	if t := findFirst(s.Scheduled, func(t *ScheduledTurn) bool { return t.ID == id }); t != nil {
		return TurnPlace{Scheduled: t}, nil
	}
	record, err := s.Record(id)
	return TurnPlace{Ended: record}, err
}

// Known reports whether the session accepted the turn.
func (p TurnPlace) Known() bool { return p != TurnPlace{} }

// InputDigest is the digest of the turn's input; empty for an unknown turn.
func (p TurnPlace) InputDigest() string {
	switch {
	case p.Running != nil:
		return InputDigest(p.Running.Input)
	case p.Queued != nil:
		return InputDigest(p.Queued.Input)
	case p.Scheduled != nil:
		return InputDigest(p.Scheduled.Input)
	case p.Ended != nil:
		return p.Ended.Input
	}
	return ""
}

// AcceptedSeq is the sequence of the commit that accepted the turn; 0 for an unknown turn.
func (p TurnPlace) AcceptedSeq() events.Seq {
	switch {
	case p.Running != nil:
		return p.Running.Seq
	case p.Queued != nil:
		return p.Queued.Seq
	case p.Scheduled != nil:
		return p.Scheduled.Seq
	case p.Ended != nil:
		return p.Ended.Asked
	}
	return 0
}
