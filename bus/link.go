package bus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// link is a connection, and JetStream over it.
type link struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// primary is the connection of all short requests.
func (b *Bus) primary() link { return link{b.nc, b.js} }

// linkRetry is the time between attempts to make another connection than the primary one, which is used meanwhile.
const linkRetry = 10 * time.Second

// extraLink is a connection besides the primary one. It is made at first use, and again where it was closed for good. The
// library makes a connection again that was cut.
type extraLink struct {
	made   atomic.Pointer[link]
	mu     sync.Mutex // held during an attempt
	failed time.Time  // of the last attempt; zero after one that succeeded
	closed bool
}

// of is the connection of a bus; nil where there is none now: the last attempt has failed, or another caller makes one. use is
// what the connection is for.
func (e *extraLink) of(b *Bus, use string) *link {
	l := e.made.Load()
	if l != nil && l.nc.IsClosed() && e.made.CompareAndSwap(l, nil) {
		l = nil
	}
	if l == nil {
		l = e.make(b, use)
	}
	return l
}

func (e *extraLink) make(b *Bus, use string) *link {
	if !e.mu.TryLock() {
		return nil
	}
	defer e.mu.Unlock()
	if l := e.made.Load(); l != nil || e.closed || time.Since(e.failed) < b.linkRetry {
		return l
	}
	l, err := b.cfg.connect()
	if err != nil {
		if e.failed.IsZero() {
			b.log.Warn("no connection of its own: the primary one is used", zap.String("use", use), zap.Error(err))
		}
		e.failed = time.Now()
		return nil
	}
	e.failed = time.Time{}
	e.made.Store(&l)
	return &l
}

// close closes the connection for good.
func (e *extraLink) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	if l := e.made.Load(); l != nil {
		l.nc.Close()
	}
}
