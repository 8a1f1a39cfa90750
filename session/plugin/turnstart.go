package plugin

import "errors"

// TurnStarter is a [Stateful] plugin that gets a call before the start of a turn is recorded. The commit of the start
// has the state as this call leaves it. The call must not block.
type TurnStarter interface{ TurnStarts() }

// StartTurn calls the plugins that take part in the start of a turn.
func (s *Stack) StartTurn() error {
	var errs []error
	for i := range s.plugins {
		if p, ok := s.plugins[i].plugin.(TurnStarter); ok {
			_, err := recovered(s.plugins[i].id, "turn_starts", func() (struct{}, error) { p.TurnStarts(); return struct{}{}, nil })
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
