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

// Larger reads and bodies use the second connection. Smaller ones delay a heartbeat behind them too little to matter.
const (
	largeCommits = 64
	largeBytes   = 256 << 10
)

// secondaryRetry is the time between attempts to make the second connection; the primary one is used meanwhile.
const secondaryRetry = 10 * time.Second

// secondary is the second connection of a bus, for long histories and large bodies. Appends, acks, heartbeats, claims and
// wakes on the primary connection do not wait behind them. It is made at first use. Where it cannot be made, as where
// the server allows one connection, the primary one is used.
type secondary struct {
	made   atomic.Pointer[link]
	mu     sync.Mutex
	failed time.Time // of the last attempt
	closed bool
}

// primary is the connection of all short requests.
func (b *Bus) primary() link { return link{b.nc, b.js} }

// linkOf is the connection for a large read, or for another one.
func (b *Bus) linkOf(large bool) link {
	if !large {
		return b.primary()
	}
	l := b.secondary.made.Load()
	if l != nil && l.nc.IsClosed() && b.secondary.made.CompareAndSwap(l, nil) {
		l = nil
	}
	if l == nil {
		l = b.makeSecondary()
	}
	if l == nil || !l.nc.IsConnected() {
		return b.primary()
	}
	return *l
}

// makeSecondary connects, unless another reader does so now; nil where there is no second connection.
func (b *Bus) makeSecondary() *link {
	s := &b.secondary
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	if l := s.made.Load(); l != nil || s.closed || time.Since(s.failed) < secondaryRetry {
		return l
	}
	l, err := b.cfg.connect()
	if err != nil {
		s.failed = time.Now()
		b.log.Info("no second connection, long histories come over the first", zap.Error(err))
		return nil
	}
	s.made.Store(&l)
	return &l
}

func (b *Bus) closeSecondary() {
	b.secondary.mu.Lock()
	defer b.secondary.mu.Unlock()
	b.secondary.closed = true
	if l := b.secondary.made.Load(); l != nil {
		l.nc.Close()
	}
}

// Connections is how many connections the bus has made, without those for plugins: 1, or 2 after the first large read.
func (b *Bus) Connections() int {
	if b.secondary.made.Load() != nil {
		return 2
	}
	return 1
}
