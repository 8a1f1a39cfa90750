package reader

import (
	"context"
	"runtime"
	"sync"

	"github.com/lash-go/lash/session/api"
)

// searchesAtOnce is the number of searches that a process runs at a time. Each uses all processors.
func searchesAtOnce() int { return max(2, runtime.GOMAXPROCS(0)/2) }

// searches are the searches that run, and those that wait. Those of one caller run one after the other, so that a caller with many of them
// delays another caller's by at most one.
type searches struct {
	running chan struct{} // one for each that runs

	mu      sync.Mutex
	callers map[string]*callerSearches
}

// callerSearches are the searches of a caller.
type callerSearches struct {
	turn chan struct{} // has one while one runs, or waits for other callers
	all  int
}

func newSearches() *searches {
	return &searches{running: make(chan struct{}, searchesAtOnce()), callers: make(map[string]*callerSearches)}
}

// enter waits until a search may run. leave ends it. The error is the cause of a cancelled ctx.
func (s *searches) enter(ctx context.Context) (leave func(), err error) {
	caller, ok := api.CallerOf(ctx)
	if !ok { // the process itself
		return acquire(ctx, s.running)
	}
	own := s.of(caller.Name, 1)
	next, err := acquire(ctx, own.turn)
	if err != nil {
		s.of(caller.Name, -1)
		return nil, err
	}
	end, err := acquire(ctx, s.running)
	if err != nil {
		next()
		s.of(caller.Name, -1)
		return nil, err
	}
	return func() {
		end()
		next()
		s.of(caller.Name, -1)
	}, nil
}

// of adds a number of searches to those of a caller.
func (s *searches) of(name string, n int) *callerSearches {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.callers[name]
	if own == nil {
		own = &callerSearches{turn: make(chan struct{}, 1)}
		s.callers[name] = own
	}
	if own.all += n; own.all == 0 {
		delete(s.callers, name)
	}
	return own
}

func acquire(ctx context.Context, slots chan struct{}) (release func(), err error) {
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
