package callback

import (
	"context"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Callbacks are the functions that a process keeps for tasks. They are safe for concurrent use.
type Callbacks struct {
	b    *bus.Bus
	log  *zap.Logger
	task TaskFunc

	mu   sync.Mutex
	list map[key]*callback
}

type key struct {
	session events.SessionID
	task    events.TaskID
}

type callback struct {
	call func()
	stop func() // ends the subscription
}

// TaskFunc returns the record of a task as it is now.
type TaskFunc func(ctx context.Context, id events.SessionID, task events.TaskID) (projector.Task, error)

// lookWithin bounds the read of a task that was transferred.
const lookWithin = 10 * time.Second

// New makes an empty set.
func New(b *bus.Bus, log *zap.Logger, task TaskFunc) *Callbacks {
	return &Callbacks{b: b, log: log, task: task, list: make(map[key]*callback)}
}

// Set keeps a function for a task, in place of that of an earlier task of the id. Cancels by other processes arrive by
// the live subject; the read of the task finds what was committed before the subscription began. No goroutine waits for
// the cancel: a session may have a thousand such tasks.
func (c *Callbacks) Set(ctx context.Context, id events.SessionID, task events.TaskID, call func()) error {
	k := key{id, task}
	stop, err := c.b.OnCommit(id, func(m bus.LiveMessage) { c.received(k, m) })
	if err != nil {
		return err
	}
	c.Drop(id, task)
	c.mu.Lock()
	c.list[k] = &callback{call, stop}
	c.mu.Unlock()
	t, err := c.task(ctx, id, task)
	switch {
	case err != nil:
		return err
	case t.To != "":
		c.Move(id, task, t.To)
	case t.State == events.TaskCancelling, t.State == events.TaskCancelled:
		c.Call(id, task)
	case t.State.Terminal():
		c.Drop(id, task)
	}
	return nil
}

func (c *Callbacks) remove(k key) *callback {
	c.mu.Lock()
	defer c.mu.Unlock()
	cb := c.list[k]
	delete(c.list, k)
	return cb
}

// Drop forgets the function of a task.
func (c *Callbacks) Drop(id events.SessionID, task events.TaskID) {
	if cb := c.remove(key{id, task}); cb != nil {
		cb.stop()
	}
}

// Call calls the function of a task, and forgets it.
func (c *Callbacks) Call(id events.SessionID, task events.TaskID) {
	if cb := c.remove(key{id, task}); cb != nil {
		cb.stop()
		cb.call()
	}
}

// Move keeps the function for the task in another session.
func (c *Callbacks) Move(from events.SessionID, task events.TaskID, to events.SessionID) {
	cb := c.remove(key{from, task})
	if cb == nil {
		return
	}
	cb.stop()
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin) // a subscription has no context
	defer cancel()
	if err := c.Set(ctx, to, task, cb.call); err != nil {
		c.log.Warn("a task's owner may miss its cancel", zap.String("session", string(to)), zap.Error(err))
	}
}

func (c *Callbacks) received(k key, m bus.LiveMessage) {
	if !m.AboutTasks {
		return
	}
	commit, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	for i := range commit.Events {
		switch p := commit.Events[i].Payload.(type) {
		case *events.TaskCancelRequested:
			if p.Task == k.task {
				c.Call(k.session, k.task)
			}
		case *events.TaskEnded:
			switch {
			case p.Task != k.task:
			case p.State == events.TaskCancelled:
				c.Call(k.session, k.task)
			default:
				c.Drop(k.session, k.task)
			}
		case *events.TaskTransferred:
			if slices.Contains(p.Tasks, k.task) {
				c.Move(k.session, k.task, p.To)
			}
		}
	}
}
