package sim

import (
	"errors"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/session/turn"
)

// host is the host of a process: its cached states, and its calls in progress. Other processes act between two parts
// of a call.
type host struct {
	w      *world
	id     events.WorkerID // node of the process; empty: none
	states map[events.SessionID]*projector.State
	calls  [][]func() // remaining parts of each
}

func newHost(w *world, id events.WorkerID) *host {
	return &host{w: w, id: id, states: make(map[events.SessionID]*projector.State)}
}

// later queues the parts of a call for execution one by one.
func (h *host) later(parts ...func()) {
	if len(parts) > 0 {
		h.calls = append(h.calls, parts)
	}
}

// goOn executes the next part of one of the calls. The process may die before it.
func (h *host) goOn(*rapid.T) {
	if len(h.calls) == 0 {
		return
	}
	i := 0
	if len(h.calls) > 1 {
		i = rapid.IntRange(0, len(h.calls)-1).Draw(h.w.t, "call")
	}
	parts := h.calls[i]
	h.calls = slices.Delete(h.calls, i, i+1)
	if h.id == "" && h.w.lossy && h.w.chance(6, "dies") {
		h.w.t.Logf("a host dies before its wake")
		return
	}
	h.later(parts[1:]...)
	parts[0]()
}

// die ends the process. In a lossless schedule it first finishes its calls.
func (h *host) die() {
	if !h.w.lossy {
		h.finish()
	}
	h.calls = nil
}

// finish runs every call to its end, one after the other. Two transfers of a task in opposite directions would never
// end if they alternated.
func (h *host) finish() {
	for last := len(h.calls) - 1; last >= 0; last = len(h.calls) - 1 {
		parts := h.calls[last]
		h.calls = h.calls[:last]
		h.later(parts[1:]...)
		parts[0]()
	}
}

// load is the cached state, or, if fresh, the newest state.
func (h *host) load(id events.SessionID, fresh bool) *projector.State {
	s := h.states[id]
	if s == nil {
		s, fresh = projector.New(id), true
		h.states[id] = s
	}
	if fresh {
		if err := follow.Sync(h.w.ctx, h.w.log, nil, s); err != nil {
			h.w.t.Fatal(err)
		}
	}
	return s
}

// decideFunc returns the events to append to a state; none: there is nothing to do.
type decideFunc func(*projector.State) ([]events.Event, error)

// decide appends a decision on the cached state, or on the newest one where the cached one is too old. The caller then
// executes the returned wakes and notifications.
func (h *host) decide(id events.SessionID, d decideFunc) (hints []func(), err error) {
	return h.decideAs(id, act{}, d)
}

// decideAs is decide for a worker that acts on a claim of a task.
func (h *host) decideAs(id events.SessionID, by act, d decideFunc) (hints []func(), err error) {
	for fresh := h.states[id] == nil; ; {
		s := h.load(id, fresh)
		list, err := d(s)
		if (err != nil || len(list) == 0) && !fresh {
			fresh = true
			continue
		}
		if err != nil || len(list) == 0 {
			return nil, err
		}
		c := h.w.commit(id, h.id, list...)
		h.w.acts[c.ID] = by
		h.w.logAppend("host "+string(h.id), c, s.Seq)
		seq, err := h.w.log.Append(h.w.ctx, c, s.Seq)
		if errors.As(err, new(*events.ConflictError)) {
			fresh = true
			continue
		}
		if err != nil {
			return nil, err
		}
		due := turn.Due(s)
		if s.Apply(events.Entry{Seq: seq, Commit: c}) != nil { // the log ignores the expected sequence; the check of the histories finds it
			delete(h.states, id)
			h.load(id, true)
			return nil, nil
		}
		return h.hints(s, list, due), nil
	}
}

func (w *world) logAppend(by string, c *events.Commit, at events.Seq) {
	for i := range c.Events {
		about := fmt.Sprintf("%q", c.Events[i].Turn)
		switch p := c.Events[i].Payload.(type) {
		case *events.TaskRegistered:
			about = fmt.Sprintf("%s, from %q", p.Task, p.From)
		case *events.TaskStarted:
			about = fmt.Sprintf("%s, attempt %d", p.Task, p.Attempt)
		case *events.TaskTransferred:
			about = fmt.Sprintf("%v, to %s", p.Tasks, p.To)
		case *events.TaskEnded:
			about = fmt.Sprintf("%s, %s", p.Task, p.State)
		}
		w.t.Logf("%s appends %s of %s to %s at %d", by, c.Events[i].Kind, about, c.Session, at)
	}
}

// hints notifies workers of a commit that needs more work.
func (h *host) hints(s *projector.State, list []events.Event, due events.Millis) (hints []func()) {
	if turn.NeedsWake(list) {
		hints = h.wake(s)
	}
	for i := range list {
		if p, ok := list[i].Payload.(*events.TaskRegistered); ok {
			hints = append(hints, h.wakeTask(s, p.Task)...)
		}
	}
	if at := turn.Due(s); at != 0 && at != due {
		id := s.Session
		hints = append(hints, func() { h.w.setTimer(id, at) })
	}
	return hints
}

// wake publishes a wake for a session with pending work.
func (h *host) wake(s *projector.State) (hints []func()) {
	if !turn.NeedsWorker(s, h.w.now) {
		return nil
	}
	id, hint := s.Session, h.id
	if t := s.Turn(); t != nil && !turn.Parked(s) {
		if hint = t.Worker; hint != h.id {
			hints = append(hints, func() { h.w.notify(hint, id) })
		}
	} else if hint == "" {
		hint = s.Worker
	}
	if h.id != "" {
		hints = append(hints, func() {
			if n := h.w.node(h.id); n != nil {
				n.NeedsWorker(id)
			}
		})
	}
	return append(hints, func() { h.w.publish(wakeKey{session: id}, hint) })
}

func (h *host) wakeTask(s *projector.State, id events.TaskID) []func() {
	if t, ok := s.Task(id); !ok || !task.NeedsWorker(t) {
		return nil
	}
	key := wakeKey{s.Session, id}
	return []func(){func() { h.w.publish(key, "") }}
}

// respond is the rest of a client's call after its append: the wakes and notifications, then the response. A call
// whose append has an unknown outcome ends.
func (h *host) respond(hints []func(), err error, accepted func()) {
	switch {
	case err == nil:
		h.later(append(hints, accepted)...)
	case !errors.Is(err, events.ErrOutcomeUnknown) && !errors.Is(err, errRefused):
		h.w.t.Fatal(err)
	}
}

// errRefused: the command is refused, and nothing was appended.
var errRefused = errors.New("refused")
