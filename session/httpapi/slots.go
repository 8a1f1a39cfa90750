package httpapi

import "sync"

// slots bound what goes on at once.
type slots struct {
	draining <-chan struct{} // closed: nothing more is taken

	mu       sync.Mutex
	requests pool // answered soon
	streams  pool // held open: also requests that wait for a turn
	large    pool // large bodies, in memory
}

// pool is of slots that all callers share, and of which none has all.
type pool struct {
	free      int
	perCaller int
	full      *problem       // of a caller that has that many
	taken     map[string]int // by the caller's name
}

func newPool(all, perCaller int, full *problem) pool {
	return pool{free: all, perCaller: perCaller, full: full, taken: make(map[string]int)}
}

// take takes a slot until release is called.
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
