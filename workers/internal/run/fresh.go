package run

import (
	"context"
	"time"

	"github.com/lash-go/lash/workers/internal/wake"
)

// trusted is how long a run starts effects on a state without asking the log
// whether it still ends there. An append whose answer came late, or a call that
// took its time, says nothing of now: another worker may have taken the turn
// over, run the very effect and recorded it. It is less than a worker must miss
// before others believe it gone.
const trusted = (wake.GoneTimes - 1) * wake.WatchEvery / 2

// aged reports whether the state may not be trusted any more.
func (r *run) aged() bool { return time.Since(r.current) > trusted }

// renew asks the leader where the log ends and, where it has moved, folds what
// others appended. What lingers goes on lingering where it has not: that costs no write.
func (r *run) renew(ctx context.Context) error {
	if len(r.batch.events) > 0 {
		if last, err := r.p.cfg.Bus.Log().Last(ctx, r.session); err == nil && last == r.batch.durable.Seq {
			r.current = time.Now()
			return nil
		}
	}
	return r.catchUp(ctx)
}
