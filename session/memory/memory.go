// Package memory divides the bytes of a node among its callers: what a request or a turn holds in memory is taken from a pool before it
// is read, and given back after it is written.
package memory

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Pool is a number of bytes, of which one caller can have a part. It is safe for concurrent use. A nil pool has no limit.
type Pool struct {
	mu      sync.Mutex
	free    int64
	share   int64
	used    map[string]int64 // by caller
	waiting []*waiter        // in order
}

type waiter struct {
	caller string
	bytes  int64
	got    chan struct{}
}

// NewPool makes a pool of so many bytes. One caller has at most share of them.
func NewPool(bytes, share int64) *Pool {
	return &Pool{free: bytes, share: min(share, bytes), used: make(map[string]int64)}
}

// Share is the most bytes that one caller can have.
func (p *Pool) Share() int64 {
	if p == nil {
		return math.MaxInt64
	}
	return p.share
}

// Take waits until the caller has the bytes, in the order of requests; those of a caller who has its share wait for that caller's own.
// give returns the bytes, and is called once. Errors: [events.ErrTooLarge] with both numbers for more than a share, [api.ErrMemory] at
// the end of ctx.
func (p *Pool) Take(ctx context.Context, caller string, bytes int64) (give func(), err error) {
	if p == nil {
		return func() {}, nil
	}
	w, err := p.enter(caller, bytes)
	if err != nil {
		return nil, err
	}
	select {
	case <-w.got:
		return func() { p.give(caller, bytes) }, nil
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.got:
		return func() { p.give(caller, bytes) }, nil
	default:
		p.waiting = slices.DeleteFunc(p.waiting, func(other *waiter) bool { return other == w })
		p.serve() // it may have been in others' way
		return nil, fmt.Errorf("%w: %d bytes: %w", api.ErrMemory, bytes, context.Cause(ctx))
	}
}

func (p *Pool) enter(caller string, bytes int64) (*waiter, error) {
	w := &waiter{caller, bytes, make(chan struct{})}
	if bytes < 0 || bytes > p.share {
		return nil, &events.FieldError{Field: "memory", Reason: fmt.Sprintf("needs %d bytes, limit of one caller on this node is %d", bytes, p.share), Err: events.ErrTooLarge}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting = append(p.waiting, w)
	p.serve()
	return w, nil
}

func (p *Pool) give(caller string, bytes int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free += bytes
	if p.used[caller] -= bytes; p.used[caller] == 0 {
		delete(p.used, caller)
	}
	p.serve()
}

// serve gives bytes to those who wait, in order. Who has its share keeps nobody else waiting; who waits for the pool does, so that a large
// request gets its turn. The caller has the lock.
func (p *Pool) serve() {
	left, full := p.waiting[:0], false
	for _, w := range p.waiting {
		switch {
		case full || p.used[w.caller]+w.bytes > p.share:
			left = append(left, w)
		case w.bytes > p.free:
			left, full = append(left, w), true
		default:
			p.free -= w.bytes
			p.used[w.caller] += w.bytes
			close(w.got)
		}
	}
	clear(p.waiting[len(left):])
	p.waiting = left
}

// Division is what the uses of a node's memory have.
type Division struct {
	Requests *Pool // bodies of requests and answers, by caller, one of whom has at most half
	Turns    *Pool // bodies of conversations for prompts and hooks, by session
	States   int64 // cached states of sessions, in bytes
}

// Divide divides a node's bytes: half is for requests, and a quarter each for turns and for states. 0 is [Default].
func Divide(bytes int64) Division {
	if bytes == 0 {
		bytes = Default()
	}
	return Division{Requests: NewPool(bytes/2, bytes/4), Turns: NewPool(bytes/4, bytes/4), States: bytes / 4}
}

// Default is a third of the memory of this machine, or of its control group, in bytes; 1 GiB where neither says.
func Default() int64 {
	limit := memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)
	n, err := limit()
	if err != nil || n/3 > math.MaxInt64 {
		return 1 << 30
	}
	return int64(n / 3)
}
