package workers

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/internal/call"
)

// Worker takes turns from the queue and runs them. It is started and stopped once.
type Worker struct {
	cfg   Config
	log   *zap.Logger
	cache *stateCache
	blobs *call.BlobCache
	calls *call.Env
	host  *session.Host
	tasks *Tasks // of this process; a [Node] starts them
	tries *tries

	fetch    context.CancelFunc // ends fetching: the soft stop
	draining atomic.Bool        // runs start nothing more, and hand over
	kill     context.CancelCauseFunc
	stopPoke func()
	fetching sync.WaitGroup
	jobs     sync.WaitGroup

	mu    sync.Mutex
	runs  map[events.SessionID]*run // in progress, at most one a session and [Config.Concurrency] in all
	room  []*bus.Job                // jobs that wait for one of those to end, in the order they came
	offer func()                    // ends the offer of these to other workers; of the loop that fetches, nil while there is none
	freed chan struct{}             // a run has ended
}

// ErrStopped is the cause of what a hard stop cancels.
var ErrStopped = errors.New("worker stopped")

// New makes a worker.
func New(cfg Config) (*Worker, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("new worker: %w", err)
	}
	w := &Worker{
		cfg:   cfg,
		log:   cfg.Logger.Named("worker").With(zap.String("worker", string(cfg.ID))),
		cache: newStateCache(cfg.Sessions),
		blobs: call.NewBlobCache(cfg.Bus),
		runs:  make(map[events.SessionID]*run),
		freed: make(chan struct{}, 1),
	}
	cfg.Plugins.WarnTo(func(plugin, point string, err error) {
		w.log.Warn("hook", zap.String("plugin", plugin), zap.String("point", point), zap.Error(err))
	})
	var err error
	w.tries = &tries{bus: cfg.Bus, cfg: cfg.JobRetry, worker: cfg.ID, log: w.log}
	if w.tasks, err = NewTasks(TasksConfig{
		Bus: cfg.Bus, Runners: cfg.Runners, Held: cfg.HeldTasks, HeldTools: cfg.HeldTools, JobRetry: cfg.JobRetry, Logger: cfg.Logger, ID: cfg.ID,
		Classes: cfg.taskClasses(), call: w.callTool,
	}); err != nil {
		return nil, err
	}
	w.calls = &call.Env{
		Bus: cfg.Bus, Blobs: w.blobs, Spawn: w.spawnTool, Log: w.log,
		Providers: cfg.Providers, Provider: cfg.Provider, Model: cfg.Model, Retry: call.Retry(cfg.ModelRetry),
		RunsTools: slices.Contains(cfg.Roles, RoleTool),
	}
	w.host, err = session.New(session.Config{
		Bus: cfg.Bus, Actor: string(cfg.ID), Plugins: cfg.Plugins, Complete: w.calls.Complete, Spawner: w.tasks, Logger: cfg.Logger,
		Trace: cfg.Trace, TraceMetadata: cfg.TraceMetadata, MaxQueued: cfg.MaxQueued,
	})
	w.calls.Host = w.host
	return w, err
}

// Host is the node's own host: it has the plugins.
func (w *Worker) Host() *session.Host { return w.host }

func (w *Worker) warn(id events.SessionID, err error) {
	w.log.Warn("plugin", zap.String("session", string(id)), zap.Error(err))
}

// ID names this run of the worker in histories.
func (w *Worker) ID() events.WorkerID { return w.cfg.ID }

// Start joins the queue. Errors of joining are returned; later ones are logged and retried.
func (w *Worker) Start(ctx context.Context) error {
	queue, err := w.cfg.Bus.Work(ctx, bus.ClassTurn)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	due, err := w.cfg.Bus.Due(ctx)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	w.stopPoke, err = w.cfg.Bus.Pokes(w.cfg.ID, w.poked)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	// Both outlive the caller's ctx: Stop ends them, in order.
	var fetchCtx, jobCtx context.Context
	fetchCtx, w.fetch = context.WithCancel(context.WithoutCancel(ctx))
	jobCtx, w.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	w.fetching.Go(func() { w.fetchLoop(fetchCtx, jobCtx, queue) })
	w.fetching.Go(func() { w.timerLoop(fetchCtx, due) })
	return nil
}

// Stop fetches no more and hands over what runs: effects in flight may end
// until ctx does, and are recorded; new ones are left to another worker, which
// gets the job at once. What is in flight when ctx ends is cancelled, and
// handed over without its result. Nothing is lost either way.
func (w *Worker) Stop(ctx context.Context) {
	if w.fetch == nil {
		return
	}
	w.fetch()
	w.fetching.Wait()
	w.drain()
	done := waited(&w.jobs)
	select {
	case <-done:
	case <-ctx.Done():
	}
	w.kill(ErrStopped)
	select {
	case <-done:
	case <-time.After(killWait):
		w.log.Error("a tool or a provider ignores its context and is left behind")
	}
	w.stopPoke()
}

