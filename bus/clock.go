package bus

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
)

// clock is the time of the servers, which this process continues with its monotonic clock. The machine's wall clock, and
// changes of it, have no effect.
type clock struct {
	mu     sync.Mutex
	server time.Time     // zero: no server has told its time
	local  time.Time     // when it did, with a monotonic reading
	later  time.Duration // see Later
}

// clockEvery is the interval at which servers are asked for their time: the machine's monotonic clock drifts, and stands still
// while the machine is suspended.
const clockEvery = 30 * time.Second

// Now is the servers' time: what it says is due, and is the time of commits. It is off by the drift of [clockEvery] and half of a
// request's time. A bus of [OpenReader] has this machine's time.
func (b *Bus) Now() time.Time {
	b.clock.mu.Lock()
	defer b.clock.mu.Unlock()
	if b.clock.server.IsZero() {
		return time.Now()
	}
	return b.clock.server.Add(time.Since(b.clock.local) + b.clock.later)
}

// Since is the time since at, which a server or a commit gave; 0 if at is in the future. It is measured on the servers' clock ([Bus.Now]),
// as this machine's may be hours off; a bus of [OpenReader] has only its own.
func (b *Bus) Since(at time.Time) time.Duration { return max(b.Now().Sub(at), 0) }

// Later makes the servers' time later than they say. Callers are tests.
func (b *Bus) Later(by time.Duration) {
	b.clock.mu.Lock()
	defer b.clock.mu.Unlock()
	b.clock.later = by
}

// Millis is [Bus.Now] as the time of an event.
func (b *Bus) Millis() events.Millis { return events.MillisOf(b.Now()) }

// askTime asks for the time of a server that has the timers.
func (b *Bus) askTime(ctx context.Context) error {
	return b.retry(ctx, "ask for a server's time", func(ctx context.Context) error {
		asked := time.Now()
		stream, err := b.js.Stream(ctx, b.names.timerStream())
		if err == nil && stream.CachedInfo().TimeStamp.IsZero() {
			err = errors.New("the server did not say")
		}
		if err != nil {
			return err
		}
		took := time.Since(asked)
		b.clock.mu.Lock()
		defer b.clock.mu.Unlock()
		b.clock.server, b.clock.local = stream.CachedInfo().TimeStamp, asked.Add(took/2)
		return nil
	})
}

// followTime asks for the servers' time until the bus closes.
func (b *Bus) followTime(ctx context.Context) {
	for delay.Sleep(ctx, clockEvery) {
		_ = b.askTime(ctx)
	}
}
