package sim

import (
	"slices"

	"github.com/lash-go/lash/events"
)

// wakeKey names a wake: of a session, or of one of its tasks.
type wakeKey struct {
	session events.SessionID
	task    events.TaskID
}

// wake is the one message of a key. A pointer to it is its handle: any node that
// names it may acknowledge it, give it back or keep it, as the servers do not
// tell deliveries of one message apart. For one that was replaced all that is nothing.
type wake struct {
	wakeKey
	hint  events.WorkerID // that may have the state
	held  bool            // a node has it, as far as the queue knows
	after events.Millis   // given back until then
	times int             // deliveries
}

// queue holds at most one wake a key, in the order in which they came.
type queue struct{ list []*wake }

// publish replaces the wake that is there, held or not.
func (q *queue) publish(key wakeKey, hint events.WorkerID) {
	q.list = slices.DeleteFunc(q.list, func(m *wake) bool { return m.wakeKey == key })
	q.list = append(q.list, &wake{wakeKey: key, hint: hint})
}

func (q *queue) has(key wakeKey) bool {
	return slices.ContainsFunc(q.list, func(m *wake) bool { return m.wakeKey == key })
}

// waiting are the wakes that can be delivered.
func (q *queue) waiting(now events.Millis, tasks bool) []*wake {
	var list []*wake
	for _, m := range q.list {
		if !m.held && m.after <= now && (m.task != "") == tasks {
			list = append(list, m)
		}
	}
	return list
}

func (q *queue) deliver(m *wake) {
	m.held = true
	m.times++
}

func (q *queue) ack(m *wake) {
	q.list = slices.DeleteFunc(q.list, func(have *wake) bool { return have == m })
}

// giveBack returns a wake to the queue. One that waits already stays as it is.
func (q *queue) giveBack(m *wake, until events.Millis) {
	if slices.Contains(q.list, m) && m.held {
		m.held, m.after = false, until
	}
}

// silent is the end of the ack wait for a wake: its holder gave no sign of life
// that reached the queue.
func (q *queue) silent(m *wake) { m.held, m.after = false, 0 }
