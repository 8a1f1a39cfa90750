package run

import (
	"testing"
	"time"
)

// TestAgedState plays answers of the log. A state is fresh for the time trusted after the request, however late the answer
// is; the third late answer in a row counts from its arrival.
func TestAgedState(t *testing.T) {
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
			var end logEnd
			now := time.Now()
			for _, took := range c.took {
				requested := now
				now = now.Add(took)
				end.confirmRead(logRequest{at: requested}, now)
			}
			if got := end.isAged(now); got != c.aged {
				t.Errorf("aged: got %v, want %v", got, c.aged)
			}
			if !c.aged && !end.isAged(now.Add(trusted+1)) {
				t.Error("after that time: got a fresh state, want an aged one")
			}
		})
	}
}

// TestNewsSinceTheRequest counts a wake that comes before a request as known by the answer, and one that comes after the
// request as news: the answer may lack the events that it is about.
func TestNewsSinceTheRequest(t *testing.T) {
	t.Parallel()
	end := logEnd{known: -1}
	if !end.hasNews() {
		t.Error("before the first answer: got no news, want some")
	}
	end.arrived()
	q := end.request()
	if end.confirm(q); end.hasNews() {
		t.Error("a wake before the request: got news, want none")
	}
	q = end.request()
	end.arrived()
	if end.confirmRead(q, q.at); !end.hasNews() || !end.moved.Load() {
		t.Error("a wake after the request: got no news, want some")
	}
	if end.distrust(); !end.isAged(q.at) {
		t.Error("after a failed read: got a fresh state, want an aged one")
	}
}
