package stdio

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Waits before a start that follows children which answered nothing.
const (
	startBase  = 100 * time.Millisecond
	startLimit = 10 * time.Second
)

var errNotPlaced = errors.New("the session has not started here, or its placement has ended")

// slot has the children of one session, or of a plugin without scope session, one after the other.
type slot struct {
	turn     chan struct{} // has an element while a child starts or ends
	start    *wire.SessionStart
	failures int // children in a row that answered nothing; of the holder of turn

	mu    sync.Mutex
	child *child // the last one; nil before the first
	ended bool   // no child starts any more
}

func newSlot(start *wire.SessionStart) *slot {
	return &slot{turn: make(chan struct{}, 1), start: start}
}

// current is the child, which may have ended; nil before the first.
func (s *slot) current() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.child
}

// lock waits while a child starts or ends.
func (s *slot) lock(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s *slot) unlock() { <-s.turn }

// openIn is a child that takes calls. It starts one where necessary: two of them never live at once.
func (a *Adapter) openIn(ctx context.Context, s *slot) (*child, error) {
	if err := s.lock(ctx); err != nil {
		return nil, err
	}
	defer s.unlock()
	if s.hasEnded() {
		return nil, errNotPlaced
	}
	if c := s.current(); c != nil {
		if c.isOpen() {
			return c, nil
		}
		select {
		case <-c.gone:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		s.count(c)
	}
	if s.failures > 0 && !delay.Sleep(ctx, delay.Backoff(startBase, startLimit, s.failures)) {
		return nil, context.Cause(ctx)
	}
	c, err := a.open(ctx)
	if err == nil && s.start != nil {
		err = a.place(ctx, s, c)
	}
	if err == nil {
		err = s.take(c)
	}
	if err != nil {
		s.failures++
	}
	return c, err
}

// count counts a child that has gone, once.
func (s *slot) count(c *child) {
	c.mu.Lock()
	useful := c.useful
	c.mu.Unlock()
	s.failures++
	if useful {
		s.failures = 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.child = nil
}

// take makes a child the current one, unless the slot has ended.
func (s *slot) take(c *child) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		c.close()
		return errNotPlaced
	}
	s.child = c
	return nil
}

// place starts the session in a child, and has the child end after [Config.Idle].
func (a *Adapter) place(ctx context.Context, s *slot, c *child) error {
	if err := c.place(ctx, s.start); err != nil {
		c.end(err)
		<-c.gone
		return err
	}
	c.answered()
	if a.cfg.Idle > 0 {
		timer := time.AfterFunc(a.cfg.Idle, func() { c.retire(s.start, a.cfg.Idle) })
		c.rest(func() { c.rested = func() { timer.Reset(a.cfg.Idle) } })
	}
	return nil
}

// retire tells a child in which nothing runs that its session is idle for this time, and ends it. It returns false where
// something runs.
func (c *child) retire(start *wire.SessionStart, quiet time.Duration) bool {
	if !c.quiet() {
		return false
	}
	c.send(lineIdle, &wire.Idle{Session: start.Session, Epoch: start.Epoch, QuietMS: quiet.Milliseconds()})
	c.close()
	return true
}

func (s *slot) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ended
}

// end ends the child, and lets none start.
func (s *slot) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.child != nil {
		s.child.close()
	}
}
