package call

import (
	"cmp"
	"fmt"
	"time"
)

// Retry sets the retries of failed model calls.
type Retry struct {
	Attempts int           // in all, the first one included. Defaults to 4
	Base     time.Duration // of the first wait; it doubles with each retry. Defaults to 2 s
	Max      time.Duration // of one wait. Defaults to 10 s
	MaxAfter time.Duration // limit of the wait that a provider requests. Defaults to 60 s
}

// Defaults sets zero fields to their defaults, and rejects negative ones.
func (r *Retry) Defaults() error {
	if r.Attempts < 0 || r.Base < 0 || r.Max < 0 || r.MaxAfter < 0 {
		return fmt.Errorf("model retry: attempts %d, base %v, max %v, max after %v, want none negative", r.Attempts, r.Base, r.Max, r.MaxAfter)
	}
	r.Attempts = cmp.Or(r.Attempts, 4)
	r.Base = cmp.Or(r.Base, 2*time.Second)
	r.Max = cmp.Or(r.Max, 10*time.Second)
	r.MaxAfter = cmp.Or(r.MaxAfter, time.Minute)
	return nil
}
