package bus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"
)

// timeout bounds one request, which is pending until cancel is called.
func (b *Bus) timeout(ctx context.Context) (bounded context.Context, cancel context.CancelFunc) {
	return b.bound(ctx, b.cfg.Timeout)
}

// bound is timeout with another limit.
func (b *Bus) bound(ctx context.Context, limit time.Duration) (bounded context.Context, cancel context.CancelFunc) {
	ended := b.pending()
	bounded, stop := context.WithTimeout(ctx, limit)
	return bounded, func() { ended(); stop() }
}

// pending reports a request by [Config.Pending], until ended is called.
func (b *Bus) pending() (ended func()) {
	if b.cfg.Pending == nil {
		return func() {}
	}
	return b.cfg.Pending()
}

// once runs one request, for [Config.Timeout] at most: the request or its answer may be lost, and ctx may end much
// later. Its error is mapped.
func (b *Bus) once(ctx context.Context, request func(context.Context) error) error {
	return b.onceWithin(ctx, b.cfg.Timeout, request)
}

// onceWithin is once with another limit.
func (b *Bus) onceWithin(ctx context.Context, limit time.Duration, request func(context.Context) error) error {
	return b.onceOver(ctx, b.primary(), limit, request)
}

// onceOver is onceWithin for a request over a connection. Pings detect a second connection that is lost.
func (b *Bus) onceOver(ctx context.Context, l link, limit time.Duration, request func(context.Context) error) error {
	bounded, cancel := b.bound(ctx, limit)
	defer cancel()
	err := request(bounded)
	if ctx.Err() == nil && l.nc == b.nc {
		b.recordOutcome(err)
	}
	return mapError(err)
}

// retry runs an idempotent request until it is answered or ctx ends.
func (b *Bus) retry(ctx context.Context, what string, request func(context.Context) error) error {
	return b.retryWithin(ctx, b.cfg.Timeout, what, request)
}

// retryWithin is retry with another limit of each try.
func (b *Bus) retryWithin(ctx context.Context, limit time.Duration, what string, request func(context.Context) error) error {
	defer b.pending()()
	for try := 1; ; try++ {
		err := b.onceWithin(ctx, b.waiting.limit(limit, try), request)
		if err == nil {
			return nil
		}
		if refused := b.refused(); refused != nil {
			return fmt.Errorf("%s: %w", what, refused)
		}
		if !isUnknown(err) || pause(ctx, try) != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		b.waiting.report(fmt.Errorf("%s: %w", what, err))
	}
}

// listen calls deliver with each message on a subject, from one goroutine, until stop.
func (b *Bus) listen(subject string, deliver nats.MsgHandler) (stop func(), err error) {
	sub, err := b.nc.Subscribe(subject, deliver)
	if err != nil {
		return nil, fmt.Errorf("listen to %s: %w", subject, mapError(err))
	}
	return func() { _ = sub.Unsubscribe() }, nil
}

// minUnanswered is the number of unanswered requests before a reconnect.
const minUnanswered = 3

// unansweredRequests counts the requests in a row without an answer on a connection that is up: its server may be cut
// off from the others.
type unansweredRequests struct {
	mu          sync.Mutex
	first, last time.Time // of these requests
	n           int       // their number
}

// recordOutcome counts an answered or unanswered request. After two to three timeouts without an answer the client
// reconnects, to another server where there is one. The time is random, so that clients do not reconnect at once.
func (b *Bus) recordOutcome(err error) {
	s := &b.unanswered
	s.mu.Lock()
	defer s.mu.Unlock()
	if isAnswer(err) {
		s.n = 0
		return
	}
	now := time.Now()
	if s.n == 0 || now.Sub(s.last) > 3*b.cfg.Timeout || b.nc.Status() != nats.CONNECTED {
		s.n, s.first = 0, now // single timeouts do not count
	}
	s.n, s.last = s.n+1, now
	patience := 2*b.cfg.Timeout + rand.N(b.cfg.Timeout)
	if s.n >= minUnanswered && now.Sub(s.first) > patience {
		s.n = 0
		b.log.Warn("the server answers nothing: connecting to another one", zap.String("server", b.nc.ConnectedServerName()), zap.Error(err))
		_ = b.nc.ForceReconnect() // fails only where the connection is closed for good
	}
}
