package httpapi

import "time"

// SetNow is the clock by which tokens expire.
func (t *Tokens) SetNow(now func() time.Time) { t.now = now }
