package task

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/internal/wake"
)

// ErrOutOfTouch is the cause that ends the context of a task whose worker has
// lost touch with the queue for so long that another may have the task.
var ErrOutOfTouch = errors.New("worker is out of touch with the queue")

// How long a run may go on without an answer from the queue. Another worker
// takes the task over once this one has not listened for [bus.AckWait], or has
// listened and not answered for [bus.AckWait] + askWait: see [Service.gone].
// What is left of that is for the end of the work.
const (
	askWait    = 2 * time.Second
	untouched  = 500 * time.Millisecond
	touchAlone = bus.AckWait - untouched
	touchWait  = bus.AckWait + askWait - untouched
)

// touch is when a run was known to be held by this worker.
type touch struct {
	mu sync.Mutex
	at time.Time
}

func (t *touch) renew(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = at
}

func (t *touch) since() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return time.Since(t.at)
}

// renew tells the queue that the run goes on.
func (r *taskRun) renew(ctx context.Context) {
	began := time.Now()
	if r.wake == nil { // it has not come yet: the history says as well whose the task is
		r.look(ctx)
		return
	}
	if r.wake.Extend(ctx) == nil {
		r.touch.renew(began)
	}
}

// fence ends the work before another worker can have started it: two processes of one monitor never run. It
// ends with the run. Closures need none, as no other node can run them.
func (r *taskRun) fence(ended <-chan struct{}) {
	tick := time.NewTicker(untouched / 4)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		quiet := r.touch.since()
		if quiet > touchWait || quiet > touchAlone && !r.t.cfg.Bus.Conn().IsConnected() {
			r.cancel(ErrOutOfTouch)
			return
		}
	}
}

// gone reports whether the worker of a task does not run it any more, and has
// ended its work by itself if it still lives: a worker that does not listen
// does so after touchAlone, one that does not answer after touchWait. Where it
// answers, it holds the wake from now on.
func (t *Service) gone(ctx context.Context, worker events.WorkerID, w *bus.Wake, q wake.Question) (bool, error) {
	if worker == t.cfg.ID {
		return !t.cfg.Peers.Ask(ctx, worker, q), nil
	}
	began, deaf := time.Now(), time.Now() // deaf: since when it does not listen
	for {
		switch answer, known := t.cfg.Peers.Reply(ctx, worker, q); {
		case known:
			return !answer, nil
		case !t.cfg.Bus.WorkerGone(ctx, worker):
			deaf = time.Now()
		}
		if time.Since(deaf) > bus.AckWait || time.Since(began) > bus.AckWait+askWait {
			return true, nil
		}
		_ = w.Progress()
		if !bus.Sleep(ctx, wake.WatchEvery) {
			return false, context.Cause(ctx)
		}
	}
}
