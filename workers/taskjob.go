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

// verdict is what becomes of a job that was looked at.
type verdict int

const (
	jobDone  verdict = iota // nothing is owed: ack
	jobHeld                 // a run holds it
	jobLater                // another worker has the task, or its runner
	jobSoon                 // the session moved: look again
)

// taskLater is how long a job waits that another worker is to have.
const taskLater = 2 * time.Second

// handle looks at one job.
func (t *Tasks) handle(ctx context.Context, j *bus.Job) {
	log := t.log.With(zap.String("session", string(j.Session)), zap.String("task", j.ID))
	cmd, err := session.DecodeTaskJob(j.Body)
	if err != nil {
		t.tries.giveUp(ctx, j, bus.DeadUnread, err, t.bury)
		return
	}
	v, err := t.take(ctx, j, cmd)
	var soon soonError
	switch {
	case errors.Is(err, session.ErrUnknownTask):
		_ = j.Ack()
	case errors.Is(err, events.ErrNoSession):
		t.tries.giveUp(ctx, j, bus.DeadNoSession, err, t.bury)
	case errors.Is(err, errPoisoned):
		t.tries.giveUp(ctx, j, bus.DeadPoisoned, err, t.bury)
	case errors.As(err, &soon):
		_ = j.GiveBack(time.Duration(soon))
	case errors.Is(err, session.ErrTaskTaken):
		t.spare(ctx, j, 100*time.Millisecond)
	case err != nil && (ctx.Err() != nil || errors.Is(err, events.ErrOutcomeUnknown)):
		t.spare(ctx, j, time.Second)
	case err != nil:
		log.Warn("take task", zap.Error(err))
		t.tries.fail(ctx, j, err, t.bury)
	case v == jobDone:
		_ = j.Ack()
	case v == jobLater:
		_ = j.GiveBack(taskLater)
	case v == jobSoon:
		_ = j.GiveBack(100 * time.Millisecond)
	}
}

// spare gives a job back that could not be tried.
func (t *Tasks) spare(ctx context.Context, j *bus.Job, wait time.Duration) {
	t.tries.excuse(ctx, j)
	_ = j.GiveBack(wait)
}

// take decides what to do about a job on the newest state.
func (t *Tasks) take(ctx context.Context, j *bus.Job, cmd session.TaskJob) (verdict, error) {
	if t.adopt(j, cmd) {
		return jobHeld, nil
	}
	rec, err := t.h.Task(ctx, j.Session, cmd.Task)
	if err != nil {
		return jobDone, err
	}
	if rec.Seq == cmd.Seq && rec.Live() && rec.From != "" {
		if rec, err = t.arrived(ctx, j.Session, rec); err != nil {
			return jobSoon, err
		}
	}
	if err := t.wakePending(ctx, j.Session, &rec); err != nil {
		return jobSoon, err
	}
	switch {
	case rec.Seq == cmd.Seq && !rec.Live() && session.TaskClass(&rec) == bus.ClassTool:
		return jobDone, t.resolveEnded(ctx, j.Session, rec.ID)
	case rec.Seq != cmd.Seq || !rec.Live(), rec.Runner == "" && rec.Worker == "":
		return jobDone, nil
	case rec.Attempt == 0 && rec.Runner != "":
		return t.begin(ctx, j, &rec)
	}
	alive, err := t.alive(ctx, rec.Worker, taskQuestion{Session: j.Session, Task: rec.ID, Created: rec.CreatedAt, Moved: rec.From != ""})
	switch {
	case err != nil:
		return jobSoon, err
	case alive && rec.Worker == t.cfg.ID:
		return jobSoon, nil // it is about to be here under this name
	case alive:
		return jobLater, nil
	}
	return t.takeOver(ctx, j, &rec)
}

// arrived finishes a transfer whose caller died after the target knew of the task.
func (t *Tasks) arrived(ctx context.Context, id events.SessionID, rec projector.Task) (projector.Task, error) {
	there, err := t.h.Task(ctx, rec.From, rec.ID)
	switch {
	case errors.Is(err, session.ErrUnknownTask), errors.Is(err, events.ErrNoSession):
		return rec, nil
	case err != nil:
		return rec, err
	case there.To != "" || there.CreatedAt != rec.CreatedAt:
		return rec, nil
	}
	if err := t.h.TransferHandles(ctx, rec.From, id, []events.TaskID{rec.ID}); err != nil {
		return rec, err
	}
	return t.h.Task(ctx, id, rec.ID)
}

