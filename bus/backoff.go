package bus

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

// pause waits after try n, from 2 ms to half a second.
func pause(ctx context.Context, n int) error {
	if !Sleep(ctx, Backoff(2*time.Millisecond, 500*time.Millisecond, n)) {
		return context.Cause(ctx)
	}
	return nil
}
