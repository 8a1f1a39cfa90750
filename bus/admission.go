package bus

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Limits of the requests that wait for capacity.
const (
	waitsAtMost     = time.Second // one request
	waitingPerSlot  = 4           // requests, for each that may run
	waitingUsers    = 4           // one user has at most this part of them
	maxWaitingBytes = 32 << 20    // of all of them
)

// Errors of a request that does not run.
var (
	errBusy    = errors.New("the service is at its limit of requests")
	errStopped = errors.New("the service has stopped")
)

// admission bounds the requests that run at once, and those that wait for that.
type admission struct {
	running chan struct{} // one element for each request that runs

	mu      sync.Mutex
	waiting map[string]load // by user
	total   load
}

// load is what waits, or a part of it.
type load struct{ requests, bytes int }

func (l load) plus(requests, bytes int) load { return load{l.requests + requests, l.bytes + bytes} }

func newAdmission(n int) *admission {
	return &admission{running: make(chan struct{}, n), waiting: make(map[string]load)}
}

// acquire waits until a request may run; then release ends it. Errors: errBusy after [waitsAtMost], or where too many
// wait; errStopped when stopped is closed; errNotListening if the request's client has gone.
func (a *admission) acquire(ctx context.Context, stopped <-chan struct{}, user string, size int) (release func(), err error) {
	if errors.Is(context.Cause(ctx), errNotListening) {
		return nil, errNotListening
	}
	if a.begin() {
		return a.end, nil
	}
	if !a.enter(user, size) {
		return nil, errBusy
	}
	defer a.leave(user, size)
	clientGone := make(chan struct{})
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errNotListening) {
			close(clientGone)
		}
	})()
	longest := time.NewTimer(waitsAtMost)
	defer longest.Stop()
	select {
	case <-stopped:
		return nil, errStopped
	case <-clientGone:
		return nil, errNotListening
	case <-longest.C:
		return nil, errBusy
	case a.running <- struct{}{}:
	}
	if errors.Is(context.Cause(ctx), errNotListening) {
		a.end()
		return nil, errNotListening
	}
	return a.end, nil
}

// begin takes free capacity, if there is any.
func (a *admission) begin() bool {
	select {
	case a.running <- struct{}{}:
		return true
	default:
		return false
	}
}

func (a *admission) end() { <-a.running }

// enter adds a request to those that wait. It returns false where these have reached a limit. Users of the nodes' own account,
// who have no name, share one part.
func (a *admission) enter(user string, size int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	all, own := a.total.plus(1, size), a.waiting[user].plus(1, size)
	most := waitingPerSlot * cap(a.running)
	if all.requests > most || own.requests > max(most/waitingUsers, 1) || all.bytes > maxWaitingBytes || own.bytes > maxWaitingBytes/waitingUsers {
		return false
	}
	a.waiting[user], a.total = own, all
	return true
}

func (a *admission) leave(user string, size int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.total = a.total.plus(-1, -size)
	if a.waiting[user] = a.waiting[user].plus(-1, -size); a.waiting[user].requests == 0 {
		delete(a.waiting, user)
	}
}
