package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/task"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// wakeDecision is the decision on a wake.
type wakeDecision int

const (
	wakeDone  wakeDecision = iota // the task needs nothing: ack
	wakeOwned                     // a run has the wake, here or on another worker
	wakeLater                     // another worker should take the task
	wakeAgain                     // the session changed: handle the wake again
)

const (
	// taskLater is the delay of a wake that another worker should receive.
	taskLater = 2 * time.Second
	// elsewhereWait is the delay of a wake whose tool another node has.
	elsewhereWait = 50 * time.Millisecond
	// unfoldedWait is the delay of a wake whose session this worker cannot fold.
	unfoldedWait = 10 * time.Second
)

// handle decides on one wake and acks or returns it.
func (t *Service) handle(ctx context.Context, w *bus.Wake) {
	v, err := t.decide(ctx, w)
	soon, waits := errors.AsType[wake.SoonError](err)
	switch {
	case errors.Is(err, api.ErrUnknownTask), errors.Is(err, events.ErrNoSession):
		_ = w.Ack()
	case waits:
		_ = w.Nak(time.Duration(soon))
	case errors.Is(err, api.ErrTaskTaken):
		_ = w.Nak(handleAgainWait)
	case err != nil && (ctx.Err() != nil || events.OfServers(err)):
		_ = w.Nak(time.Second)
	case err != nil:
		t.log.Warn("take task", zap.String("session", string(w.Session)), zap.String("task", string(w.Task)), zap.Error(err))
		t.returnUnfoldable(ctx, w)
	case v == wakeDone:
		_ = w.Ack()
	case v == wakeLater:
		_ = w.Nak(taskLater)
	case v == wakeAgain:
		_ = w.Nak(handleAgainWait)
	}
}

const handleAgainWait = 100 * time.Millisecond

// returnUnfoldable handles the wake of a session that cannot be folded here. A dead letter of the session covers its tasks
// too.
func (t *Service) returnUnfoldable(ctx context.Context, w *bus.Wake) {
	if _, err := t.cfg.Bus.DeadLetter(ctx, w.Session); err == nil {
		_ = w.Ack()
		return
	}
	_ = w.Nak(unfoldedWait)
}

// decide decides on a wake by the newest state.
func (t *Service) decide(ctx context.Context, w *bus.Wake) (wakeDecision, error) {
	if t.adopt(w) {
		return wakeOwned, nil
	}
	rec, err := t.cfg.Worker.Host.Task(ctx, w.Session, w.Task)
	if err != nil {
		return wakeDone, err
	}
	if finished, err := t.cfg.Worker.FinishTransfer(ctx, w.Session, rec); finished || err != nil {
		return wakeAgain, err
	}
	switch task.OnWake(&rec, w.Class == bus.ClassTool) {
	case task.StepLeave:
		return wakeAgain, t.cfg.Worker.Leave(ctx, w.Session, rec)
	case task.StepResolve:
		return wakeDone, t.resolveEnded(ctx, w.Session, rec.ID)
	case task.StepPassOn:
		return t.passCancelOn(ctx, w, rec)
	case task.StepNone:
		return wakeDone, nil
	case task.StepStart:
		return t.startTask(ctx, w, &rec)
	default: // task.StepAsk
	}
	gone, err := t.gone(ctx, rec.Worker, w, wake.PeerRequest{
		Session: w.Session, Task: rec.ID, Created: rec.CreatedAt, Transferred: rec.From != "", Handle: w.Handle(), Class: w.Class,
	})
	switch {
	case err != nil:
		return wakeAgain, err
	case !gone:
		return wakeOwned, nil
	}
	return t.takeOver(ctx, w, &rec)
}

// passOnWait is the delay of the wake of a cancelled task whose child still runs a turn.
const passOnWait = 300 * time.Millisecond

// passCancelOn cancels a task whose work another session does.
func (t *Service) passCancelOn(ctx context.Context, w *bus.Wake, rec projector.Task) (wakeDecision, error) {
	passed, err := t.cfg.Worker.PassCancelOn(ctx, w.Session, rec)
	if err == nil && !passed {
		return wakeLater, wake.SoonError(passOnWait)
	}
	return wakeDone, err
}