// takeOver is for a task whose worker is gone: it runs again, or ends with the evidence.
func (t *Tasks) takeOver(ctx context.Context, j *bus.Job, rec *projector.Task) (verdict, error) {
	if rec.State == events.TaskCancelling {
		if session.TaskClass(rec) == bus.ClassTool {
			if err := t.resolve(ctx, j.Session, rec.Args, cancelledCall()); err != nil {
				return jobSoon, err
			}
		}
		return jobDone, t.h.CancelTaskAs(ctx, j.Session, task.ClaimOf(rec))
	}
	if rec.Restart == events.RestartAlways && rec.Runner != "" {
		return t.begin(ctx, j, rec)
	}
	if err := t.lose(ctx, j.Session, session.TaskClass(rec), rec.Args); err != nil {
		return jobSoon, err
	}
	why := fmt.Sprintf("abandoned: worker %s is gone", rec.Worker)
	t.log.Warn("task abandoned", zap.String("session", string(j.Session)), zap.String("task", string(rec.ID)), zap.String("by", string(rec.Worker)))
	return jobDone, t.h.AbandonTask(ctx, j.Session, task.ClaimOf(rec), why)
}

// begin claims a task and runs it.
func (t *Tasks) begin(ctx context.Context, j *bus.Job, rec *projector.Task) (verdict, error) {
	work := t.cfg.Runners[rec.Runner]
	if session.TaskClass(rec) == bus.ClassTool {
		work = t.cfg.call
	}
	if work == nil && (rec.Runner != task.MonitorRunner || rec.Of != events.TaskMonitor) {
		return jobLater, nil
	}
	key := taskKey{j.Session, rec.ID}
	if !t.reserve(key, session.TaskClass(rec)) {
		return jobLater, nil
	}
	defer t.unreserve(key)
	if rec.Attempt > 0 {
		if err := t.tries.begin(ctx, j); err != nil {
			return jobSoon, err
		}
	}
	claimed, err := t.h.ClaimTask(ctx, j.Session, task.ClaimOf(rec), t.cfg.ID)
	if err != nil {
		return jobSoon, err
	}
	r := t.newRun(j.Session, &claimed, false)
	r.job = j
	if rec.Of == events.TaskMonitor && rec.Runner == task.MonitorRunner {
		r.work, r.monitors = r.monitor, true
	} else {
		r.work = r.plain(work)
	}
	t.launch(r)
	return jobHeld, nil
}

// reserve says that a task is about to run here, so that the worker answers for it.
func (t *Tasks) reserve(key taskKey, class bus.Class) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping || t.freeLocked(class) == 0 {
		return false
	}
	t.spawning[key]++
	t.busy.Add(1) // until unreserve, so that what is launched meanwhile is waited for
	t.jobs.Add(1)
	return true
}

func (t *Tasks) unreserve(key taskKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spawning[key]--; t.spawning[key] == 0 {
		delete(t.spawning, key)
	}
	t.busy.Done()
	t.jobs.Done()
}

// adopt hands a job to the run that it is of.
func (t *Tasks) adopt(j *bus.Job, cmd session.TaskJob) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[taskKey{j.Session, cmd.Task}]
	if r == nil || r.claim.Seq != cmd.Seq {
		return false
	}
	select {
	case r.jobs <- j:
		return true
	default:
		return false
	}
}

// wakePending enqueues the wake of a monitor's line. Its worker may have died
// between the line's commit and that; once more is harmless.
func (t *Tasks) wakePending(ctx context.Context, id events.SessionID, rec *projector.Task) error {
	if rec.Of != events.TaskMonitor {
		return nil
	}
	name, ok := events.MonitorOf(rec.ID)
	if !ok {
		return nil
	}
	s, err := t.h.State(ctx, id)
	if err != nil {
		return err
	}
	if m, ok := s.Monitor(name); ok && m.Wake != "" {
		_, err = t.h.Wake(ctx, id, string(m.Wake))
	}
	return err
}
