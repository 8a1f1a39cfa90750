package session

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
)

// lookWithin bounds the look at the session that a task went to.
const lookWithin = 10 * time.Second

type taskKey struct {
	session events.SessionID
	task    events.TaskID
}

// callback is what somebody outside wants done when the task that it runs is cancelled.
type callback struct {
	call func()
	stop func() // listening
}

// onCancel keeps a callback. Cancels of other processes come live; the look at the state finds what was committed before
// the subscription began.
func (h *Host) onCancel(ctx context.Context, id events.SessionID, name events.TaskID, call func()) error {
	key := taskKey{id, name}
	stop, err := h.b.OnCommit(id, func(m bus.LiveMessage) { h.heardTask(key, m) })
	if err != nil {
		return err
	}
	h.dropCallback(id, name) // of an earlier task of that id
	h.mu.Lock()
	h.callbacks[key] = &callback{call, stop}
	h.mu.Unlock()
	t, err := h.task(ctx, id, name, true)
	switch {
	case err != nil:
		return err
	case t.To != "":
		h.moveCallback(key, t.To)
	case t.State == events.TaskCancelling, t.State == events.TaskCancelled:
		h.callBack(id, name)
	case t.State.Terminal():
		h.dropCallback(id, name)
	}
	return nil
}

func (h *Host) takeCallback(key taskKey) *callback {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.callbacks[key]
	delete(h.callbacks, key)
	return c
}

func (h *Host) dropCallback(id events.SessionID, name events.TaskID) {
	if c := h.takeCallback(taskKey{id, name}); c != nil {
		c.stop()
	}
}

// callBack calls what was kept for a task, the first time.
func (h *Host) callBack(id events.SessionID, name events.TaskID) {
	if c := h.takeCallback(taskKey{id, name}); c != nil {
		c.stop()
		c.call()
	}
}

// moveCallback follows a task to another session, whichever process moved it.
func (h *Host) moveCallback(key taskKey, to events.SessionID) {
	c := h.takeCallback(key)
	if c == nil {
		return
	}
	c.stop()
	ctx, cancel := context.WithTimeout(context.Background(), lookWithin) // a subscription has no context
	defer cancel()
	if err := h.onCancel(ctx, to, key.task, c.call); err != nil {
		h.zap.Warn("a task's owner may miss its cancel", zap.String("session", string(to)), zap.Error(err))
	}
}

func (h *Host) heardTask(key taskKey, m bus.LiveMessage) {
	if !m.AboutTasks {
		return
	}
	c, err := events.Decode(m.Data)
	if err != nil {
		return
	}
	for i := range c.Events {
		switch p := c.Events[i].Payload.(type) {
		case *events.TaskCancelRequested:
			if p.Task == key.task {
				h.callBack(key.session, key.task)
			}
		case *events.TaskEnded:
			switch {
			case p.Task != key.task:
			case p.State == events.TaskCancelled:
				h.callBack(key.session, key.task)
			default:
				h.dropCallback(key.session, key.task)
			}
		case *events.TaskTransferred:
			for _, name := range p.Tasks {
				if name == key.task {
					h.moveCallback(key, p.To)
				}
			}
		}
	}
}
