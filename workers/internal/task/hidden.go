package task

import (
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// MaxHidden is how many hidden tasks of one session may run in a process at once.
const MaxHidden = 256

// hiddenTask is work that no history knows.
type hiddenTask struct {
	label string
	done  chan struct{}
	err   error // set before done is closed
}

// hiddenTasks are those of a process, by session. It is not safe for concurrent use.
type hiddenTasks map[events.SessionID]*hiddenOf

// hiddenOf are the hidden tasks of a session. Tasks that ended well leave it, and of those that failed
// the one that was spawned first stays alone: the next await tells of no other.
type hiddenOf struct {
	running int           // also of those that an await has taken
	tasks   []*hiddenTask // that no await has taken, in the order of their spawns
	failed  *hiddenTask   // the one of tasks that has ended
}

// add puts a task among those of its session. Where as many run as may, it is an [api.LimitError].
func (h hiddenTasks) add(id events.SessionID, t *hiddenTask) error {
	of := h[id]
	if of == nil {
		of = &hiddenOf{}
		h[id] = of
	}
	if of.running >= MaxHidden {
		return &api.LimitError{What: "hidden tasks of the session that run", Limit: MaxHidden}
	}
	of.running++
	of.tasks = append(of.tasks, t)
	return nil
}

// end is for a task that has ended, with its error.
func (h hiddenTasks) end(id events.SessionID, t *hiddenTask) {
	of := h[id]
	of.running--
	if at := slices.Index(of.tasks, t); at >= 0 {
		gone := t
		if t.err != nil {
			gone = of.failed
			if other := slices.Index(of.tasks, of.failed); of.failed != nil && other < at {
				gone = t
			} else {
				of.failed = t
			}
		}
		of.tasks = slices.DeleteFunc(of.tasks, func(o *hiddenTask) bool { return o == gone })
	}
	h.drop(id)
}

// take gives the tasks that no await has taken.
func (h hiddenTasks) take(id events.SessionID) []*hiddenTask {
	of := h[id]
	if of == nil {
		return nil
	}
	batch := of.tasks
	of.tasks, of.failed = nil, nil
	h.drop(id)
	return batch
}

func (h hiddenTasks) drop(id events.SessionID) {
	if of := h[id]; of.running == 0 && len(of.tasks) == 0 {
		delete(h, id)
	}
}

// SpawnHiddenTask implements [session.Spawner]: it starts work at once that is
// never listed and cannot be cancelled. It is this process's alone, and
// [Service.AwaitHiddenTasks] waits for it. More than [MaxHidden] of a session are an [api.LimitError].
func (t *Service) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	if _, err := t.h.State(ctx, id); err != nil {
		return fmt.Errorf("spawn hidden task %q: %w", label, err)
	}
	hidden := &hiddenTask{label: label, done: make(chan struct{})}
	t.mu.Lock()
	err := ErrNotStarted
	if t.fetch != nil && !t.stopping {
		err = t.hidden.add(id, hidden)
	}
	if err != nil {
		t.mu.Unlock()
		return fmt.Errorf("spawn hidden task %q: %w", label, err)
	}
	t.busy.Add(1)
	t.jobs.Add(1)
	t.mu.Unlock()
	go func() { // waited for by Stop and AwaitHiddenTasks
		defer t.jobs.Done()
		defer t.busy.Done()
		hidden.err = contained(t.life, work)
		t.mu.Lock()
		t.hidden.end(id, hidden)
		t.mu.Unlock()
		close(hidden.done)
	}()
	return nil
}

// AwaitHiddenTasks implements [session.Spawner]: it waits for the session's
// hidden tasks in the order of their spawns, and for those that they spawn,
// until there are none. The first error is returned at once; the rest of the
// tasks go on, and are not awaited.
func (t *Service) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	for {
		t.mu.Lock()
		batch := t.hidden.take(id)
		t.mu.Unlock()
		if len(batch) == 0 {
			return nil
		}
		for _, hidden := range batch {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-hidden.done:
			}
			if hidden.err != nil {
				return fmt.Errorf("hidden task %q: %w", hidden.label, hidden.err)
			}
		}
	}
}
