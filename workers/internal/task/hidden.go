package task

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
)

// SpawnHiddenTask implements [session.Spawner]: it starts work of this process at once. The task is never listed and
// cannot be cancelled. It is in the session's history, so that other processes can await it. It fails when this
// process dies.
func (t *Service) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	key := taskKey{id, events.TaskID("hidden-" + ulid.Make().String())}
	if t.fetch == nil || !t.reserve(key, classHidden) {
		return fmt.Errorf("spawn hidden task %q: %w", label, errNotStarted)
	}
	defer t.unreserve(key)
	rec, err := t.cfg.Worker.HideTask(ctx, id, key.task, label, t.cfg.ID)
	if err != nil {
		return fmt.Errorf("spawn hidden task %q: %w", label, err)
	}
	r := t.newRun(id, &rec, true)
	r.class = classHidden
	r.work = r.plain(func(ctx context.Context, _ *Running) (string, error) {
		err := work(session.WithinHidden(ctx, key.task))
		if err != nil {
			t.failures.Add(key.task, err)
		}
		return "", err
	})
	t.launch(r)
	return nil
}

// classHidden is the class of hidden tasks. They do not count against the limit of tasks from the queue.
const classHidden bus.Class = "hidden"

// AwaitHiddenTasks implements [session.Spawner], see [session.Worker.AwaitHiddenTasks]. For a task of this process, the
// error is the one that its work returned.
func (t *Service) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	err := t.cfg.Worker.AwaitHiddenTasks(ctx, id)
	if failed, ok := errors.AsType[*session.HiddenError](err); ok {
		if own, cached := t.failures.Peek(failed.Task); cached {
			t.failures.Remove(failed.Task)
			return fmt.Errorf("hidden task %q: %w", failed.Label, own)
		}
	}
	return err
}

// maxFailures limits the errors of this process's hidden tasks that are cached for an await. Histories have only their
// texts.
const maxFailures = 256
