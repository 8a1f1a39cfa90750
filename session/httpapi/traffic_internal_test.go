package httpapi

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/time/rate"
)

// TestTrafficForgetsCallers: callers without traffic are removed. A caller above its limit stays until its rate is below
// the limit.
func TestTrafficForgetsCallers(t *testing.T) {
	t.Parallel()
	tr := traffic{perMinute: 600, callers: make(map[string]*rate.Limiter)}
	now := time.Now()
	over := tr.limiter("over", now)
	deductBytes(over, 1200)
	for i := range 5 * maxIdle {
		tr.limiter(fmt.Sprint(i), now)
	}
	if len(tr.callers) > maxIdle || tr.limiter("over", now) != over {
		t.Errorf("got %d callers kept, and the one over its limit: %v, want at most %d with it", len(tr.callers), tr.limiter("over", now) == over, maxIdle)
	}
	if err := tr.check(tr.limiter("over", now), now); err == nil {
		t.Error("over its limit: got no refusal")
	}
	if err := tr.check(tr.limiter("over", now), now.Add(2*time.Minute)); err != nil {
		t.Errorf("after two minutes: got %v", err)
	}
}
