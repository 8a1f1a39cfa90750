package httpapi

import "sync"

// slots limits concurrent requests.
type slots struct {
	draining <-chan struct{} // closed: no further slots

	mu       sync.Mutex
	requests pool // short requests
	streams  pool // streams and requests that wait for a turn
	large    pool // large bodies in memory
}

// pool is a set of slots that all callers share. One caller can have only a part of them.
type pool struct {
	free      int
	perCaller int
	full      *problem       // the problem for a caller with too many slots
	taken     map[string]int // slots in use, by the caller's name
}

func newPool(all, perCaller int, full *problem) pool {
	return pool{free: all, perCaller: perCaller, full: full, taken: make(map[string]int)}
}

// take takes a slot; release returns it.
func (s *slots) take(caller string, held bool) (release func(), err error) {
	select {
	case <-s.draining:
		return nil, errDraining
	default:
	}
	if held {
		return s.takeOf(&s.streams, caller)
	}
	return s.takeOf(&s.requests, caller)
}

func (s *slots) takeOf(p *pool, caller string) (release func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.taken[caller] >= p.perCaller:
		return nil, p.full
	case p.free == 0:
		return nil, errBusy
	}
	p.free--
	p.taken[caller]++
	return func() { s.release(p, caller) }, nil
}

func (s *slots) release(p *pool, caller string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.free++
	if p.taken[caller]--; p.taken[caller] == 0 {
		delete(p.taken, caller)
	}
}
