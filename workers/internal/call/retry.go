package call

import (
	"cmp"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/workers/llm"
)

// Retry sets the retries of failed model calls.
type Retry struct {
	For      time.Duration // from the first failure of a call on. Defaults to 5 min
	Attempts int           // most tries, the first one included. Defaults to any number that fits
	Base     time.Duration // of the first wait; it doubles with each retry. Defaults to 2 s
	Max      time.Duration // of one wait that the provider does not request. Defaults to 30 s
}

// maxMalformed is the number of tries of a call whose replies violate the provider's format: waiting does not mend them.
const maxMalformed = 4

// Defaults sets zero fields to their defaults, and rejects negative ones.
func (r *Retry) Defaults() error {
	if r.For < 0 || r.Attempts < 0 || r.Base < 0 || r.Max < 0 {
		return fmt.Errorf("model retry: for %v, attempts %d, base %v, max %v, want none negative", r.For, r.Attempts, r.Base, r.Max)
	}
	r.For = cmp.Or(r.For, 5*time.Minute)
	r.Base = cmp.Or(r.Base, 2*time.Second)
	r.Max = cmp.Or(r.Max, 30*time.Second)
	return nil
}

// next is the wait after try n, from 1, of which failure is the result, some time after the first failure. Where no try
// follows, it returns the failure to report: one that says so where the provider asks for a longer wait.
func (r Retry) next(n int, failure *llm.Error, since time.Duration) (wait time.Duration, last *llm.Error) {
	left := r.For - since
	switch {
	case !failure.Retryable(), r.Attempts > 0 && n >= r.Attempts, failure.Kind == llm.KindMalformed && n >= maxMalformed, left <= 0:
		return 0, failure
	case failure.RetryAfter > left:
		told := *failure
		told.Message = clip(fmt.Sprintf("%s; the provider asks to wait %v, and tries of a call go on for %v", failure.Message, failure.RetryAfter.Round(time.Second), r.For))
		return 0, &told
	case failure.RetryAfter > 0:
		return failure.RetryAfter, nil
	}
	return min(delay.Backoff(r.Base, r.Max, n), left), nil
}
