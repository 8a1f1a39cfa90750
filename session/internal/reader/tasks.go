package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
)

// Approvals lists the questions about calls of the running turn that wait for an answer, and those of agents, with the arguments
// whole.
func (r *Reader) Approvals(ctx context.Context, id events.SessionID) ([]api.PendingApproval, error) {
	s, err := r.State(ctx, id)
	if err != nil {
		return nil, err
	}
	list, err := r.asked(ctx, s)
	for i := range list {
		a := &list[i]
		if a.Args, err = blob.Body(ctx, r.b, a.Args, a.Blob); err != nil {
			return nil, fmt.Errorf("approvals of session %s: arguments of %s: %w", a.Session, a.Effect, err)
		}
	}
	return list, err
}

// asked are the open questions of a session, and of the agents that work for it, of each level.
func (r *Reader) asked(ctx context.Context, s *projector.State) (list []api.PendingApproval, err error) {
	for _, a := range s.UnansweredApprovals() {
		list = append(list, api.PendingApproval{Session: s.Session, Approval: a})
	}
	for i := range s.Tasks {
		t := &s.Tasks[i]
		if t.Of != events.TaskSubagent || t.State != events.TaskRunning {
			continue
		}
		agent, err := r.State(api.WithSession(ctx, t.Child), t.Child)
		if errors.Is(err, events.ErrNoSession) || errors.Is(err, api.ErrForbidden) || err == nil && agent.Parent != s.Session {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("questions of agent %s: %w", t.Child, err)
		}
		of, err := r.asked(ctx, agent)
		if err != nil {
			return nil, err
		}
		list = append(list, of...)
	}
	return list, nil
}

// TaskOf is a copy of a task's record. For a caller that may not read the session it has the task's status and no texts.
func TaskOf(ctx context.Context, s *projector.State, name events.TaskID) (projector.Task, error) {
	switch t, ok := s.Task(name); {
	case ok && api.CheckRead(ctx, s) != nil:
		return projector.Task{ID: t.ID, Of: t.Of, State: t.State, Attempt: t.Attempt, To: t.To, CreatedAt: t.CreatedAt, UpdatedAt: t.UpdatedAt, CompletedAt: t.CompletedAt}, nil
	case ok:
		return *t, nil
	}
	return projector.Task{}, fmt.Errorf("task %s of session %s: %w", name, s.Session, api.ErrUnknownTask)
}

// Task is the record of a task as it is now; of a transferred one it names the session that has it.
func (r *Reader) Task(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return r.taskRecord(ctx, id, name, true)
}

// CachedTask is [Reader.Task] from the cached state, which may be behind the log.
func (r *Reader) CachedTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return r.taskRecord(ctx, id, name, false)
}

func (r *Reader) taskRecord(ctx context.Context, id events.SessionID, name events.TaskID, fresh bool) (t projector.Task, err error) {
	err = r.states.Inspect(ctx, id, fresh, func(s *projector.State) (err error) {
		t, err = TaskOf(ctx, s, name)
		return err
	})
	return t, err
}

// Tasks lists the session's tasks by creation, ended ones too. A session that does not exist has no tasks.
func (r *Reader) Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	s, err := r.State(ctx, id)
	if errors.Is(err, events.ErrNoSession) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	var list []projector.Task
	for i := range s.Tasks {
		if s.Tasks[i].To == "" && !s.Tasks[i].Hidden {
			list = append(list, s.Tasks[i])
		}
	}
	return r.withoutTransferred(ctx, list)
}

// withoutTransferred leaves out tasks of a closed session that its parent already has, so that each task is in one list. A
// parent that does not exist has none. A parent that cannot be read may have them: that is an error.
func (r *Reader) withoutTransferred(ctx context.Context, list []projector.Task) ([]projector.Task, error) {
	var parent *projector.State
	var kept []projector.Task
	for i := range list {
		t := &list[i]
		if t.LeavePending() && parent == nil {
			var err error
			parent, err = r.State(api.WithoutCaller(ctx), t.Leaves)
			if errors.Is(err, events.ErrNoSession) {
				return list, nil
			}
			if err != nil {
				return nil, fmt.Errorf("tasks that leave for their parent: %w", err)
			}
		}
		if t.LeavePending() {
			if there, ok := parent.Task(t.ID); ok && there.CreatedAt == t.CreatedAt && there.From != "" {
				continue
			}
		}
		kept = append(kept, *t)
	}
	return kept, nil
}
