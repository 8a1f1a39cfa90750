// Package delay has waits between tries. It imports nothing of lash.
package delay

import (
	"context"
	"time"
)

// Backoff is the wait after try n, from 1: base, twice as long after each further try, and at most limit. A base or
// limit that is not positive is no wait.
func Backoff(base, limit time.Duration, n int) time.Duration {
	wait := max(min(base, limit), 0)
	for ; n > 1 && wait > 0 && wait < limit; n-- {
		wait += min(wait, limit-wait) // cannot overflow
	}
	return wait
}

// Sleep waits for d, or until ctx ends: then it is false.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
	return ctx.Err() == nil
}
