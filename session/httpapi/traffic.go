package httpapi

import (
	"context"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// traffic limits the bytes of each caller in a minute: bodies of requests, responses and streams. A caller above the
// limit gets no new request, and its streams are slowed down, until its rate is below the limit again.
type traffic struct {
	perMinute int

	mu      sync.Mutex
	callers map[string]*rate.Limiter
}

// maxIdle is the number of callers above which those without traffic in the last minute are removed.
const maxIdle = 1024

// limiter is the limiter of a caller.
func (t *traffic) limiter(caller string, now time.Time) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.callers[caller]
	if left != nil {
		return left
	}
	if len(t.callers) >= maxIdle {
		for name, l := range t.callers {
			if l.TokensAt(now) >= float64(t.perMinute) {
				delete(t.callers, name)
			}
		}
	}
	left = rate.NewLimiter(rate.Limit(float64(t.perMinute)/time.Minute.Seconds()), t.perMinute)
	t.callers[caller] = left
	return left
}

// check refuses a request of a caller without remaining bytes.
func (t *traffic) check(left *rate.Limiter, now time.Time) error {
	missing := 1 - left.TokensAt(now)
	if missing <= 0 {
		return nil
	}
	p := tooMany("too_many_bytes", "bytes a minute", "bytes_a_minute", t.perMinute)
	p.retry = int(math.Ceil(missing / float64(left.Limit())))
	return p
}

// deductBytes subtracts transferred bytes, also below zero.
func deductBytes(left *rate.Limiter, n int) {
	for now := time.Now(); n > 0; n -= left.Burst() {
		left.ReserveN(now, min(n, left.Burst()))
	}
}

// awaitBytes waits until the limit allows bytes to be sent, and subtracts them.
func awaitBytes(ctx context.Context, left *rate.Limiter, n int) error {
	for ; n > 0; n -= left.Burst() {
		if err := left.WaitN(ctx, min(n, left.Burst())); err != nil {
			return err
		}
	}
	return nil
}

// tooMany is the refusal of a caller at one of its limits.
func tooMany(code, what, limit string, most int) *problem {
	return &problem{
		Status: http.StatusTooManyRequests, Code: code, Detail: "too many " + what + " of this caller, limit is " + strconv.Itoa(most),
		Details: map[string]string{"limit": limit, "max": strconv.Itoa(most)}, retry: retryAfter,
	}
}
