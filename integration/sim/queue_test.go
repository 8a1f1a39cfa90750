package sim

import (
	"slices"

	"github.com/lash-go/lash/events"
)

// wakeKey identifies a wake: of a session, or of one of its tasks.
type wakeKey struct {
	session events.SessionID
	task    events.TaskID
}

// wake is the one message of a key. A pointer to it is its handle. The servers do not distinguish the deliveries of a
// message, so any node with the handle may acknowledge, return or keep it. Operations on a replaced message have no
// effect.
type wake struct {
	wakeKey
	hint      events.WorkerID // the worker that may have the state
	delivered bool            // delivered, and not yet returned or timed out
	after     events.Millis   // returned until this time
	times     int             // number of deliveries
}

// queue has at most one wake for each key, in order of arrival.
type queue struct{ list []*wake }

// publish replaces the wake of the key, delivered or not.
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
		if !m.delivered && m.after <= now && (m.task != "") == tasks {
			list = append(list, m)
		}
	}
	return list
}

func (q *queue) deliver(m *wake) {
	m.delivered = true
	m.times++
}

func (q *queue) ack(m *wake) {
	q.list = slices.DeleteFunc(q.list, func(have *wake) bool { return have == m })
}

// nak returns a wake to the queue. A wake that waits already does not change.
func (q *queue) nak(m *wake, until events.Millis) {
	if slices.Contains(q.list, m) && m.delivered {
		m.delivered, m.after = false, until
	}
}

// silent is the ack timeout of a wake: no progress signal of its node reached the queue.
func (q *queue) silent(m *wake) { m.delivered, m.after = false, 0 }
