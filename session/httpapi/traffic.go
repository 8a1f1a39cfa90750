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
// limit gets no new request, and its streams are slowed down, until its rate is below the limit again. K is the name of a
// caller, or the address range of a client without one.
type traffic[K comparable] struct {
	perMinute int
	who       string // the clients that the limit counts, in a refusal
	bounded   bool   // the table has at most maxIdle clients, because any number of them may come

	mu      sync.Mutex
	clients map[K]*rate.Limiter
}

func newTraffic[K comparable](perMinute int, who string, bounded bool) traffic[K] {
	return traffic[K]{perMinute: perMinute, who: who, bounded: bounded, clients: make(map[K]*rate.Limiter)}
}

// maxIdle is the number of clients above which those without traffic in the last minute are removed.
const maxIdle = 1024

// limiter is the limiter of a client.
func (t *traffic[K]) limiter(client K, now time.Time) *rate.Limiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.clients[client]
	if left != nil {
		return left
	}
	if len(t.clients) >= maxIdle {
		t.shrink(now)
	}
	left = rate.NewLimiter(rate.Limit(float64(t.perMinute)/time.Minute.Seconds()), t.perMinute)
	t.clients[client] = left
	return left
}

// shrink removes the clients without traffic in the last minute. A bounded table also loses the one with the least
// traffic, so that a client above its limit stays. The caller holds mu.
func (t *traffic[K]) shrink(now time.Time) {
	var least K
	most := math.Inf(-1)
	for client, l := range t.clients {
		switch left := l.TokensAt(now); {
		case left >= float64(t.perMinute):
			delete(t.clients, client)
		case left > most:
			least, most = client, left
		}
	}
	if t.bounded && len(t.clients) >= maxIdle {
		delete(t.clients, least)
	}
}

// check refuses a request of a client without remaining bytes.
func (t *traffic[K]) check(left *rate.Limiter, now time.Time) error {
	missing := 1 - left.TokensAt(now)
	if missing <= 0 {
		return nil
	}
	p := tooManyOf(t.who, "too_many_bytes", "bytes a minute", "bytes_a_minute", t.perMinute)
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
	return tooManyOf("caller", code, what, limit, most)
}

// tooManyOf is the refusal of a client at one of its limits.
func tooManyOf(who, code, what, limit string, most int) *problem {
	return &problem{
		Status: http.StatusTooManyRequests, Code: code, Detail: "too many " + what + " of this " + who + ", limit is " + strconv.Itoa(most),
		Details: map[string]string{"limit": limit, "max": strconv.Itoa(most)}, retry: retryAfter,
	}
}
