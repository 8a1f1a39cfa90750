package httpapi

import "time"

// SetNow sets the clock by which tokens expire.
func (t *Tokens) SetNow(now func() time.Time) { t.now = now }
