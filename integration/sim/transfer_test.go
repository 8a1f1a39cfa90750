package sim

import (
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// transfer is a client that moves tasks to another session, perhaps once more.
// None moves them back: transfers of a task in opposite directions, of which one
// stops on its way, leave two copies that follow each other.
func (w *world) transfer(*rapid.T) {
	from := w.firstSession()
	to := sessionID(1 - int(from[1]-'0'))
	ids := []events.TaskID{w.taskID(from)}
	if second := w.taskID(from); second != ids[0] {
		ids = append(ids, second)
	}
	m := &move{h: w.asked(), from: from, to: to, ids: ids}
	m.h.later(m.goOn)
}

// move is a transfer on its way. Two histories cannot change in one step: the
// target registers the tasks, then the source lets go; what changed there
// meanwhile is registered anew before.
type move struct {
	h        *host
	from, to events.SessionID
	ids      []events.TaskID
	list     []events.TaskRegistered
	seen     events.Seq // where the source ended then
	hints    []func()
	arrived  bool
	first    *move // an earlier transfer of one of the tasks, which is not finished
	finishes bool  // it is such a one
	refused  bool
}

// goOn does the next part, as a part of a call.
func (m *move) goOn() {
	if !m.step() {
		m.h.later(m.goOn)
	}
}

// step does the next part. It reports whether that was the last one.
func (m *move) step() (over bool) {
	w := m.h.w
	switch {
	case len(m.hints) > 0:
		do := m.hints[0]
		m.hints = m.hints[1:]
		do()
	case m.list == nil:
		source := m.h.load(m.from, true)
		list, err := task.Leaving(source, m.ids)
		m.list, m.seen = list, source.Seq
		if w.tolerated(err) != nil || len(list) == 0 {
			return true
		}
		m.finish()
	case m.first != nil:
		if m.first.step() {
			m.refused = m.first.refused
			m.first, m.list = nil, nil
			return m.refused
		}
	case !m.arrived:
		hints, err := m.h.decide(m.to, func(s *projector.State) ([]events.Event, error) { return task.Arrive(s, m.list) })
		m.hints, m.arrived = hints, true
		m.refused = w.tolerated(err) != nil
		return m.refused
	default:
		return m.leave()
	}
	return false
}

// finish looks for a task that another session has still, whatever the source says.
func (m *move) finish() {
	for i := range m.list {
		t, _ := m.h.held[m.from].Task(m.list[i].Task)
		if !m.finishes && m.first == nil && t.Live() && m.h.inTwo(t) {
			m.first = &move{h: m.h, from: t.From, to: m.from, ids: []events.TaskID{t.ID}, finishes: true}
		}
	}
}

// inTwo reports whether a task that was transferred is in its source still.
func (h *host) inTwo(t *projector.Task) bool {
	if t.From == "" {
		return false
	}
	there, ok := h.load(t.From, true).Task(t.ID)
	return ok && there.To == "" && there.CreatedAt == t.CreatedAt
}

func (m *move) leave() (over bool) {
	moved := false
	_, err := m.h.decide(m.from, func(s *projector.State) (out []events.Event, err error) {
		out, moved = task.Depart(s, m.to, m.list, m.seen)
		return out, nil
	})
	m.list, m.arrived = nil, false
	m.refused = m.h.w.tolerated(err) != nil
	return m.refused || moved
}
