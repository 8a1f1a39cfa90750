package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/wake"
)

// taskRun is one task that runs here. Its supervisor owns what has no lock.
type taskRun struct {
	t     *Service
	local bool // a closure of this process
	args  []byte
	made  events.Millis
	// again says that another worker may run it after this one.
	again bool
	class bus.Class
	// monitors says that it runs a monitor's process.
	monitors bool
	work     func(context.Context) taskEnd
	ctx      context.Context //nolint:containedctx // of the work; cancel ends it with a cause
	cancel   context.CancelCauseFunc

	touch    touch
	wakes    chan *bus.Wake // that came while it runs
	notified chan struct{}

	// Both are changed by the supervisor under the service's lock.
	session events.SessionID
	claim   task.Claim

	wake     *bus.Wake // that it holds; nil until one came
	over     bool      // the history owes it nothing any more
	asked    bool      // to stop by itself
	unlisten func()
}

// taskEnd is the outcome of the work.
type taskEnd struct {
	recorded bool // the work has recorded its end itself
	summary  string
	err      error
}

func (t *Service) newRun(id events.SessionID, rec *projector.Task, local bool) *taskRun {
	r := &taskRun{
		t: t, local: local, args: rec.Args, made: rec.CreatedAt, again: rec.Restart == events.RestartAlways,
		class: hint.TaskKey(id, rec).Class, session: id, claim: task.ClaimOf(rec), wakes: make(chan *bus.Wake, 4), notified: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(tracing.Continue(t.life, rec.Trace))
	return r
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

// plain contains the panic of a task's function.
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

// supervise holds the wake, watches the history and records the end.
func (r *taskRun) supervise() {
	defer r.cancel(nil)
	ended := make(chan taskEnd, 1)
	returned := make(chan struct{})
	r.t.jobs.Go(func() { defer close(returned); ended <- r.work(r.ctx) })
	if !r.local {
		r.touch.renew(time.Now())
		r.t.jobs.Go(func() { r.fence(returned) })
	}
	r.listen()
	defer func() { r.unlisten() }()
	ctx := context.WithoutCancel(r.ctx) // the history is watched until the work has returned
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	for ticks := 1; ; {
		select {
		case end := <-ended:
			r.finish(ctx, end)
			return
		case w := <-r.wakes:
			r.hold(w)
		case <-r.notified:
			r.look(ctx)
		case <-progress.C:
			r.renew(ctx)
			if ticks++; ticks%3 == 0 {
				r.look(ctx) // a live message may have been lost
			}
		case <-r.t.life.Done():
			select { // a task that ignores its context is given up by Stop; so is its supervisor
			case end := <-ended:
				r.finish(ctx, end)
			case <-time.After(wake.StopWait):
			}
			return
		}
	}
}

// listen makes the run look when the session's tasks change, from now on.
func (r *taskRun) listen() {
	stop, err := r.t.cfg.Bus.OnCommit(r.session, func(m bus.LiveMessage) {
		if m.AboutTasks {
			r.notify()
		}
	})
	if err != nil { // the ticks look too
		r.t.log.Warn("listen for tasks", zap.Error(err))
		stop = func() {}
	}
	r.unlisten = stop
	r.notify() // what came before
}

func (r *taskRun) notify() {
	select {
	case r.notified <- struct{}{}:
	default: // a look is due already
	}
}

// offer gives the run a wake. Where it has not taken earlier ones yet, these do as well.
func (r *taskRun) offer(w *bus.Wake) {
	select {
	case r.wakes <- w:
	default:
	}
}

// hold takes a wake. One that came too late for this run is for the worker that
// looks at it anew: it may be of another task of that id, which is not to begin
// before the work of this one has returned.
func (r *taskRun) hold(w *bus.Wake) {
	if r.over {
		_ = w.Nak(lookAgain)
		return
	}
	r.wake = w
}

// settle acks the wake: nothing is owed any more.
func (r *taskRun) settle() {
	r.over = true
	if r.wake != nil {
		_ = r.wake.Ack()
		r.wake = nil
	}
}

// yield leaves the wake to the worker that looks at it anew: the id stands for another registration.
func (r *taskRun) yield() {
	r.over = true
	if r.wake != nil {
		_ = r.wake.Nak(0)
		r.wake = nil
	}
}

// look compares the run with the history.
func (r *taskRun) look(ctx context.Context) {
	if r.over {
		return
	}
	once, cancel := context.WithTimeout(ctx, wake.StopWait)
	defer cancel()
	began := time.Now()
	rec, err := r.t.h.Task(once, r.session, r.claim.Task)
	if err == nil && r.wake == nil {
		r.touch.renew(began)
	}
	switch {
	case errors.Is(err, task.ErrUnknown):
		r.settle() // unregistered: it goes on, unheard
	case errors.Is(err, events.ErrNoSession):
		r.settle() // erased
		r.cancel(ErrTaskCancelled)
	case err != nil:
		r.t.log.Debug("look at task", zap.Error(err))
	case rec.To != "" && rec.CreatedAt == r.made:
		r.move(once, rec.To)
	case rec.Seq != r.claim.Seq:
		r.yield()
	case rec.LeavePending(): // this worker has its wake, and moves it
		if err := r.t.h.Leave(once, r.session, rec); err != nil {
			r.t.log.Warn("task of a closed session", zap.Error(err)) // the next look tries again
			return
		}
		r.notify()
	case !rec.Live():
		r.settle()
		r.cancel(ErrTaskCancelled)
	case rec.Worker != r.claim.Worker || rec.Attempt != r.claim.Attempt:
		r.lose()
	case rec.State == events.TaskCancelling:
		r.asked = true
		r.cancel(ErrTaskCancelled)
	}
}

// lose leaves the task to the worker that has it now, and that holds its wake.
func (r *taskRun) lose() {
	r.over, r.wake = true, nil
	r.t.mu.Lock()
	r.unlistLocked()
	r.t.mu.Unlock()
	r.cancel(wake.ErrSuperseded)
}

// unlistLocked takes the run out of those that the worker answers for, and that get wakes.
func (r *taskRun) unlistLocked() {
	if key := (taskKey{r.session, r.claim.Task}); r.t.runs[key] == r {
		delete(r.t.runs, key)
	}
}

// move follows the task to another session. Its wake there comes by itself, and
// may have come: a worker that was given it asked whether the task runs here.
func (r *taskRun) move(ctx context.Context, to events.SessionID) {
	rec, err := r.t.h.Task(ctx, to, r.claim.Task)
	switch {
	case errors.Is(err, events.ErrNoSession):
		r.settle() // erased
		r.cancel(ErrTaskCancelled)
		return
	case errors.Is(err, task.ErrUnknown), err == nil && rec.CreatedAt != r.made:
		r.settle()
		return
	case err != nil:
		r.t.log.Debug("follow task", zap.Error(err)) // the next look does
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

// recordWait bounds the recording of an end while the worker stops.
const recordWait = 2 * time.Second

// finish records the outcome of the work.
func (r *taskRun) finish(ctx context.Context, end taskEnd) {
	gone := "" // what became of the worker, where the task did not end by itself
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, wake.ErrStopped):
		gone = "stopped"
	case errors.Is(cause, ErrOutOfTouch):
		gone = "was out of touch"
	}
	for !r.over && !end.recorded {
		if gone != "" && r.again {
			r.release(ctx)
			return
		}
		once, cancel := context.WithTimeout(ctx, recordWait)
		err := r.record(once, end, gone)
		cancel()
		switch {
		case err == nil:
			end.recorded = true
		case errors.Is(err, task.ErrTaken):
			seq, where := r.claim.Seq, r.session
			r.look(ctx)
			if !r.over && r.claim.Seq == seq && r.session == where {
				r.giveBack() // the look failed
				return
			}
		case errors.Is(err, events.ErrNoSession):
			r.settle()
		default:
			r.t.log.Warn("record the end of a task", zap.Error(err))
			if !bus.Sleep(r.t.life, 200*time.Millisecond) {
				r.giveBack()
				return
			}
		}
	}
	if !r.over {
		r.settle()
	}
}

func (r *taskRun) giveBack() {
	if r.wake != nil {
		_ = r.wake.Nak(0)
	}
}

// release leaves the task to the next worker. That this attempt was stopped in
// order is in the history, so that it does not count as a failed one.
func (r *taskRun) release(ctx context.Context) {
	once, cancel := context.WithTimeout(ctx, recordWait)
	defer cancel()
	if err := r.t.h.TransitionTaskAs(once, r.session, r.claim, events.TaskWaiting); err != nil {
		r.t.log.Debug("release task", zap.Error(err)) // the next attempt counts this one
	}
	r.giveBack()
}

func (r *taskRun) record(ctx context.Context, end taskEnd, gone string) error {
	h := r.t.h
	switch {
	case end.err == nil:
		return h.FinishTask(ctx, r.session, r.claim, events.TaskCompleted, end.summary)
	case r.class == bus.ClassTool:
		if err := r.t.resolve(ctx, r.session, r.args, r.unreturned(end.err, gone)); err != nil {
			return err
		}
	}
	switch {
	case gone != "":
		return h.AbandonTask(ctx, r.session, r.claim, fmt.Sprintf("abandoned: worker %s %s", r.claim.Worker, gone))
	case r.asked:
		return h.FinishTask(ctx, r.session, r.claim, events.TaskCancelled, end.err.Error())
	}
	return h.FinishTask(ctx, r.session, r.claim, events.TaskFailed, end.err.Error())
}
