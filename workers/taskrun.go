package workers

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/task"
)

// taskRun is one task that runs here. Its supervisor owns what has no lock.
type taskRun struct {
	t     *Tasks
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

	touch touch
	jobs  chan *bus.Job // deliveries of its job
	poked chan struct{}

	// Both are changed by the supervisor under the service's lock.
	session events.SessionID
	claim   task.Claim

	job   *bus.Job // nil until it was delivered
	over  bool     // the history owes it nothing any more
	lost  bool     // another worker has the task: over, and the job is that one's
	asked bool     // to stop by itself
	unear func()
}

// taskEnd is what the work came to.
type taskEnd struct {
	recorded bool // the work has recorded its end itself
	summary  string
	err      error
}

func (t *Tasks) newRun(id events.SessionID, rec *projector.Task, local bool) *taskRun {
	r := &taskRun{
		t: t, local: local, args: rec.Args, made: rec.CreatedAt, again: rec.Restart == events.RestartAlways,
		class: session.TaskClass(rec), session: id, claim: task.ClaimOf(rec), jobs: make(chan *bus.Job, 4), poked: make(chan struct{}, 1),
	}
	r.ctx, r.cancel = context.WithCancelCause(t.life)
	return r
}

// launch starts the supervisor.
func (t *Tasks) launch(r *taskRun) {
	t.mu.Lock()
	if t.stopping {
		r.cancel(ErrStopped)
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
func (r *taskRun) plain(work TaskFunc) func(context.Context) taskEnd {
	return func(ctx context.Context) (end taskEnd) {
		defer func() {
			if p := recover(); p != nil {
				end = taskEnd{err: fmt.Errorf("panic: %v", p)}
			}
		}()
		summary, err := work(ctx, &RunningTask{r})
		return taskEnd{summary: summary, err: err}
	}
}

// supervise holds the job, watches the history and records the end.
func (r *taskRun) supervise() {
	defer r.cancel(nil)
	ended := make(chan taskEnd, 1)
	returned := make(chan struct{})
	r.t.jobs.Go(func() { defer close(returned); ended <- r.work(r.ctx) })
	if !r.local {
		r.touch.renew(time.Now())
		r.t.jobs.Go(func() { r.fence(returned) })
	}
	r.hear()
	defer func() { r.unear() }()
	ctx := context.WithoutCancel(r.ctx) // the history is watched until the work has returned
	progress := time.NewTicker(bus.AckWait / 3)
	defer progress.Stop()
	for ticks := 1; ; {
		select {
		case end := <-ended:
			r.finish(ctx, end)
			return
		case j := <-r.jobs:
			r.hold(j)
		case <-r.poked:
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
			case <-time.After(killWait):
			}
			return
		}
	}
}

// hear pokes the run when the session's tasks change, from now on.
func (r *taskRun) hear() {
	stop, err := r.t.cfg.Bus.Hear(r.session, func(m bus.LiveMessage) {
		if m.Work {
			r.poke()
		}
	})
	if err != nil { // the ticks look too
		r.t.log.Warn("listen for tasks", zap.Error(err))
		stop = func() {}
	}
	r.unear = stop
	r.poke() // what came before
}

func (r *taskRun) poke() {
	select {
	case r.poked <- struct{}{}:
	default: // a look is due already
	}
}

// hold takes a delivery of the job. One that the history does not owe is
// acked; one that another worker's run owes is for whoever looks at it anew.
func (r *taskRun) hold(j *bus.Job) {
	switch {
	case r.lost:
		_ = j.GiveBack(0)
		return
	case r.over:
		_ = j.Ack()
		return
	}
	if r.job != nil {
		j.Tries = r.job.Tries
	}
	r.job = j
}

// settle acks the job: nothing is owed any more.
func (r *taskRun) settle() {
	r.over = true
	if r.job != nil {
		_ = r.job.Ack()
		r.job = nil
	}
}

// look compares the run with the history.
func (r *taskRun) look(ctx context.Context) {
	if r.over {
		return
	}
	once, cancel := context.WithTimeout(ctx, killWait)
	defer cancel()
	began := time.Now()
	rec, err := r.t.h.Task(once, r.session, r.claim.Task)
	if err == nil && r.job == nil {
		r.touch.renew(began)
	}
	switch {
	case errors.Is(err, session.ErrUnknownTask):
		r.settle() // unregistered: it goes on, unheard
	case errors.Is(err, events.ErrNoSession):
		r.settle() // erased
		r.cancel(ErrTaskCancelled)
	case err != nil:
		r.t.log.Debug("look at task", zap.Error(err))
	case rec.To != "" && rec.CreatedAt == r.made:
		r.move(once, rec.To)
	case rec.Seq != r.claim.Seq:
		r.settle()
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

// lose leaves the task to the worker that has it now, and that holds a newer
// delivery of the job. Should the job come here again, it is not for this run.
func (r *taskRun) lose() {
	r.over, r.lost, r.job = true, true, nil
	r.t.mu.Lock()
	r.unlistLocked()
	r.t.mu.Unlock()
	r.cancel(ErrSuperseded)
}

// unlistLocked takes the run out of those that the worker answers for, and that get deliveries.
func (r *taskRun) unlistLocked() {
	if key := (taskKey{r.session, r.claim.Task}); r.t.runs[key] == r {
		delete(r.t.runs, key)
	}
}

// move follows the task to another session. Its job there comes by itself.
func (r *taskRun) move(ctx context.Context, to events.SessionID) {
	rec, err := r.t.h.Task(ctx, to, r.claim.Task)
	if err != nil || rec.CreatedAt != r.made {
		r.settle()
		return
	}
	r.unear()
	if r.job != nil {
		_ = r.job.Ack()
		r.job = nil
	}
	r.t.mu.Lock()
	r.unlistLocked()
	r.session, r.claim.Seq = to, rec.Seq
	r.t.runs[taskKey{to, r.claim.Task}] = r
	r.t.mu.Unlock()
	r.hear()
}

// recordWait bounds the recording of an end while the worker stops.
const recordWait = 2 * time.Second

// finish records what the work came to.
func (r *taskRun) finish(ctx context.Context, end taskEnd) {
	gone := "" // what became of the worker, where the task did not end by itself
	switch cause := context.Cause(r.ctx); {
	case errors.Is(cause, ErrStopped):
		gone = "stopped"
	case errors.Is(cause, ErrOutOfTouch):
		gone = "was out of touch"
	}
	for !r.over && !end.recorded {
		if gone != "" && r.again {
			r.giveBack()
			return
		}
		once, cancel := context.WithTimeout(ctx, recordWait)
		err := r.record(once, end, gone)
		cancel()
		switch {
		case err == nil:
			end.recorded = true
		case errors.Is(err, session.ErrTaskTaken):
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
	if r.job != nil {
		r.t.tries.excuse(r.t.life, r.job)
		_ = r.job.GiveBack(0)
	}
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
