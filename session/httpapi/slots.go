package httpapi

import "sync"

// slots bound what goes on at once.
type slots struct {
	draining <-chan struct{} // closed: nothing more is taken

	mu       sync.Mutex
	requests pool // answered soon
	streams  pool // held open: also requests that wait for a turn
}

// pool is of slots that all tokens share, and of which none has all.
type pool struct {
	free     int
	perToken int
	full     *problem       // of a token that has that many
	taken    map[string]int // by the token's name
}

func newPool(all, perToken int, full *problem) pool {
	return pool{free: all, perToken: perToken, full: full, taken: make(map[string]int)}
}

// take takes a slot until release is called.
func (s *slots) take(token string, held bool) (release func(), err error) {
	select {
	case <-s.draining:
		return nil, errDraining
	default:
	}
	p := &s.requests
	if held {
		p = &s.streams
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case p.taken[token] >= p.perToken:
		return nil, p.full
	case p.free == 0:
		return nil, errBusy
	}
	p.free--
	p.taken[token]++
	return func() { s.release(p, token) }, nil
}

func (s *slots) release(p *pool, token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.free++
	if p.taken[token]--; p.taken[token] == 0 {
		delete(p.taken, token)
	}
}
