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
	before atomic.Uint64 // [extraLink.connects] of earlier ones
	mu     sync.Mutex    // held during an attempt
	failed time.Time     // of the last attempt; zero after one that succeeded
	closed bool
}

// of is the connection of a bus; nil where there is none now: the last attempt has failed, or another caller makes one. use is
// what the connection is for.
func (e *extraLink) of(b *Bus, use string) *link {
	l := e.made.Load()
	if l != nil && l.nc.IsClosed() {
		e.before.Add(1 + l.nc.Stats().Reconnects) // first: a count that is too high for a moment costs a look at the log
		e.made.CompareAndSwap(l, nil)
		l = e.made.Load()
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

// connects counts how often the connection was made, by the library too. Where it has not grown, what was received is of the same servers.
func (e *extraLink) connects() uint64 {
	n := e.before.Load()
	if l := e.made.Load(); l != nil {
		n += 1 + l.nc.Stats().Reconnects
	}
	return n
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
