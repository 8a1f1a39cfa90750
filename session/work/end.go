package work

import (
	"time"

	"github.com/lash-go/lash/events"
)

// slowAnswers is the number of consecutive answers of the log, each later than [Config.Trusted] after its request, of which
// the last one counts from its arrival: on servers that are always so slow, the turn goes on.
const slowAnswers = 3

// logEnd is what a run knows of the end of its session's log: when the log last ended at the run's state, and whether
// another process may have appended since. A wake and a notification each say that one may have.
type logEnd struct {
	known int64     // arrivals before the last request whose answer confirmed the state; -1 before the first
	since time.Time // the log ended at the state then, or later
	slow  int       // consecutive slow answers
}

// request is a request to the log, as it is sent. Its answer includes the events that earlier arrivals are about; a late
// answer describes an old end of the log.
type request struct {
	at       time.Time
	arrivals int64
}

// confirm notes that the log ended at the run's state when q was sent.
func (l *logEnd) confirm(q request) { l.since, l.known = q.at, q.arrivals }

// confirmRead is confirm for the answer of a read, at a time.
func (m *Machine) confirmRead(now time.Time) {
	m.end.confirm(m.asked)
	if now.Sub(m.asked.at) <= m.cfg.Trusted {
		m.end.slow = 0
	} else if m.end.slow++; m.end.slow == slowAnswers {
		m.end.since, m.end.slow = now, 0
	}
}

// isAged reports whether the state is older than [Config.Trusted].
func (m *Machine) isAged() bool { return m.facts.Now.Sub(m.end.since) > m.cfg.Trusted }

// HasNews reports whether a wake or a notification came after the last request that confirmed the state.
func (m *Machine) HasNews(arrivals int64) bool { return arrivals != m.end.known }

// request is a step that asks the log.
func (m *Machine) request(do Do) Ready {
	m.asked, m.resets = request{m.facts.Now, m.facts.Arrivals}, m.State.Resets()
	return Ready{Do: do}
}

// Load begins with a state that the log ended at when the driver knew these facts.
func (m *Machine) Load(f Facts) { m.end.confirm(request{f.Now, f.Arrivals}) }

// Synced tells that a read of the log, whose answer came at a time, folded the events of others. Where the history was
// replaced, as after lost commits were accepted, the run's turn is superseded.
func (m *Machine) Synced(now time.Time) {
	m.superseded = m.State.Resets() != m.resets
	m.unanswered = false
	m.confirmRead(now)
}

// Unanswered tells that the log does not answer: servers that elect a leader do not, and effects must not end because of
// that. The state is aged, and the log is read again after the next tick.
func (m *Machine) Unanswered() {
	m.unanswered = true
	m.end.since = time.Time{}
}

// Looked tells the last sequence of the log, as of an answer at a time; err: it is not known. If the log did not move, a
// lingering batch lingers on. Else the batch is appended, and a conflict shows the events of others.
func (m *Machine) Looked(last events.Seq, err error, now time.Time) {
	if err == nil && last == m.batch.durable.Seq {
		m.confirmRead(now)
		return
	}
	m.flushing = true
}

// readLogTicks is the number of ticks between two reads of the log.
const readLogTicks = 4

// Tick tells that some seconds passed. What may have been lost is repeated: a notification, a question to another worker.
func (m *Machine) Tick() {
	m.unclaimed = Attempt{}
	if m.ticks++; m.ticks%readLogTicks == 0 || m.unanswered {
		m.end.known = -1
	}
	m.unanswered = false
}

// Later tells that the step failed for now. It is repeated after the next input, or tick.
func (m *Machine) Later() { m.later = true }

// Unclaimed tells that the worker of the running turn does not run it.
func (m *Machine) Unclaimed() {
	t := m.State.Turn()
	m.unclaimed = Attempt{t.ID, t.Attempt}
}
