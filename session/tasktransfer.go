package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// TransferHandles moves tasks to another session, all or none: an id that is a
// live task there refuses with [ErrTaskRunning] and moves nothing; one that the
// source does not have is skipped. A monitor stays where it is: [ErrMonitorTask].
//
// Two histories cannot change in one step. The target registers all tasks in
// one commit, then the source marks all as transferred in one. In between they
// are in both, the source's word counts, and a task that changes there is
// registered anew before the source lets go. A caller that dies in between
// calls again, or leaves it to the tasks' jobs in the target, which finish the
// transfer when a worker takes them.
func (h *Host) TransferHandles(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error {
	if from == to || len(ids) == 0 {
		return nil
	}
	for {
		moved, err := h.transfer(ctx, from, to, ids)
		if err != nil {
			return fmt.Errorf("transfer tasks from %s to %s: %w", from, to, err)
		}
		if moved {
			return nil
		}
	}
}

func (h *Host) transfer(ctx context.Context, from, to events.SessionID, ids []events.TaskID) (moved bool, err error) {
	source, err := h.State(ctx, from)
	if err != nil {
		return false, err
	}
	list, err := task.Leaving(source, ids)
	if err != nil || len(list) == 0 {
		return true, err
	}
	err = h.decide(ctx, to, "transfer tasks", func(s *projector.State) ([]events.Event, error) {
		if err := open(s); err != nil {
			return nil, err
		}
		return task.Arrive(s, list)
	})
	if err != nil {
		return false, err
	}
	for i := range list {
		t, err := h.task(ctx, to, list[i].Task, false)
		if err != nil {
			return false, err
		}
		if err := h.enqueueTask(ctx, to, &t); err != nil {
			return false, err
		}
	}
	err = h.decide(ctx, from, "transfer tasks", func(s *projector.State) (out []events.Event, err error) {
		out, moved = task.Leave(s, to, list)
		return out, nil
	})
	if err == nil && moved {
		for i := range list {
			h.moveCallback(taskKey{from, list[i].Task}, to)
		}
	}
	return moved, err
}
