package call

import (
	"math"
	"testing"
	"time"

	"github.com/lash-go/lash/session/plugin"
)

func TestRetryDefaults(t *testing.T) {
	t.Parallel()
	var r Retry
	if want := (Retry{4, 2 * time.Second, 10 * time.Second, time.Minute}); r.Defaults() != nil || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	r = Retry{1, 2, 3, 4}
	if want := r; r.Defaults() != nil || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	for _, r := range []Retry{{Attempts: -1}, {Base: -1}, {Max: -1}, {MaxAfter: -1}} {
		if r.Defaults() == nil {
			t.Errorf("%+v: got no error", r)
		}
	}
}

// TestToolRetryWait doubles the wait of a tool up to its limit, if there is one. A wait that the tool requests replaces
// it, up to the same limit.
func TestToolRetryWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy plugin.Retry
		after  time.Duration
		try    int
		want   time.Duration
	}{
		"first":            {plugin.Retry{Base: time.Second}, 0, 1, time.Second},
		"third":            {plugin.Retry{Base: time.Second}, 0, 3, 4 * time.Second},
		"limited":          {plugin.Retry{Base: time.Second, Max: 3 * time.Second}, 0, 3, 3 * time.Second},
		"noLimit":          {plugin.Retry{Base: time.Second}, 0, 100, math.MaxInt64},
		"noBase":           {plugin.Retry{}, 0, 100, 0},
		"requested":        {plugin.Retry{Base: time.Hour}, time.Second, 3, time.Second},
		"requestedLimited": {plugin.Retry{Base: time.Second, Max: time.Minute}, time.Hour, 1, time.Minute},
	} {
		if got := retryWait(c.policy, &plugin.Failure{After: c.after}, c.try); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
