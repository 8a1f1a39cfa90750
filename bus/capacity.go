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
	limit   int // of the account, negative for none
	created int // created by this bus since then
	at      time.Time
}

// MaxHot is the limit of streams: that of the configuration or that of the account, whichever is less; negative for none.
func (b *Bus) MaxHot() int {
	b.hot.mu.Lock()
	defer b.hot.mu.Unlock()
	return b.hot.least(b.cfg.MaxHot)
}

// Room is the number of streams that fit, as the servers count now; negative where there is no limit.
func (b *Bus) Room(ctx context.Context) (room, limit int) {
	b.hot.mu.Lock()
	defer b.hot.mu.Unlock()
	b.hot.count(ctx, b)
	if limit = b.hot.least(b.cfg.MaxHot); limit < 0 {
		return -1, limit
	}
	return max(limit-b.hot.streams, 0), limit
}

// least is a limit, or the account's if that is less.
func (c *streamCount) least(limit int) int {
	if c.limit > 0 && (limit < 0 || c.limit < limit) {
		return c.limit
	}
	return limit
}

// count asks the servers. Where they do not answer, the count stays.
func (c *streamCount) count(ctx context.Context, b *Bus) {
	once, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	if info, err := b.js.AccountInfo(once); err == nil {
		c.streams, c.limit = info.Streams, info.Limits.MaxStreams
		if tier, ok := info.Tiers[fmt.Sprintf("R%d", b.replicas)]; ok {
			c.streams, c.limit = tier.Streams, tier.Limits.MaxStreams
		}
	}
	c.created, c.at = 0, time.Now()
}

// reserveStream counts one more stream, and refuses it with [ErrFull] at the limit. Where the server does not answer
// with its count, the server's own limit applies.
func (b *Bus) reserveStream(ctx context.Context, limit int) error {
	c := &b.hot
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit = c.least(limit); limit < 0 {
		return nil
	}
	if full := c.streams+c.created >= limit; c.created >= countAfterCreated || time.Since(c.at) > countFor || full && time.Since(c.at) > countWait {
		c.count(ctx, b)
	}
	if limit = c.least(limit); c.streams+c.created >= limit {
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
