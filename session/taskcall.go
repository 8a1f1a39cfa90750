package session

import (
	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

type taskKey struct {
	session events.SessionID
	task    events.TaskID
}

// callback is what somebody outside wants done when the task that it runs is cancelled.
type callback struct {
	call func()
	stop func() // listening
}

// onCancel keeps a callback. Cancels of other processes are heard live.
func (h *Host) onCancel(id events.SessionID, t projector.Task, call func()) error {
	key := taskKey{id, t.ID}
	stop, err := h.b.OnCommit(id, func(m bus.LiveMessage) { h.heardTask(key, m) })
	if err != nil {
		return err
	}
	h.dropCallback(id, t.ID) // of an earlier task of that id
	h.mu.Lock()
	defer h.mu.Unlock()
	h.callbacks[key] = &callback{call, stop}
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

// moveCallback follows a task to another session.
func (h *Host) moveCallback(key taskKey, to events.SessionID) {
	c := h.takeCallback(key)
	if c == nil {
		return
	}
	c.stop()
	if err := h.onCancel(to, projector.Task{ID: key.task}, c.call); err != nil {
		h.zap.Warn("a task's owner will not hear that it is cancelled")
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
