package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/task"
)

// TransferTasks moves tasks to another session, all or none. An id that is a live task in the target refuses
// the transfer with [api.ErrTaskRunning]. An id that the source does not have is skipped. The task of a monitor cannot
// move: [api.ErrMonitorTask].
//
// Two histories cannot change in one step:
//
//  1. The target registers all tasks in one commit.
//  2. The source marks all as transferred in one commit.
//
// Between the two both sessions have the tasks, and the source's record counts. A task that changes in between is
// registered again before step 2. If the caller stops in between, a second call finishes the transfer; so does the
// worker that receives the wakes of the tasks in the target. A task with an unfinished earlier transfer does not move
// before that one is finished, because its first source still runs it.
func (h *Host) TransferTasks(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error {
	if from == to || len(ids) == 0 {
		return nil
	}
	if err := check.Count("tasks", len(ids), task.MaxLive); err != nil {
		return err
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	meta, err := h.keyedMeta(ctx, requestContent{operation.TransferTasks.Name, transferring, &api.TransferArgs{To: to, Tasks: ids}}, reqMeta)
	if err != nil {
		return err
	}
	for {
		moved, err := h.transfer(ctx, from, to, ids, transferParams{meta: meta, finishEarlier: true})
		if err != nil {
			return fmt.Errorf("transfer tasks from %s to %s: %w", from, to, err)
		}
		if moved {
			return nil
		}
	}
}

// transferring is the cause of the commits of a transfer.
const transferring = "transfer tasks"

// FinishTransfer finishes a transfer whose caller stopped after step 1: t is the task's record in the target.
// finished is false where no transfer was pending.
func (w Worker) FinishTransfer(ctx context.Context, id events.SessionID, t projector.Task) (finished bool, err error) {
	if !t.Live() || t.From == "" {
		return false, nil
	}
	there, err := w.Host.Task(ctx, t.From, t.ID)
	switch {
	case errors.Is(err, api.ErrUnknownTask), errors.Is(err, events.ErrNoSession):
		return false, nil
	case err != nil:
		return false, err
	case there.To != "" || there.CreatedAt != t.CreatedAt:
		return false, nil
	}
	ctx = w.as(ctx)
	for moved := false; !moved && err == nil; {
		moved, err = w.Host.transfer(ctx, t.From, id, []events.TaskID{t.ID}, transferParams{meta: w.Host.ownMeta(ctx, transferring)})
	}
	return true, err
}

// transferParams are the parameters of a transfer.
type transferParams struct {
	meta          commitMeta // of the commit by which the tasks leave, with the request's key
	finishEarlier bool       // finish earlier transfers of the tasks first; false: of a task that is on its way back, either direction will do
	checkCapacity bool       // the target must have capacity for tasks that are new to it, besides the bounds of all
}

// transfer is one try. A closed target accepts no new tasks; the copies that it has are updated.
func (h *Host) transfer(ctx context.Context, from, to events.SessionID, ids []events.TaskID, m transferParams) (moved bool, err error) {
	source, err := h.State(ctx, from)
	if err != nil {
		return false, err
	}
	if seq, err := m.meta.repeatOf(ctx, source); err != nil || seq != 0 {
		return err == nil, err
	}
	list, err := task.Leaving(source, ids)
	if err != nil || len(list) == 0 {
		return true, err
	}
	for i := 0; m.finishEarlier && i < len(list); i++ {
		t, _ := source.Task(list[i].Task)
		if finished, err := h.Worker().FinishTransfer(ctx, from, *t); finished || err != nil {
			return false, err // the task may have been replaced meanwhile
		}
	}
	o := decideOptions{meta: commitMeta{actor: m.meta.actor, cause: transferring}}
	err = h.decideUntilAppended(api.WithSession(ctx, to), to, o, func(s *projector.State) ([]events.Event, error) {
		if task.New(s, list) {
			if err := check.Open(s); err != nil {
				return nil, err
			}
			if m.checkCapacity {
				if err := task.CheckTransferCapacity(s, list); err != nil {
					return nil, err
				}
			}
		}
		return task.Arrive(s, list)
	})
	if err != nil {
		return false, err
	}
	err = h.decideUntilAppended(ctx, from, decideOptions{meta: m.meta, repeatHints: true}, func(s *projector.State) (out []events.Event, err error) {
		out, moved = task.Depart(s, to, list, source.Seq)
		return out, nil
	})
	return moved, err
}
