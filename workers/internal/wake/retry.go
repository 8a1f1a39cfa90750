package wake

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/lash-go/lash/events"
)

// Retry says how often, and when, work is tried again whose attempts fail one
// after the other. What a turn records begins the count anew, and so does a
// worker that stops in order; a worker that is killed counts.
type Retry struct {
	Attempts int           // in a row without progress, before the work is given up. Defaults to 8
	Base     time.Duration // of the first wait; each further one is twice the one before. Defaults to 1 s
	Max      time.Duration // of one wait. Defaults to 1 min
}

// Defaults fills what is zero, and refuses what is negative.
func (r *Retry) Defaults() error {
	if r.Attempts < 0 {
		return fmt.Errorf("job retry: attempts: %d, want at least 1", r.Attempts)
	}
	r.Attempts = cmp.Or(r.Attempts, 8)
	r.Base = cmp.Or(r.Base, time.Second)
	r.Max = cmp.Or(r.Max, time.Minute)
	return nil
}

// freeAttempts is how many attempts in a row follow each other without a wait: a
// worker that dies is replaced at once.
const freeAttempts = 3

// Pause is what is left of the wait after so many attempts, the last of which
// began at a time. It is spread by half to either side, so that work which a
// worker took down with it does not meet the work that killed it again and again.
func (r *Retry) Pause(attempts int64, began events.Millis, spread string) time.Duration {
	n := attempts - freeAttempts
	if n < 0 {
		return 0
	}
	pause := r.Max
	if n < 30 {
		pause = min(r.Base<<n, r.Max)
	}
	h := fnv.New32a()
	_, _ = fmt.Fprintf(h, "%s/%d", spread, n)
	pause = pause/2 + pause*time.Duration(h.Sum32()%1024)/1024
	since := time.Since(began.Time())
	if since < 0 { // that node's clock is ahead: nobody knows how much is left
		return 0
	}
	return pause - since
}
