package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/wake"
)

// taskRun is a task that runs here. Only its supervisor uses the fields without a lock.
type taskRun struct {
	t         *Service
	local     bool // a closure of this process
	args      []byte
	createdAt events.Millis
	// restartable: if this run stops, another worker may run the task.
	restartable bool
	class       bus.Class
	// isMonitor: the work is the process of a monitor.
	isMonitor bool
	work      func(context.Context) taskEnd
	ctx       context.Context //nolint:containedctx // context of the work; cancel ends it with a cause
	cancel    context.CancelCauseFunc

	contact  lastContact
	wakes    chan *bus.Wake // wakes that arrived while it runs
	notified chan struct{}

	// The supervisor changes both under the service's lock.
	session events.SessionID
	claim   task.Claim
	waiting int // waits for turns, under the service's lock: it holds no place meanwhile, as such a turn may need one

	wake      *bus.Wake // the run's wake; nil before the first
	over      bool      // the history needs nothing of the task any more
	cancelled bool      // the task was cancelled
	unlisten  func()
}

// taskEnd is the result of the work.
type taskEnd struct {
	recorded bool // the work has recorded its end itself
	summary  string
	err      error
}

func (t *Service) newRun(id events.SessionID, rec *projector.Task, local bool) *taskRun {
	r := &taskRun{
		t: t, local: local, args: rec.Args, createdAt: rec.CreatedAt, restartable: rec.Restart == events.RestartAlways,
		class: hint.TaskKey(id, rec).Class, session: id, claim: task.ClaimOf(rec), wakes: make(chan *bus.Wake, 4), notified: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(session.WithWaiting(tracing.Continue(t.life, rec.Trace), func() func() {
		r.addWaiting(1)
		return func() { r.addWaiting(-1) }
	}))
	return r
}

func (r *taskRun) addWaiting(n int) {
	r.t.mu.Lock()
	defer r.t.mu.Unlock()
	r.waiting += n
	r.t.freeOneLocked(r.class)
}

// launch starts the supervisor.
func (t *Service) launch(r *taskRun) {
	t.mu.Lock()
	if t.stopping {
		r.cancel(wake.ErrStopped)
	}
	t.runs[taskKey{r.session, r.claim.Task}] = r
	t.mu.Unlock()
	t.busy.Add(1)
	t.jobs.Go(func() {
		defer t.busy.Done()
		r.supervise()
		t.mu.Lock()
		defer t.mu.Unlock()
		r.unlistLocked()
		t.freeOneLocked(r.class)
	})
}

// plain recovers a panic of a task's function.
func (r *taskRun) plain(work Func) func(context.Context) taskEnd {
	return func(ctx context.Context) (end taskEnd) {
		defer func() {
			if p := recover(); p != nil {
				end = taskEnd{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		summary, err := work(ctx, &Running{r})
		return taskEnd{summary: summary, err: err}
	}
}

// supervise keeps the wake alive, follows the history and records the end.
func (r *taskRun) supervise() {
	defer r.cancel(nil)
	ended := make(chan taskEnd, 1)
	returned := make(chan struct{})
	r.t.jobs.Go(func() { defer close(returned); ended <- r.work(r.ctx) })
	if !r.local {
		r.contact.renew(time.Now())
		r.t.jobs.Go(func() { r.fence(returned) })
	}
	r.listen()
	defer func() { r.unlisten() }()
	ctx := context.WithoutCancel(r.ctx) // the history is followed until the work has returned
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	for ticks := 1; ; {
		select {
		case end := <-ended:
			r.finish(ctx, end)
			return
		case w := <-r.wakes:
			r.storeWake(w)
		case <-r.notified:
			r.compare(ctx)
		case <-progress.C:
			r.renew(ctx)
			if ticks++; ticks%3 == 0 {
				r.compare(ctx) // a notification may have been lost
			}
		case <-r.t.life.Done():
			select { // Stop abandons a task that ignores its context, and its supervisor
			case end := <-ended:
				r.finish(ctx, end)
			case <-time.After(wake.StopWait):
			}
			return
		}
	}
}

// listen notifies the run, from now on, when the session's tasks change. The run handles each change among other events
// until its work returns, so it does not use a waiter, which waits for one condition.
func (r *taskRun) listen() {
	stop, err := r.t.cfg.Bus.OnCommit(r.session, func(m bus.LiveMessage) {
		if m.AboutTasks {
			r.notify()
		}
	})
	if err != nil { // the ticks read the history too
		r.t.log.Warn("listen for tasks", zap.Error(err))
		stop = func() {}
	}
	r.unlisten = stop
	r.notify() // for changes before the subscription
}

func (r *taskRun) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // already notified
	}
}

// offer passes a wake to the run. If earlier ones are still unread, those suffice.
func (r *taskRun) offer(w *bus.Wake) {
	select {
	case r.wakes <- w:
	default:
	}
}

// storeWake stores a wake. A wake that arrives after the run's end returns to the queue for a new look: it may be of
// another task with the same id, which must not begin before the work of this one has returned.
func (r *taskRun) storeWake(w *bus.Wake) {
	if r.over {
		_ = w.Nak(handleAgainWait)
		return
	}
	r.wake = w
	r.contact.renew(time.Now()) // the wake was delivered, or extended, a moment ago
}

// ackWake acks the wake: the task needs nothing.
func (r *taskRun) ackWake() {
	r.over = true
	if r.wake != nil {
		_ = r.wake.Ack()
		r.wake = nil
	}
}

// returnWake returns the wake to the queue: the id now has another registration.
func (r *taskRun) returnWake() {
	r.over = true
	if r.wake != nil {
		_ = r.wake.Nak(0)
		r.wake = nil
	}
}

// compare compares the run with the history.
func (r *taskRun) compare(ctx context.Context) {
	if r.over {
		return
	}
	once, cancel := context.WithTimeout(ctx, wake.StopWait)
	defer cancel()
	began := time.Now()
	rec, err := r.t.cfg.Worker.Host.Task(once, r.session, r.claim.Task)
	if err == nil && r.wake == nil {
		r.contact.renew(began)
	}
	switch {
	case errors.Is(err, api.ErrUnknownTask):
		r.ackWake() // unregistered: the work continues, its result is dropped
	case errors.Is(err, events.ErrNoSession):
		r.ackWake() // erased
		r.cancel(ErrTaskCancelled)
	case err != nil:
		r.t.log.Debug("look at task", zap.Error(err))
	default:
		r.follow(once, rec)
	}
}

// follow does what a change of the task's record asks for.
func (r *taskRun) follow(ctx context.Context, rec projector.Task) {
	switch r.claim.OnChange(&rec, r.createdAt) {
	case task.StepFollow:
		r.move(ctx, rec.To)
	case task.StepReturn:
		r.returnWake()
	case task.StepLeave: // this worker has the wake of the moving task
		if err := r.t.cfg.Worker.Leave(ctx, r.session, rec); err != nil {
			r.t.log.Warn("task of a closed session", zap.Error(err)) // the next tick retries
			return
		}
		r.notify()
	case task.StepDone:
		r.ackWake()
		r.cancel(ErrTaskCancelled)
	case task.StepYield:
		r.leaveToOwner()
	case task.StepCancel:
		r.cancelled = true
		r.cancel(ErrTaskCancelled)
	default: // it goes on
	}
}

// leaveToOwner leaves the task to the worker that has claimed it and owns its wake.
func (r *taskRun) leaveToOwner() {
	r.over, r.wake = true, nil
	r.t.mu.Lock()
	r.unlistLocked()
	r.t.mu.Unlock()
	r.cancel(wake.ErrSuperseded)
}

// unlistLocked removes the run from those that receive wakes, and for which the worker responds.
func (r *taskRun) unlistLocked() {
	if key := (taskKey{r.session, r.claim.Task}); r.t.runs[key] == r {
		delete(r.t.runs, key)
	}
}

// move follows the task to another session. The wake of that session's task arrives separately, possibly before: the
// worker that received it asks whether the task runs here.
func (r *taskRun) move(ctx context.Context, to events.SessionID) {
	rec, err := r.t.cfg.Worker.Host.Task(ctx, to, r.claim.Task)
	switch {
	case errors.Is(err, events.ErrNoSession):
		r.ackWake() // erased
		r.cancel(ErrTaskCancelled)
		return
	case errors.Is(err, api.ErrUnknownTask), err == nil && rec.CreatedAt != r.createdAt:
		r.ackWake()
		return
	case err != nil:
		r.t.log.Debug("follow task", zap.Error(err)) // the next tick retries
		return
	}
	r.unlisten()
	if r.wake != nil && r.wake.Session == r.session {
		_ = r.wake.Ack()
		r.wake = nil
	}
	r.t.mu.Lock()
	r.unlistLocked()
	r.session, r.claim.Seq = to, rec.Seq
	r.t.runs[taskKey{to, r.claim.Task}] = r
	r.t.mu.Unlock()
	r.listen()
}

// recordWait limits the time to record an end while the worker stops.
const recordWait = 2 * time.Second

// finish records the result of the work.
func (r *taskRun) finish(ctx context.Context, end taskEnd) {
	gone := "" // why the worker ended the work; empty if the work ended by itself
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, wake.ErrStopped):
		gone = "stopped"
	case errors.Is(cause, ErrQueueUnreachable):
		gone = "was out of touch"
	}
	for !r.over && !end.recorded {
		if gone != "" && r.restartable {
			r.release(ctx)
			return
		}
		once, cancel := context.WithTimeout(ctx, recordWait)
		err := r.record(once, end, gone)
		cancel()
		switch {
		case err == nil:
			end.recorded = true
		case errors.Is(err, api.ErrTaskTaken):
			seq, where := r.claim.Seq, r.session
			r.compare(ctx)
			if !r.over && r.claim.Seq == seq && r.session == where {
				r.giveBack() // reading the history failed
				return
			}
		case errors.Is(err, events.ErrNoSession):
			r.ackWake()
		default:
			r.t.log.Warn("record the end of a task", zap.Error(err))
			if !delay.Sleep(r.t.life, 200*time.Millisecond) {
				r.giveBack()
				return
			}
		}
	}
	if !r.over {
		r.ackWake()
	}
}

