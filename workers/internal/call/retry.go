package call

import "time"

// Retry is the retry policy of model calls.
type Retry struct {
	Attempts int           // maximum, the first try included
	Base     time.Duration // the first wait; each further one is twice as long
	Max      time.Duration // longest wait
	MaxAfter time.Duration // longest wait that the provider requests
}

// wait is the pause after the n-th try, from 1: at most Max, without overflow.
func (r Retry) wait(n int) time.Duration {
	wait := min(r.Base, r.Max)
	for ; n > 1 && wait > 0 && wait < r.Max; n-- {
		wait += min(wait, r.Max-wait)
	}
	return wait
}
