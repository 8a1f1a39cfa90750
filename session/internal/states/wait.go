package states

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

const (
	// idleSubscription is how long a cache keeps a subscription without waiters, unless its owner says.
	idleSubscription = 30 * time.Second
	// checkEvery is the time between two reads of the log by a waiter: a live message may be lost.
	checkEvery = 2 * time.Second
)

// subscription applies a session's live commits to its cached state, and wakes its waiters.
type subscription struct {
	stop    func()
	waiters map[*Waiter]bool
	idle    time.Time // time of the last waiter's end
}

// Waiter waits for a condition on a session's state. Code that waits for a turn, for tasks or for the end of a call uses
// it, and no subscription of its own. One goroutine may use it at a time.
type Waiter struct {
	cache    *Cache
	session  events.SessionID
	relevant func(bus.LiveMessage) bool
	newest   atomic.Uint64 // sequence of the newest relevant commit
	wake     chan struct{}
}

// Subscribe makes a waiter. relevant says which live commits can make its condition true; it must not block. A commit
// that is appended after Subscribe returns wakes the waiter.
func (c *Cache) Subscribe(id events.SessionID, relevant func(bus.LiveMessage) bool) (*Waiter, error) {
	w := &Waiter{cache: c, session: id, relevant: relevant, wake: make(chan struct{}, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subscriptions[id]
	if s == nil {
		stop, err := c.b.OnCommit(id, func(m bus.LiveMessage) { c.received(id, m) })
		if err != nil {
			return nil, err
		}
		s = &subscription{stop: stop, waiters: make(map[*Waiter]bool)}
		c.subscriptions[id] = s
	}
	s.waiters[w] = true
	return w, nil
}

// Close ends the waiter. Its subscription is kept for a while.
func (w *Waiter) Close() {
	w.cache.mu.Lock()
	defer w.cache.mu.Unlock()
	s := w.cache.subscriptions[w.session]
	delete(s.waiters, w)
	s.idle = time.Now()
	w.cache.sweepLater()
}

// sweepLater makes a search for unused subscriptions due, also where no waiter comes after the last one. The caller has mu.
func (c *Cache) sweepLater() {
	if !c.sweeping {
		c.sweeping = true
		time.AfterFunc(c.idle, c.sweep)
	}
}

// sweep ends subscriptions that no waiter has used for long. It looks at all of them, so it runs once in that time.
func (c *Cache) sweep() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweeping = false
	for id, s := range c.subscriptions {
		switch {
		case len(s.waiters) > 0: // its last waiter makes a search due
		case time.Since(s.idle) >= c.idle:
			s.stop()
			delete(c.subscriptions, id)
		default:
			c.sweepLater()
		}
	}
}

// received applies a live commit, and wakes the waiters that it is relevant to.
func (c *Cache) received(id events.SessionID, m bus.LiveMessage) {
	if m.Seq == 0 {
		return
	}
	c.apply(id, m)
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.subscriptions[id]
	if s == nil {
		return
	}
	for w := range s.waiters {
		if w.relevant(m) {
			w.newest.Store(uint64(m.Seq))
			select {
			case w.wake <- struct{}{}:
			default: // the waiter has yet to check
			}
		}
	}
}

// apply folds a live commit into the cached state where it is the next one, so that readers need not ask the log.
func (c *Cache) apply(id events.SessionID, m bus.LiveMessage) {
	c.mu.Lock()
	e, ok := c.entries.Peek(id)
	c.mu.Unlock()
	if !ok {
		return
	}
	select {
	case e.locked <- struct{}{}:
		defer func() { <-e.locked }()
	default: // the goroutine with the lock reads the log, or appends
		return
	}
	if e.State != nil && m.Seq == e.State.Seq && m.Commit != e.State.LastCommit() && e.State.LastCommit() != "" {
		e.State = nil // an older history replaced that of the state
	}
	if e.State == nil || m.Seq != e.State.Seq+1 || m.Early {
		return
	}
	if next, err := c.b.Entry(m); err == nil {
		follow.Receive(c.b, e.State, next)
	}
}

// Wait returns once done is true, or with the first error. It checks after each relevant commit on the cached state,
// where that has the commit; after first, and every [checkEvery] from then on, it checks on the state as it is in the log. done must
// not keep or change the state.
func (w *Waiter) Wait(ctx context.Context, first time.Duration, done func(*projector.State) (bool, error)) error {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		fresh := false
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.wake:
		case <-timer.C:
			fresh = true
			timer.Reset(checkEvery)
		}
		if ok, err := w.check(ctx, fresh, done); ok || err != nil {
			return err
		}
	}
}

func (w *Waiter) check(ctx context.Context, fresh bool, done func(*projector.State) (bool, error)) (ok bool, err error) {
	e, err := w.cache.Lock(ctx, w.session)
	if err != nil {
		return false, err
	}
	defer e.Unlock()
	fresh = fresh || e.State == nil || uint64(e.State.Seq) < w.newest.Load()
	if err := e.Load(ctx, fresh); err != nil {
		return false, err
	}
	return done(e.State)
}
