package call

import (
	"testing"
	"time"
)

// TestRetryWait doubles the pause up to its maximum, after however many tries.
func TestRetryWait(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		base, max time.Duration
		want      []time.Duration // of the first tries; the last one of all others
	}{
		"usual": {time.Second, 5 * time.Second, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}},
		"large": {time.Second, 1<<63 - 1, []time.Duration{time.Second, 2 * time.Second}},
		"above": {9 * time.Second, 5 * time.Second, []time.Duration{5 * time.Second}},
		"none":  {0, 5 * time.Second, []time.Duration{0}},
	} {
		r := Retry{Base: tc.base, Max: tc.max}
		for n := 1; n <= 100; n++ {
			got := r.wait(n)
			if n <= len(tc.want) && got != tc.want[n-1] {
				t.Errorf("%s: wait after try %d: got %v, want %v", name, n, got, tc.want[n-1])
			}
			if n > 1 && got < r.wait(n-1) {
				t.Errorf("%s: wait after try %d: got %v, want no less than before", name, n, got)
			}
		}
		if got := r.wait(100); tc.max != 1<<63-1 && got != tc.want[len(tc.want)-1] || tc.max == 1<<63-1 && got != tc.max {
			t.Errorf("%s: wait after try 100: got %v", name, got)
		}
	}
}
