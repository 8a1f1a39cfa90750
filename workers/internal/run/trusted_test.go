package run

import (
	"testing"
	"time"
)

// TestTrust plays answers of the log. A state is fresh for the time trusted after the request, however late the answer
// is; the third late answer in a row counts from its arrival.
func TestTrust(t *testing.T) {
	t.Parallel()
	const fast, late = trusted / 10, 2 * trusted
	for name, c := range map[string]struct {
		took []time.Duration // from requests to their answers
		aged bool            // at the last answer
	}{
		"none":                       {nil, true},
		"fast":                       {[]time.Duration{fast}, false},
		"late":                       {[]time.Duration{late}, true},
		"late_twice":                 {[]time.Duration{late, late}, true},
		"late_three_times":           {[]time.Duration{late, late, late}, false},
		"late_four_times":            {[]time.Duration{late, late, late, late}, true},
		"fast_between":               {[]time.Duration{late, late, fast, late}, true},
		"late_three_times_after_all": {[]time.Duration{late, late, fast, late, late, late}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var trust trust
			now := time.Now()
			for _, took := range c.took {
				requested := now
				now = now.Add(took)
				trust.answered(requested, now)
			}
			if got := trust.isAged(now); got != c.aged {
				t.Errorf("aged: got %v, want %v", got, c.aged)
			}
			if !c.aged && !trust.isAged(now.Add(trusted+1)) {
				t.Error("after that time: got a fresh state, want an aged one")
			}
		})
	}
}
