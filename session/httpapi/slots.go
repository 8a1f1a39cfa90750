package httpapi

import "sync"

// slots bound what goes on at once.
type slots struct {
	draining <-chan struct{} // closed: nothing more is taken
	perToken int

	mu       sync.Mutex
	requests int            // still free
	streams  int            // still free
	held     map[string]int // streams, by the token's name
}

// take takes a slot until release is called.
func (s *slots) take(token string, held bool) (release func(), err error) {
	select {
	case <-s.draining:
		return nil, errDraining
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !held && s.requests == 0, held && s.streams == 0:
		return nil, errBusy
	case !held:
		s.requests--
	case s.held[token] == s.perToken:
		return nil, errStreams
	default:
		s.streams--
		s.held[token]++
	}
	return func() { s.release(token, held) }, nil
}

func (s *slots) release(token string, held bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !held {
		s.requests++
		return
	}
	s.streams++
	if s.held[token]--; s.held[token] == 0 {
		delete(s.held, token)
	}
}
