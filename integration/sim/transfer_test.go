package sim

import (
	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/task"
)

// transfer is a client that moves tasks to another session, possibly for the second time. No client moves them back.
// Of two transfers of a task in opposite directions one may stop halfway; then two copies follow each other.
func (w *world) transfer(*rapid.T) {
	from := w.firstSession()
	to := sessionID(1 - int(from[1]-'0'))
	ids := []events.TaskID{w.taskID(from)}
	if second := w.taskID(from); second != ids[0] {
		ids = append(ids, second)
	}
	m := &move{h: w.anyHost(), from: from, to: to, ids: ids}
	m.h.later(m.goOn)
}

// move is a transfer in progress. One step cannot change two histories, so a transfer has two:
//
//  1. The target registers the tasks. It registers them again if the source has changed meanwhile.
//  2. The source removes them.
type move struct {
	h          *host
	from, to   events.SessionID
	ids        []events.TaskID
	list       []events.TaskRegistered
	sourceSeq  events.Seq // end of the source at that time
	hints      []func()
	registered bool
	first      *move // an unfinished earlier transfer of one of the tasks
	finishes   bool  // this transfer finishes an earlier one
	refused    bool
}

// goOn executes the next step as a part of a call.
func (m *move) goOn() {
	if !m.step() {
		m.h.later(m.goOn)
	}
}

// step executes the next step. It reports whether that was the last one.
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
		m.list, m.sourceSeq = list, source.Seq
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
	case !m.registered:
		hints, err := m.h.decide(m.to, func(s *projector.State) ([]events.Event, error) { return task.Arrive(s, m.list) })
		m.hints, m.registered = hints, true
		m.refused = w.tolerated(err) != nil
		return m.refused
	default:
		return m.removeFromSource()
	}
	return false
}

// finish searches for a task that another session still has.
func (m *move) finish() {
	for i := range m.list {
		t, _ := m.h.states[m.from].Task(m.list[i].Task)
		if !m.finishes && m.first == nil && t.Live() && m.h.inTwo(t) {
			m.first = &move{h: m.h, from: t.From, to: m.from, ids: []events.TaskID{t.ID}, finishes: true}
		}
	}
}

// inTwo reports whether a transferred task is still in its source.
func (h *host) inTwo(t *projector.Task) bool {
	if t.From == "" {
		return false
	}
	there, ok := h.load(t.From, true).Task(t.ID)
	return ok && there.To == "" && there.CreatedAt == t.CreatedAt
}

func (m *move) removeFromSource() (over bool) {
	moved := false
	_, err := m.h.decide(m.from, func(s *projector.State) (out []events.Event, err error) {
		out, moved = task.Depart(s, m.to, m.list, m.sourceSeq)
		return out, nil
	})
	m.list, m.registered = nil, false
	m.refused = m.h.w.tolerated(err) != nil
	return m.refused || moved
}
