package call

import (
	"cmp"
	"context"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func TestRetryDefaults(t *testing.T) {
	t.Parallel()
	var r Retry
	if want := (Retry{5 * time.Minute, 0, 2 * time.Second, 30 * time.Second}); r.Defaults() != nil || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	r = Retry{1, 2, 3, 4}
	if want := r; r.Defaults() != nil || r != want {
		t.Errorf("got %+v, want %+v", r, want)
	}
	for _, r := range []Retry{{Attempts: -1}, {Base: -1}, {Max: -1}, {For: -1}} {
		if r.Defaults() == nil {
			t.Errorf("%+v: got no error", r)
		}
	}
}

// TestRetryInTime: tries go on until the time after the first failure is over, whatever their number, and as long as the
// provider asks for; a longer wait is told at once.
func TestRetryInTime(t *testing.T) {
	t.Parallel()
	policy := Retry{For: 5 * time.Minute, Base: 2 * time.Second, Max: 30 * time.Second}
	for name, c := range map[string]struct {
		policy  Retry
		try     int
		failure llm.Error
		since   time.Duration
		want    time.Duration // 0: no try follows
		says    string
	}{
		"first":          {policy, 1, llm.Error{Kind: llm.KindServer}, 0, 2 * time.Second, ""},
		"doubled":        {policy, 3, llm.Error{Kind: llm.KindTransport}, 0, 8 * time.Second, ""},
		"many":           {policy, 40, llm.Error{Kind: llm.KindServer}, 4 * time.Minute, 30 * time.Second, ""},
		"what_is_left":   {policy, 40, llm.Error{Kind: llm.KindServer}, 299 * time.Second, time.Second, ""},
		"over":           {policy, 2, llm.Error{Kind: llm.KindServer}, 5 * time.Minute, 0, ""},
		"limited":        {Retry{For: time.Hour, Attempts: 3, Base: 1, Max: 1}, 3, llm.Error{Kind: llm.KindServer}, 0, 0, ""},
		"requested":      {policy, 1, llm.Error{Kind: llm.KindRateLimit, RetryAfter: 200 * time.Second}, time.Minute, 200 * time.Second, ""},
		"requested_long": {policy, 1, llm.Error{Kind: llm.KindRateLimit, RetryAfter: 2 * time.Hour, Message: "full"}, 0, 0, "full; the provider asks to wait 2h0m0s, and tries of a call go on for 5m0s"},
		"malformed":      {policy, 4, llm.Error{Kind: llm.KindMalformed}, 0, 0, ""},
		"malformed_once": {policy, 1, llm.Error{Kind: llm.KindMalformed}, 0, 2 * time.Second, ""},
		"permanent":      {policy, 1, llm.Error{Kind: llm.KindOverflow}, 0, 0, ""},
	} {
		wait, last := c.policy.next(c.try, &c.failure, c.since)
		if wait != c.want || (last == nil) != (c.want > 0) || last != nil && last.Message != cmp.Or(c.says, c.failure.Message) {
			t.Errorf("%s: got %v, %v, want %v and %q", name, wait, last, c.want, c.says)
		}
	}
}

// TestUnfinishedTries: each thing that replies lack is asked for once more, whatever others lacked before.
func TestUnfinishedTries(t *testing.T) {
	t.Parallel()
	env := &Env{Retry: Retry{For: time.Hour, Base: time.Hour, Max: time.Hour}}
	rapid.Check(t, func(t *rapid.T) {
		codes := rapid.SliceOfN(rapid.SampledFrom([]string{llm.CodeEmpty, llm.CodeUnknownEnd, llm.CodeCutCall}), 0, 5).Draw(t, "codes")
		want, seen := 1, map[string]bool{}
		for want <= len(codes) && !seen[codes[want-1]] {
			seen[codes[want-1]] = true
			want++
		}
		calls := 0
		_, tries, err := env.withRetries(context.Background(), func(context.Context, func()) (llm.Response, error) {
			if calls++; calls > len(codes) {
				return llm.Response{}, nil
			}
			return llm.Response{}, &llm.Error{Kind: llm.KindUnfinished, Code: codes[calls-1]}
		}, nil)
		if calls != want || tries.n != want || (err == nil) != (want > len(codes)) {
			t.Fatalf("got %d calls, %d tries and %v, want %d", calls, tries.n, err, want)
		}
	})
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
		runtest.Equal(t, name, retryWait(c.policy, &plugin.Failure{After: c.after}, c.try), c.want)
	}
}
