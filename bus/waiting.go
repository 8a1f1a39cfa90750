package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/lash-go/lash/bus/delay"
)

// openTry bounds the first try of a request while a bus opens; each next try gets twice as much. Servers that elect
// their leaders drop requests, so only a new request is answered.
const openTry = time.Second

// waitEvery is the interval of calls of [Config.Waiting].
const waitEvery = time.Second

// waiting reports what the opening of a bus waits for. nil reports nothing.
type waiting struct {
	cfg      Config
	reported time.Time
}

// limit is how long a try of a request may take; tries count from 1.
func (w *waiting) limit(most time.Duration, try int) time.Duration {
	if w == nil {
		return most
	}
	return delay.Backoff(openTry, most, try)
}

// report reports an error, at most once per [waitEvery].
func (w *waiting) report(err error) {
	if w == nil || time.Since(w.reported) < waitEvery {
		return
	}
	w.reported = time.Now()
	w.cfg.Waiting(err.Error())
}

// connect waits for servers where the configuration says so. It does not wait for servers that refuse the connection.
func (w *waiting) connect(ctx context.Context) (link, error) {
	for try := 1; ; try++ {
		l, err := w.cfg.connect()
		if err == nil || !w.cfg.Wait || !isAway(err) || pause(ctx, try) != nil {
			return l, err
		}
		w.report(err)
	}
}

// isAway reports whether no server listens. A server that ends the TLS handshake listens.
func isAway(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return false
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, new(*net.OpError))
}

// checkInbox checks that the user may subscribe to its inbox. Without that right every request would wait for ever.
func (l link) checkInbox(cfg Config) error {
	sub, err := l.nc.SubscribeSync(l.nc.NewInbox())
	if err != nil {
		return mapError(err)
	}
	defer sub.Unsubscribe()            //nolint:errcheck // only a lost connection fails
	_ = l.nc.FlushTimeout(cfg.Timeout) // a refusal arrives before the flush ends; later requests wait for a silent server
	if err := l.nc.LastError(); isForbidden(err) {
		return fmt.Errorf("%w: %w", ErrInbox, err)
	}
	return nil
}

// refused is the error of a subject that the server refused to the user while the bus opens: waiting does not help.
// Later an error may come from any request.
func (b *Bus) refused() error {
	if err := b.nc.LastError(); b.waiting != nil && isForbidden(err) {
		return err
	}
	return nil
}

// forAssets repeats the lookup of assets that do not exist yet, where the configuration says so.
func (w *waiting) forAssets(ctx context.Context, lookup func() error) error {
	for try := 1; ; try++ {
		err := lookup()
		if !w.cfg.Wait || !errors.Is(err, ErrNotFound) || pause(ctx, try) != nil {
			return err
		}
		w.report(fmt.Errorf("wait for the first node: %w", err))
	}
}