// takeOver handles a task whose worker is gone: the task runs again, or ends with the reason.
func (t *Service) takeOver(ctx context.Context, w *bus.Wake, rec *projector.Task) (wakeDecision, error) {
	switch task.OnGone(rec, int64(t.cfg.Retry.Attempts)) {
	case task.StepCancel:
		if w.Class == bus.ClassTool {
			if err := t.resolve(ctx, w.Session, rec.Args, cancelledCall()); err != nil {
				return wakeAgain, err
			}
		}
		return wakeDone, t.cfg.Worker.CancelClaimedTask(ctx, w.Session, task.ClaimOf(rec))
	case task.StepGiveUp:
		return wakeDone, t.abandonFailing(ctx, w, rec)
	case task.StepStart:
		if wait := t.cfg.Retry.Pause(rec.Starts, rec.StartedAt, t.cfg.Bus.Millis(), string(w.Session)); wait > 0 {
			return wakeLater, wake.SoonError(wait)
		}
		return t.startTask(ctx, w, rec)
	default: // task.StepAbandon
	}
	if err := t.resolveLost(ctx, w.Session, w.Class, rec.Args); err != nil {
		return wakeAgain, err
	}
	why := fmt.Sprintf("abandoned: worker %s is gone", rec.Worker)
	t.log.Warn("task abandoned", zap.String("session", string(w.Session)), zap.String("task", string(rec.ID)), zap.String("by", string(rec.Worker)))
	return wakeDone, t.cfg.Worker.AbandonTask(ctx, w.Session, task.ClaimOf(rec), why)
}

// abandonFailing ends a task whose attempts all killed their worker. A tool call fails before its task ends.
func (t *Service) abandonFailing(ctx context.Context, w *bus.Wake, rec *projector.Task) error {
	why := fmt.Errorf("given up after %d attempts whose workers died", rec.Starts)
	t.log.Error("task given up", zap.String("session", string(w.Session)), zap.String("task", string(rec.ID)), zap.Int64("attempts", rec.Starts))
	if w.Class == bus.ClassTool {
		if err := t.resolve(ctx, w.Session, rec.Args, call.Failed(0, plugin.ClassExternal, wake.CodePoisoned, why)); err != nil {
			return err
		}
	}
	return t.cfg.Worker.AbandonTask(ctx, w.Session, task.ClaimOf(rec), why.Error())
}

// startTask claims a task and runs it.
func (t *Service) startTask(ctx context.Context, w *bus.Wake, rec *projector.Task) (wakeDecision, error) {
	work := t.cfg.Runners[rec.Runner]
	if w.Class == bus.ClassTool {
		if t.cfg.Calls.PortableAt(ctx, w.Session, rec.Args) == plugin.WhereElsewhere {
			return wakeLater, wake.SoonError(elsewhereWait)
		}
		work = t.callTool
	}
	if work == nil && (rec.Runner != task.MonitorRunner || rec.Of != events.TaskMonitor) {
		return wakeLater, nil
	}
	key := taskKey{w.Session, rec.ID}
	if !t.reserve(key, w.Class) {
		return wakeLater, nil
	}
	defer t.unreserve(key)
	claimed, err := t.cfg.Worker.ClaimTask(ctx, w.Session, task.ClaimOf(rec), t.cfg.ID)
	if err != nil {
		return wakeAgain, err
	}
	r := t.newRun(w.Session, &claimed, false)
	r.wake = w
	if rec.Of == events.TaskMonitor && rec.Runner == task.MonitorRunner {
		r.work, r.isMonitor = r.monitor, true
	} else {
		r.work = r.plain(work)
	}
	t.launch(r)
	return wakeOwned, nil
}

// reserve counts a task that is about to run here, so that the worker already responds for it.
func (t *Service) reserve(key taskKey, class bus.Class) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopping || t.freeLocked(class) == 0 {
		return false
	}
	t.spawning[key]++
	t.busy.Add(1) // until unreserve, so that Stop waits for a launch
	t.jobs.Add(1)
	return true
}

func (t *Service) unreserve(key taskKey) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spawning[key]--; t.spawning[key] == 0 {
		delete(t.spawning, key)
	}
	t.busy.Done()
	t.jobs.Done()
}

// adopt passes a wake to the run of its task.
func (t *Service) adopt(w *bus.Wake) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.runs[taskKey{w.Session, w.Task}]
	if r == nil {
		return false
	}
	r.offer(w)
	return true
}
