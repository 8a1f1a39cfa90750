package task

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// maxHidden limits the hidden tasks of one session that run concurrently.
const maxHidden = 256

// Hide registers a hidden task of a worker. More than maxHidden are an [api.LimitError].
func Hide(s *projector.State, id, parent events.TaskID, label string, worker events.WorkerID) ([]events.Event, error) {
	live := 0
	for i := range s.Tasks {
		if s.Tasks[i].Hidden && s.Tasks[i].Live() {
			live++
		}
	}
	if live >= maxHidden {
		return nil, &api.LimitError{What: "hidden tasks of the session that run", Limit: maxHidden}
	}
	hidden := &events.TaskHidden{Task: id, Label: label}
	if err := hidden.Validate(); err != nil {
		return nil, err
	}
	list, err := Register(s, events.TaskRegistered{Task: id, Parent: parent, Worker: worker, State: events.TaskRunning})
	if err != nil {
		return nil, err
	}
	return append(list, events.Of("", hidden)), nil
}

// Hidden lists the hidden tasks that live, or that failed and were not reported by an await, in the order of
// registrations. A parent that is not empty restricts the list to tasks that this hidden task spawned.
func Hidden(s *projector.State, parent events.TaskID) []*projector.Task {
	var list []*projector.Task
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Hidden && t.To == "" && (parent == "" || t.Parent == parent) {
			list = append(list, t)
		}
	}
	return list
}

// Detach ends an await that found a failed task: the await's tasks are not reported again.
func Detach(s *projector.State, ids []events.TaskID) []events.Event {
	var list []events.Event
	for _, id := range ids {
		if t, ok := here(s, id); ok && t.Hidden {
			list = append(list, events.Of("", &events.TaskRemoved{Task: id}))
		}
	}
	return list
}
