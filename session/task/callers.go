package task

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// OnBehalf sets the callers of the tasks that events register: the caller that requests them. A task that a node runs without a
// caller's request has the callers of the running turn, else of the next one, else of the turn that ended last.
func OnBehalf(s *projector.State, list []events.Event, caller string) []events.Event {
	for i := range list {
		if p, ok := list[i].Payload.(*events.TaskRegistered); ok {
			p.Callers = callersOf(s, p, caller)
		}
	}
	return list
}

func callersOf(s *projector.State, p *events.TaskRegistered, caller string) []string {
	switch t := s.Turn(); {
	case caller != "":
		return []string{caller}
	case p.Runner == "" && p.Worker == "":
		return nil // of the program that registers it, and runs it
	case t != nil:
		return t.Callers
	case len(s.Queue) > 0:
		return s.Queue[0].Callers
	}
	return s.Callers
}
