package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/nats-io/nats.go"
)

// openTry bounds the first try of a request while a bus is opened, and twice as
// much each next one: servers that elect their leaders do not answer at all, and
// asking again is what gets the answer.
const openTry = time.Second

// waitEvery is how often is said what is waited for.
const waitEvery = time.Second

// waiting says what the opening of a bus waits for. nil says nothing.
type waiting struct {
	cfg  Config
	said time.Time
}

// limit is how long a try of a request may take; tries count from 1.
func (w *waiting) limit(most time.Duration, try int) time.Duration {
	if w == nil {
		return most
	}
	return min(most, openTry<<min(try-1, 10))
}

// say is called with what did not work, again and again.
func (w *waiting) say(err error) {
	if w == nil || time.Since(w.said) < waitEvery {
		return
	}
	w.said = time.Now()
	w.cfg.Waiting(err.Error())
}

// connect waits for servers where the configuration says so. Those that refuse are not waited for.
func (w *waiting) connect(ctx context.Context) (link, error) {
	for try := 1; ; try++ {
		l, err := w.cfg.connect()
		if err == nil || !w.cfg.Wait || !isAway(err) || pause(ctx, try) != nil {
			return l, err
		}
		w.say(err)
	}
}

// isAway reports whether no server listens, as far as one can tell from here. One that ends the TLS handshake does.
func isAway(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "remote error" {
		return false
	}
	return errors.Is(err, nats.ErrNoServers) || errors.Is(err, nats.ErrTimeout) || errors.As(err, new(*net.OpError))
}

// checkInbox asks the server whether the user may hear what it is answered. One that may not would wait for ever.
func (l link) checkInbox(cfg Config) error {
	sub, err := l.nc.SubscribeSync(l.nc.NewInbox())
	if err != nil {
		return mapError(err)
	}
	defer sub.Unsubscribe()            //nolint:errcheck // the connection is gone then
	_ = l.nc.FlushTimeout(cfg.Timeout) // a refusal comes before the end of it; a server that is silent is waited for later
	if err := l.nc.LastError(); isForbidden(err) {
		return fmt.Errorf("%w: %w", ErrInbox, err)
	}
	return nil
}

// refused is the subject that the server refused to the user since the bus connected, while it is being opened: waiting helps
// nothing. Later a refusal may be of anything.
func (b *Bus) refused() error {
	if err := b.nc.LastError(); b.waiting != nil && isForbidden(err) {
		return err
	}
	return nil
}

// forAssets looks again for assets that are not there yet, where the configuration says so.
func (w *waiting) forAssets(ctx context.Context, look func() error) error {
	for try := 1; ; try++ {
		err := look()
		if !w.cfg.Wait || !errors.Is(err, ErrNotFound) || pause(ctx, try) != nil {
			return err
		}
		w.say(fmt.Errorf("wait for the first node: %w", err))
	}
}
