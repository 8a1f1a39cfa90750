package run

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/workers/internal/wake"
)

// trusted is how long a run may start effects without asking the log whether it still ends at the run's state. After
// a late response or a slow call, another worker may have taken the turn over, run the same effect and recorded it.
// The time is shorter than the time after which other workers count a worker as gone.
const trusted = (wake.GoneTimes - 1) * wake.WatchEvery / 2

// slowAnswers is the number of consecutive answers of the log, each later than [trusted] after its request, of which
// the last one counts from its arrival: on servers that are always so slow, the turn goes on.
const slowAnswers = 3

// logEnd is what a run knows of the end of its session's log: when the log last ended at the run's state, and whether
// another process may have appended since. A wake and a notification each say that one may have.
type logEnd struct {
	arrivals atomic.Int64 // wakes and notifications so far. It grows under the pool's lock
	moved    atomic.Bool  // a wake or a notification came, and no read of the log has started since
	known    int64        // arrivals before the last request whose answer confirmed the state; -1 before the first
	since    time.Time    // the log ended at the state then, or later
	slow     int          // consecutive slow answers
}

// logRequest is a request to the log, as it is sent. Its answer includes the events that earlier arrivals are about.
type logRequest struct {
	at       time.Time
	arrivals int64
}

// request notes the time and the arrivals before a request to the log. A late answer describes an old end of the log.
func (l *logEnd) request() logRequest { return logRequest{time.Now(), l.arrivals.Load()} }

// arrived notes a wake or a notification.
func (l *logEnd) arrived() {
	l.arrivals.Add(1)
	l.moved.Store(true)
}

// confirm notes that the log ended at the run's state when q was sent.
func (l *logEnd) confirm(q logRequest) { l.since, l.known = q.at, q.arrivals }

// confirmRead is confirm for an answer that a read of the log got at a time.
func (l *logEnd) confirmRead(q logRequest, now time.Time) {
	l.confirm(q)
	if now.Sub(q.at) <= trusted {
		l.slow = 0
	} else if l.slow++; l.slow == slowAnswers {
		l.since, l.slow = now, 0
	}
}

// distrust makes the state aged: a read of the log has failed.
func (l *logEnd) distrust() { l.since = time.Time{} }

// isAged reports whether the state is older than [trusted].
func (l *logEnd) isAged(now time.Time) bool { return now.Sub(l.since) > trusted }

// hasNews reports whether a wake or a notification came after the last request that confirmed the state. While the
// pool's lock is held no other one arrives.
func (l *logEnd) hasNews() bool { return l.arrivals.Load() != l.known }

// renewState asks the leader for the end of the log, and folds the events of others if it moved. If it did not, a
// lingering batch lingers on.
func (r *run) renewState(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		q := r.logEnd.request()
		if last, err := r.p.cfg.Bus.Log().Last(ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.logEnd.confirmRead(q, time.Now())
			return nil
		}
	}
	return r.catchUp(ctx)
}
