package run

import (
	"context"
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

// trust is since when a run knows that its state is the end of the log.
type trust struct {
	since time.Time // the log ended at the state then, or later
	slow  int       // consecutive slow answers
}

// answered notes that the log ends at the run's state, by the answer to a request.
func (t *trust) answered(requested, now time.Time) {
	t.since = requested
	if now.Sub(requested) <= trusted {
		t.slow = 0
	} else if t.slow++; t.slow == slowAnswers {
		t.since, t.slow = now, 0
	}
}

// isAged reports whether the state is older than [trusted].
func (t *trust) isAged(now time.Time) bool { return now.Sub(t.since) > trusted }

// isAged reports whether the run's state is older than [trusted].
func (r *run) isAged() bool { return r.trust.isAged(time.Now()) }

// renewState asks the leader for the end of the log, and folds the events of others if it moved. If it did not, a
// lingering batch lingers on.
func (r *run) renewState(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		requested := time.Now()
		if last, err := r.p.cfg.Bus.Log().Last(ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.trust.answered(requested, time.Now())
			return nil
		}
	}
	return r.catchUp(ctx)
}
