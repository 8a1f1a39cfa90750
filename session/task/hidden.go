package task

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// MaxHidden is how many hidden tasks of one session may run at once.
const MaxHidden = 256

// Hide registers a task of a worker that is never listed. More than [MaxHidden] are an [api.LimitError].
func Hide(s *projector.State, id, parent events.TaskID, label string, worker events.WorkerID) ([]events.Event, error) {
	live := 0
	for i := range s.Tasks {
		if s.Tasks[i].Hidden && s.Tasks[i].Live() {
			live++
		}
	}
	if live >= MaxHidden {
		return nil, &api.LimitError{What: "hidden tasks of the session that run", Limit: MaxHidden}
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

// Hidden lists the hidden tasks that live, or have failed and of which no await was told, in
// the order of their registrations; only those that a hidden task has spawned itself, where parent is one.
func Hidden(s *projector.State, parent events.TaskID) []*projector.Task {
	var list []*projector.Task
	for i := range s.Tasks {
		if t := &s.Tasks[i]; t.Hidden && t.To == "" && (parent == "" || t.Parent == parent) {
			list = append(list, t)
		}
	}
	return list
}

// Detach lets an await go that has met a failed task: neither that nor the other tasks of the await are told of again.
func Detach(s *projector.State, ids []events.TaskID) []events.Event {
	var list []events.Event
	for _, id := range ids {
		if t, ok := here(s, id); ok && t.Hidden {
			list = append(list, events.Of("", &events.TaskRemoved{Task: id}))
		}
	}
	return list
}
