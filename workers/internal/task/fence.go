package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/wake"
)

// ErrQueueUnreachable cancels a task whose worker could not reach the queue for so long that another worker may have
// the task.
var ErrQueueUnreachable = errors.New("worker cannot reach the queue")

// Limits of a run without a response from the queue. Another worker takes the task over when this one had no
// subscription for [bus.AckWait], or when it had one and did not respond for [bus.AckWait] + [peerWait]: see
// [Service.gone]. The work ends by itself before that.
const (
	peerWait        = 2 * time.Second
	fenceMargin     = 500 * time.Millisecond
	maxDisconnected = bus.AckWait - fenceMargin
	maxUnanswered   = bus.AckWait + peerWait - fenceMargin
)

// lastContact is the time at which this worker last knew that it has the task.
type lastContact struct {
	mu sync.Mutex
	at time.Time
}

func (t *lastContact) renew(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = at
}

// within reports whether the last contact is less than limit before at.
func (t *lastContact) within(at time.Time, limit time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return at.Sub(t.at) < limit
}

func (t *lastContact) since() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.at)
}

// renew reports the run's progress to the queue.
func (r *taskRun) renew(ctx context.Context) {
	began := time.Now()
	if r.wake == nil { // the wake has not arrived yet: the history shows the owner as well
		r.compare(ctx)
		return
	}
	kept := r.contact.within(began, bus.AckWait)
	if r.wake.Extend(ctx) == nil && kept {
		r.contact.renew(began)
	}
}

// fence cancels the work before another worker can start it, so that two processes of one monitor never run. It ends
// with the run. Closures need no fence: no other node can run them.
func (r *taskRun) fence(ended <-chan struct{}) {
	tick := time.NewTicker(fenceMargin / 4)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		quiet := r.contact.since()
		if quiet > maxUnanswered || quiet > maxDisconnected && !r.t.cfg.Bus.Connected() {
			r.cancel(ErrQueueUnreachable)
			return
		}
	}
}

// gone reports whether the worker of a task no longer runs it. A worker that lives ends its work by itself: after
// [maxDisconnected] without a connection, after [maxUnanswered] without an answer of the queue. After the response yes,
// that worker owns the wake.
func (t *Service) gone(ctx context.Context, worker events.WorkerID, w *bus.Wake, q wake.PeerRequest) (bool, error) {
	if worker == t.cfg.ID {
		return !t.cfg.Peers.Request(ctx, worker, q), nil
	}
	began, unsubscribed := time.Now(), time.Now() // unsubscribed: since when it has no subscription
	for {
		switch response, known := t.cfg.Peers.RequestReply(ctx, worker, q); {
		case known:
			return !response, nil
		case !t.cfg.Bus.WorkerGone(ctx, worker):
			unsubscribed = time.Now()
		}
		if time.Since(unsubscribed) > bus.AckWait || time.Since(began) > bus.AckWait+peerWait {
			return true, nil
		}
		_ = w.Progress()
		if !delay.Sleep(ctx, wake.WatchEvery) {
			return false, context.Cause(ctx)
		}
	}
}
