package call

import "time"

// Retry says how failed model calls are tried again.
type Retry struct {
	Attempts int           // in all
	Base     time.Duration // the first wait; each further one is twice the one before
	Max      time.Duration // of one wait
	MaxAfter time.Duration // of one wait that the provider asks for
}

// wait is the pause after the n-th try, from 1 on: at most Max, which doublings never pass by overflow.
func (r Retry) wait(n int) time.Duration {
	wait := min(r.Base, r.Max)
	for ; n > 1 && wait > 0 && wait < r.Max; n-- {
		wait += min(wait, r.Max-wait)
	}
	return wait
}