func (r *taskRun) giveBack() {
	if r.wake != nil {
		_ = r.wake.Nak(0)
	}
}

// release leaves the task to the next worker. The history says that this attempt stopped in order, so it does not
// count as a failed one.
func (r *taskRun) release(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	if err := r.t.cfg.Worker.TransitionClaimedTask(once, r.session, r.claim, events.TaskWaiting); err != nil {
		r.t.log.Debug("release task", zap.Error(err)) // this attempt then counts as a failed one
	}
	r.giveBack()
}

func (r *taskRun) record(ctx context.Context, end taskEnd, gone string) error {
	h := r.t.cfg.Worker
	switch {
	case end.err == nil:
		return h.EndClaimedTask(ctx, r.session, r.claim, events.TaskCompleted, end.summary)
	case r.class == bus.ClassTool:
		if err := r.t.resolve(ctx, r.session, r.args, r.unreturned(end.err, gone)); err != nil {
			return err
		}
	}
	switch {
	case gone != "":
		return h.AbandonTask(ctx, r.session, r.claim, fmt.Sprintf("abandoned: worker %s %s", r.claim.Worker, gone))
	case r.cancelled:
		return h.EndClaimedTask(ctx, r.session, r.claim, events.TaskCancelled, end.err.Error())
	}
	return h.EndClaimedTask(ctx, r.session, r.claim, events.TaskFailed, end.err.Error())
}
