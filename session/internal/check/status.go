package check

import (
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Open refuses a session that is not open. Errors: [api.ErrOpening], [api.ErrClosed], [events.ErrNoSession].
func Open(s *projector.State) error {
	switch s.Status {
	case projector.StatusOpen:
		return nil
	case projector.StatusOpening:
		return fmt.Errorf("session %s: %w", s.Session, api.ErrOpening)
	case projector.StatusClosed:
		return fmt.Errorf("session %s: %w", s.Session, api.ErrClosed)
	case projector.StatusNone, projector.StatusErasing, projector.StatusErased:
	}
	return fmt.Errorf("session %s: %w", s.Session, events.ErrNoSession)
}

// Busy is the refusal of a request while a turn runs or waits. It names the turn to cancel or to wait for.
func Busy(s *projector.State) error {
	var turn events.TurnID
	if t := s.Turn(); t != nil {
		turn = t.ID
	} else if len(s.Queue) > 0 {
		turn = s.Queue[0].ID
	}
	return fmt.Errorf("%w: cancel turn %s, or wait for its end", api.ErrTurnRunning, turn)
}

// Branchable refuses to move the leaf under a turn that builds on it.
func Branchable(s *projector.State) error {
	if err := Open(s); err != nil {
		return err
	}
	if s.Turn() != nil {
		return fmt.Errorf("branch session %s: %w", s.Session, Busy(s))
	}
	return nil
}
