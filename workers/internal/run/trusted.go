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

// isAged reports whether the state is older than [trusted].
func (r *run) isAged() bool { return time.Since(r.trustedAt) > trusted }

// renewState asks the leader for the end of the log, and folds the events of others if it moved. If it did not, a
// lingering batch lingers on.
func (r *run) renewState(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		if last, err := r.p.cfg.Bus.Log().Last(ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.trustedAt = time.Now()
			return nil
		}
	}
	return r.catchUp(ctx)
}
