package archive

import (
	"fmt"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// WorkError is a session with work left, which a node would continue.
type WorkError struct {
	Session events.SessionID
	Work    []string // "turn t1", "task k1", "monitor m1", "creation 2"
}

func (e *WorkError) Error() string {
	return fmt.Sprintf("session %s has work left, which a node would continue, with the commands and calls in it: %s", e.Session, strings.Join(e.Work, ", "))
}

// refuseWork returns a [*WorkError] for a session with work left: turns that run, wait or have a time, inputs that begin one,
// live tasks, and monitors that start with the next turn; and for one whose creator has not appended all first nodes: nothing
// would ever open or close it.
func refuseWork(s *projector.State) error {
	var work []string
	add := func(what, id string) { work = append(work, what+" "+id) }
	if s.Status == projector.StatusOpen {
		for i := range s.Run {
			add("turn", string(s.Run[i].ID))
		}
		for i := range s.Queue {
			add("turn", string(s.Queue[i].ID))
		}
		for i := range s.Scheduled {
			add("turn", string(s.Scheduled[i].ID))
		}
		if len(work) == 0 && turn.Claimable(s) {
			add("turn", "of an input")
		}
	}
	if s.Status == projector.StatusOpening {
		add("creation", fmt.Sprint(s.Opening))
	}
	for i := range s.Tasks {
		if t := &s.Tasks[i]; task.NeedsWorker(t) {
			add("task", string(t.ID))
		}
	}
	for i := range s.Monitors {
		if m := &s.Monitors[i]; m.Armed && s.Status == projector.StatusOpen {
			add("monitor", string(m.Spec.ID))
		}
	}
	const shown = 8
	if len(work) > shown {
		work = append(work[:shown:shown], fmt.Sprintf("and %d more", len(work)-shown))
	}
	if len(work) > 0 {
		return &WorkError{Session: s.Session, Work: work}
	}
	return nil
}
