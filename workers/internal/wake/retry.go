package wake

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// Retry sets the attempts and waits of work that fails repeatedly. The count of a turn starts again when that turn makes
// progress. A worker that is killed counts as a failed attempt, one that stops in order does not. See [Trials] for what is
// given up.
type Retry struct {
	Attempts int           // in a row without progress, before the work fails. Defaults to 8
	Base     time.Duration // first wait; each further one is twice as long. Defaults to 1 s
	Max      time.Duration // limit of one wait. Defaults to 1 min
}

// Defaults sets zero fields to their defaults, and rejects negative ones.
func (r *Retry) Defaults() error {
	if r.Attempts < 0 || r.Base < 0 || r.Max < 0 {
		return fmt.Errorf("job retry: attempts %d, base %v, max %v, want none negative", r.Attempts, r.Base, r.Max)
	}
	r.Attempts = cmp.Or(r.Attempts, 8)
	r.Base = cmp.Or(r.Base, time.Second)
	r.Max = cmp.Or(r.Max, time.Minute)
	return nil
}

// freeAttempts is the number of attempts in a row without a wait: work of a worker that dies continues at once.
const freeAttempts = 3

// Pause is the remaining wait after a number of attempts, the last of which began at a time. The wait varies by half
// in both directions. Without that, a task that kills its worker and the tasks that died with it would start together
// again and again.
func (r *Retry) Pause(attempts int64, began, now events.Millis, spread string) time.Duration {
	n := attempts - freeAttempts
	if n < 0 {
		return 0
	}
	pause := delay.Backoff(r.Base, min(r.Max, math.MaxInt64/2), int(n+1))
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%d", spread, n)
	pause = pause/2 + pause/1024*time.Duration(h.Sum32()%1024)
	since := now.Time().Sub(began.Time())
	if since < 0 { // from a clock that was ahead, so the remaining wait is unknown
		return 0
	}
	return pause - since
}
