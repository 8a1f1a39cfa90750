package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
)

// The bus counts the streams again after it has created this many, or after this time.
const (
	countAfterCreated = 64
	countFor          = 10 * time.Second
	// countWait bounds the request. A user without the right to count gets no answer.
	countWait = time.Second
)

// streamCount is the number of the account's streams at the server's last answer.
type streamCount struct {
	mu      sync.Mutex
	streams int
	created int // created by this bus since then
	at      time.Time
}

// MaxHot is the limit of hot sessions; negative for none.
func (b *Bus) MaxHot() int { return b.cfg.MaxHot }

// reserveStream counts one more stream, and refuses it with [ErrFull] at the limit. Where the server does not answer
// with its count, the server's own limit applies.
func (b *Bus) reserveStream(ctx context.Context, limit int) error {
	if limit < 0 {
		return nil
	}
	c := &b.hot
	c.mu.Lock()
	defer c.mu.Unlock()
	if full := c.streams+c.created >= limit; c.created >= countAfterCreated || time.Since(c.at) > countFor || full && time.Since(c.at) > countWait {
		once, cancel := context.WithTimeout(ctx, countWait)
		info, err := b.js.AccountInfo(once)
		cancel()
		if err == nil {
			c.streams = info.Streams
		}
		c.created, c.at = 0, time.Now()
	}
	if c.streams+c.created >= limit {
		return fmt.Errorf("%w: the account has %d streams, the limit is %d; archive sessions sooner, raise the limit, or use another account for new ones",
			ErrFull, c.streams+c.created, limit)
	}
	c.created++
	return nil
}

// reserveNew reserves the stream of a new session. A session that exists already has one.
func (b *Bus) reserveNew(ctx context.Context, session events.SessionID) error {
	full := b.reserveStream(ctx, b.cfg.MaxHot)
	if full == nil {
		return nil
	}
	_, err := b.streamEnd(ctx, b.names.firstStream(session))
	if errors.Is(err, events.ErrNoSession) {
		return full
	}
	return err
}

// reserveReopen reserves the stream of a cold session, above the limit of new ones.
func (b *Bus) reserveReopen(ctx context.Context) error {
	return b.reserveStream(ctx, b.cfg.MaxHot+b.cfg.MaxHot/8)
}
