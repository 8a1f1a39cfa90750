package callback

import (
	"context"
	"errors"
	"maps"
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
	b     *bus.Bus
	log   *zap.Logger
	task  TaskFunc
	every time.Duration // between two looks at all tasks

	mu    sync.Mutex
	list  map[key]*callback
	again *time.Timer // of the next look; nil while the list is empty
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

const (
	// lookWithin bounds the read of a task that was transferred, and a look at all tasks.
	lookWithin = 10 * time.Second
	// lookEvery is the time between two looks at all tasks: live messages may be lost, as in a reconnect.
	lookEvery = 30 * time.Second
)

// New makes an empty set.
func New(b *bus.Bus, log *zap.Logger, task TaskFunc) *Callbacks {
	return &Callbacks{b: b, log: log, task: task, every: lookEvery, list: make(map[key]*callback)}
}

// Set keeps a function for a task, in place of that of an earlier task of the id. Cancels by other processes arrive by
// the live subject; the read of the task finds what was committed before the subscription began, and a look
// every [lookEvery] what the live subject lost.
func (c *Callbacks) Set(ctx context.Context, id events.SessionID, task events.TaskID, call func()) error {
	k, cb := key{id, task}, &callback{call: call}
	stop, err := c.b.OnCommit(id, func(m bus.LiveMessage) { c.received(k, cb, m) })
	if err != nil {
		return err
	}
	cb.stop = stop
	if old := c.replace(k, cb); old != nil {
		old.stop()
	}
	return c.look(ctx, k, cb)
}

// look does what the record of a task says.
func (c *Callbacks) look(ctx context.Context, k key, cb *callback) error {
	t, err := c.task(ctx, k.session, k.task)
	switch {
	case errors.Is(err, events.ErrNoSession): // it was erased
		c.drop(k, cb)
		return err
	case err != nil:
		return err
	case t.To != "":
		c.move(k, cb, t.To)
	case t.State == events.TaskCancelling, t.State == events.TaskCancelled:
		c.fire(k, cb)
	case t.State.Terminal():
		c.drop(k, cb)
	}
	return nil
}

// lookAgain looks at all tasks. It ends where the servers do not answer; the next look is due in any case, also while a
// function that it calls runs on.
func (c *Callbacks) lookAgain() {
	c.mu.Lock()
	list := maps.Clone(c.list)
	if c.again = nil; len(list) > 0 && !c.b.Closed() {
		c.again = time.AfterFunc(c.every, c.lookAgain)
	}
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin) // a timer has no context
	defer cancel()
	for k, cb := range list {
		if err := c.look(ctx, k, cb); errors.Is(err, events.ErrOutcomeUnknown) || ctx.Err() != nil {
			return
		}
	}
}

// replace keeps a callback, and returns the one that it replaces. Both is one step: of two that are set at once, one
// replaces the other.
func (c *Callbacks) replace(k key, now *callback) (old *callback) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old = c.list[k]
	c.list[k] = now
	if c.again == nil {
		c.again = time.AfterFunc(c.every, c.lookAgain)
	}
	return old
}

// remove takes a callback out of the list; nil where the list has another one by now. only nil takes any.
func (c *Callbacks) remove(k key, only *callback) *callback {
	c.mu.Lock()
	defer c.mu.Unlock()
	cb := c.list[k]
	if only != nil && cb != only {
		return nil
	}
	delete(c.list, k)
	return cb
}

// Drop forgets the function of a task.
func (c *Callbacks) Drop(id events.SessionID, task events.TaskID) { c.drop(key{id, task}, nil) }

func (c *Callbacks) drop(k key, only *callback) {
	if cb := c.remove(k, only); cb != nil {
		cb.stop()
	}
}

// Call calls the function of a task, and forgets it.
func (c *Callbacks) Call(id events.SessionID, task events.TaskID) { c.fire(key{id, task}, nil) }

func (c *Callbacks) fire(k key, only *callback) {
	if cb := c.remove(k, only); cb != nil {
		cb.stop()
		cb.call()
	}
}

// move keeps the function for the task in another session.
func (c *Callbacks) move(k key, only *callback, to events.SessionID) {
	cb := c.remove(k, only)
	if cb == nil {
		return
	}
	cb.stop()
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin) // a subscription has no context
	defer cancel()
	if err := c.Set(ctx, to, k.task, cb.call); err != nil {
		c.log.Warn("a task's owner may miss its cancel", zap.String("session", string(to)), zap.Error(err))
	}
}

func (c *Callbacks) received(k key, cb *callback, m bus.LiveMessage) {
	if !m.AboutTasks {
		return
	}
	entry, err := c.b.Entry(m)
	if err != nil {
		return
	}
	for i := range entry.Commit.Events {
		switch p := entry.Commit.Events[i].Payload.(type) {
		case *events.TaskCancelRequested:
			if p.Task == k.task {
				c.fire(k, cb)
			}
		case *events.TaskEnded:
			switch {
			case p.Task != k.task:
			case p.State == events.TaskCancelled:
				c.fire(k, cb)
			default:
				c.drop(k, cb)
			}
		case *events.TaskTransferred:
			if slices.Contains(p.Tasks, k.task) {
				c.move(k, cb, p.To)
			}
		}
	}
}
