package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
)

// The count of streams is asked for again after so many were made, or after so long.
const (
	hotCountMade = 64
	hotCountFor  = 10 * time.Second
	// hotCountWait bounds the question. Who may not ask gets no answer.
	hotCountWait = time.Second
)

// hotCount is how many streams there are, as the server said last.
type hotCount struct {
	mu      sync.Mutex
	streams int
	made    int // here, since
	at      time.Time
}

// MaxHot is the limit of hot sessions; negative for none.
func (b *Bus) MaxHot() int { return b.cfg.MaxHot }

// roomForHot refuses one more stream where there are limit. While the server
// does not say how many there are, it is the server that refuses.
func (b *Bus) roomForHot(ctx context.Context, limit int) error {
	if limit < 0 {
		return nil
	}
	c := &b.hot
	c.mu.Lock()
	defer c.mu.Unlock()
	if full := c.streams+c.made >= limit; c.made >= hotCountMade || time.Since(c.at) > hotCountFor || full && time.Since(c.at) > hotCountWait {
		once, cancel := context.WithTimeout(ctx, hotCountWait)
		info, err := b.js.AccountInfo(once)
		cancel()
		if err == nil {
			c.streams = info.Streams
		}
		c.made, c.at = 0, time.Now()
	}
	if c.streams+c.made >= limit {
		return fmt.Errorf("%w: the account has %d streams, the limit is %d; archive sessions sooner, raise the limit, or use another account for new ones",
			ErrFull, c.streams+c.made, limit)
	}
	c.made++
	return nil
}

// roomForNew refuses a new session where there is no room. One that exists has its stream.
func (b *Bus) roomForNew(ctx context.Context, session events.SessionID) error {
	full := b.roomForHot(ctx, b.cfg.MaxHot)
	if full == nil {
		return nil
	}
	_, err := b.streamEnd(ctx, b.names.firstStream(session))
	if errors.Is(err, events.ErrNoSession) {
		return full
	}
	return err
}

// roomForCold is roomForNew for a session that was cold.
func (b *Bus) roomForCold(ctx context.Context) error {
	return b.roomForHot(ctx, b.cfg.MaxHot+b.cfg.MaxHot/8)
}
