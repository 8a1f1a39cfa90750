package httpapi

import "sync"

// slots limits concurrent requests.
type slots struct {
	draining <-chan struct{} // closed: no further slots

	mu       sync.Mutex
	requests slotPool // short requests
	streams  slotPool // streams and requests that wait for a turn
}

// slotPool is a set of slots that all callers share. One caller can have only a part of them.
type slotPool struct {
	free      int
	perCaller int
	full      *problem       // the problem for a caller with too many slots
	inUse     map[string]int // slots in use, by the caller's name
}

func newSlotPool(all, perCaller int, full *problem) slotPool {
	return slotPool{free: all, perCaller: perCaller, full: full, inUse: make(map[string]int)}
}

// acquire takes a slot; release returns it.
func (s *slots) acquire(caller string, staysOpen bool) (release func(), err error) {
	if s.isDraining() {
		return nil, errDraining
	}
	if staysOpen {
		return s.acquireFrom(&s.streams, caller)
	}
	return s.acquireFrom(&s.requests, caller)
}

// isDraining reports whether the server drains.
func (s *slots) isDraining() bool {
	select {
	case <-s.draining:
		return true
	default:
		return false
	}
}

func (s *slots) acquireFrom(p *slotPool, caller string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.inUse[caller] >= p.perCaller:
		return nil, p.full
	case p.free == 0:
		return nil, errBusy
	}
	p.free--
	p.inUse[caller]++
	return func() { s.release(p, caller) }, nil
}

func (s *slots) release(p *slotPool, caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.free++
	if p.inUse[caller]--; p.inUse[caller] == 0 {
		delete(p.inUse, caller)
	}
}
