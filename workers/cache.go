package workers

import (
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// stateCache keeps states between turns. A state is in one pair of hands at a
// time; one that is behind its log is found out by the first append.
type stateCache struct {
	limit  int
	mu     sync.Mutex
	states map[events.SessionID]*projector.State
}

func newStateCache(limit int) *stateCache {
	return &stateCache{limit: limit, states: make(map[events.SessionID]*projector.State)}
}

func (c *stateCache) take(id events.SessionID) *projector.State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.states[id]
	delete(c.states, id)
	return s
}

func (c *stateCache) put(s *projector.State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.states { // any one will do
		if len(c.states) < c.limit {
			break
		}
		delete(c.states, id)
	}
	c.states[s.Session] = s
}
