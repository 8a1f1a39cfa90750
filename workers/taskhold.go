package workers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/lash-go/lash/bus"
)

// ErrOutOfTouch is the cause that ends the context of a task whose worker has
// lost touch with the queue for so long that another may have the task.
var ErrOutOfTouch = errors.New("worker is out of touch with the queue")

// What a run may go without word from the queue. Another worker gets the task
// once its job was quiet for [bus.AckWait] and this worker does not answer:
// at once where its connection is gone, after askWait where it only seems to be
// there. What is left of that is for the end of the work.
const (
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
	if r.job == nil { // it comes yet: the history says as well whose the task is
		r.look(ctx)
		return
	}
	if r.job.Hold(ctx) == nil {
		r.touch.renew(began)
	}
}

// fence ends the work before another worker can have begun it: two processes of one monitor never run. It
// ends with the run. Closures need none, as nobody else can run them.
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
