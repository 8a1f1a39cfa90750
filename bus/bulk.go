package bus

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/zap"
)

// link is a connection, with JetStream as it is asked over it.
type link struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// A read of more commits, or of a larger body, goes over the second connection, and so does a larger body that is written. Others are done with
// less than what a heartbeat can wait behind.
const (
	bulkCommits = 64
	bulkBytes   = 256 << 10
	// smallBatchBytes is what one request of another read asks for at most.
	smallBatchBytes = 512 << 10
)

// bulkRetry is how long the first connection serves where the second could not be made.
const bulkRetry = 10 * time.Second

// bulk is the second connection of a bus, for long histories and large bodies, read or written: appends, acks,
// heartbeats, claims and wakes, which have the first one, do not wait behind them. It is made when it is first
// of use. While it is not there, as where the server allows one connection, the first one serves.
type bulk struct {
	made   atomic.Pointer[link]
	mu     sync.Mutex
	failed time.Time // when it could not be made
	closed bool
}

// first is the connection of all that is short.
func (b *Bus) first() link { return link{b.nc, b.js} }

// linkOf is the connection of a read that moves much, or of another one.
func (b *Bus) linkOf(much bool) link {
	if !much {
		return b.first()
	}
	l := b.bulk.made.Load()
	if l == nil {
		l = b.makeBulk()
	}
	if l == nil || !l.nc.IsConnected() {
		return b.first()
	}
	return *l
}

// makeBulk connects, unless another reader is at it; nil where there is no connection now.
func (b *Bus) makeBulk() *link {
	s := &b.bulk
	if !s.mu.TryLock() {
		return nil
	}
	defer s.mu.Unlock()
	if l := s.made.Load(); l != nil || s.closed || time.Since(s.failed) < bulkRetry {
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

func (b *Bus) closeBulk() {
	b.bulk.mu.Lock()
	defer b.bulk.mu.Unlock()
	b.bulk.closed = true
	if l := b.bulk.made.Load(); l != nil {
		l.nc.Close()
	}
}

// Connections is how many connections the bus has made: one, or two once much was read.
func (b *Bus) Connections() int {
	if b.bulk.made.Load() != nil {
		return 2
	}
	return 1
}