// killWait is how long what was cancelled may take to return.
const killWait = 5 * time.Second

// drain makes every run come to its end.
func (w *Worker) drain() {
	w.draining.Store(true)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		r.wake()
	}
}

// handle works on a run's job until the session owes nothing that the job covers.
func (w *Worker) handle(ctx context.Context, r *run) {
	w.logJob("job", r.job, nil)
	err := w.caught(ctx, r)
	w.logJob("job is over", r.job, err)
	w.settle(ctx, r.job, err)
	for _, mailed := range w.unregister(r) {
		_ = mailed.GiveBack(0) // the run ended before it came to them: another may do better
	}
}

func (w *Worker) logJob(what string, j *bus.Job, err error) {
	if entry := w.log.Check(zap.DebugLevel, what); entry != nil {
		entry.Write(zap.String("session", string(j.Session)), zap.String("turn", j.ID), zap.Int("delivery", j.Deliveries), zap.Error(err))
	}
}

// caught works on a run whose panic must not end the other sessions' runs. The job comes again.
func (w *Worker) caught(ctx context.Context, r *run) (err error) {
	defer func() {
		if p := recover(); p != nil {
			w.log.Error("run panicked", zap.String("session", string(r.job.Session)), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("run panicked: %v", p)
		}
	}()
	return r.work(ctx)
}

// settle tells the queue how a job ended.
func (w *Worker) settle(ctx context.Context, j *bus.Job, err error) {
	log := w.log.With(zap.String("session", string(j.Session)), zap.String("turn", j.ID))
	var soon soonError
	switch {
	case err == nil, errors.Is(err, errCovered):
		_ = j.Ack()
	case errors.Is(err, errHandedOver):
		w.tries.excuse(ctx, j)
		_ = j.GiveBack(0)
	case errors.Is(err, ErrSuperseded):
		log.Info("superseded") // the other worker holds a newer delivery of the message
	case errors.Is(err, errRefused):
		w.tries.giveUp(ctx, j, bus.DeadUnread, err, w.bury)
	case errors.Is(err, events.ErrNoSession):
		w.tries.giveUp(ctx, j, bus.DeadNoSession, err, w.bury)
	case errors.Is(err, errPoisoned):
		w.tries.giveUp(ctx, j, bus.DeadPoisoned, err, w.bury)
	case errors.As(err, &soon):
		_ = j.GiveBack(time.Duration(soon))
	case ctx.Err() != nil:
		w.tries.excuse(ctx, j)
		_ = j.GiveBack(0)
	case errors.Is(err, errLater):
		w.tries.excuse(ctx, j)
		_ = j.GiveBack(later(j))
	case errors.Is(err, events.ErrOutcomeUnknown), errors.Is(err, bus.ErrFull): // the servers' doing, not the job's
		log.Warn("run turn", zap.Error(err))
		w.tries.excuse(ctx, j)
		_ = j.GiveBack(time.Second)
	default:
		log.Warn("run turn", zap.Error(err))
		w.tries.fail(ctx, j, err, w.bury)
	}
}

// unregister ends a run and returns the jobs that it did not get to.
func (w *Worker) unregister(r *run) []*bus.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runs[r.job.Session] == r {
		w.endLocked(r)
	}
	mail := r.mail
	r.mail = nil
	return mail
}

// takeMail empties a run's mail.
func (w *Worker) takeMail(r *run) []*bus.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	mail := r.mail
	r.mail = nil
	return mail
}

// returnMail puts back what a run took and will come to later.
func (w *Worker) returnMail(r *run, mail []*bus.Job) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if r.mail = append(mail, r.mail...); len(r.mail) > 0 {
		r.wake()
	}
}

// takeMailOrEnd is takeMail for a run that has nothing else to do. Without mail
// the run ends in the same step, so that no job is handed to a run that is gone.
func (w *Worker) takeMailOrEnd(r *run) []*bus.Job {
	w.mu.Lock()
	defer w.mu.Unlock()
	mail := r.mail
	r.mail = nil
	if len(mail) == 0 {
		w.cache.put(r.state)
		w.endLocked(r)
	}
	return mail
}

// hasMail reports whether a job waits for a run.
func (w *Worker) hasMail(r *run) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(r.mail) > 0
}

// endLocked makes room for the next run.
func (w *Worker) endLocked(r *run) {
	delete(w.runs, r.job.Session)
	select {
	case w.freed <- struct{}{}:
	default: // the loop has not looked since the last one
	}
}

// poked passes a hint on to the run of the session, if it is here.
func (w *Worker) poked(session events.SessionID) {
	w.mu.Lock()
	r := w.runs[session]
	w.mu.Unlock()
	if r != nil {
		r.moved.Store(true)
		r.wake()
	}
}
