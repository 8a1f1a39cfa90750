package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// ErrTaskCancelled is the cause that ends the context of a cancelled task.
var ErrTaskCancelled = errors.New("task was cancelled")

// Func does a task's work. What it returns ends the task: completed with
// the summary, or failed with the error's text; cancelled where it was asked
// to stop and returns an error. Its context ends with [ErrTaskCancelled],
// [wake.ErrSuperseded], [ErrOutOfTouch] or [wake.ErrStopped] as the cause. A panic fails the task.
type Func func(ctx context.Context, t *Running) (summary string, err error)

// Config of a service. Everything but Runners is required.
type Config struct {
	Bus     *bus.Bus
	Host    *session.Host
	Calls   *call.Env // runs tool calls of turns elsewhere
	Peers   *wake.Peers
	ID      events.WorkerID
	Runners map[string]Func // by the name that tasks are registered with
	Retry   wake.Retry
	Held    int // tasks that run here at once
	// HeldTools is how many tool calls of turns elsewhere run here at once.
	HeldTools int
	// Classes of the queue whose wakes it takes: [bus.ClassTask], [bus.ClassTool]. An
	// empty list takes none, and what this process spawns runs all the same.
	Classes []bus.Class
	Logger  *zap.Logger
	// Lost is told that the queue was lost and made again.
	Lost func(timers bool)
}

// Service runs background tasks and monitors. A task's wake stands in the queue
// as long as the task lives, and the worker that runs the task holds it; when
// that worker falls silent another gets the wake and, once the first does not
// answer any more either, restarts the task or ends it with the evidence. It is
// started and stopped once.
type Service struct {
	cfg Config
	log *zap.Logger
	h   *session.Host

	fetch    context.CancelFunc // ends fetching
	kill     context.CancelCauseFunc
	life     context.Context //nolint:containedctx // of what is spawned here; ends with Stop, not with a caller
	fetching sync.WaitGroup
	jobs     sync.WaitGroup
	busy     sync.WaitGroup // runs that Stop waits for

	mu       sync.Mutex
	stopping bool
	runs     map[taskKey]*taskRun
	spawning map[taskKey]int // registrations under way whose closure is here
	failures failures
	looking  map[bus.Class]int           // wakes that were fetched, and may yet become tasks that run
	freed    map[bus.Class]chan struct{} // a task has ended, or a wake was looked at
}

type taskKey struct {
	session events.SessionID
	task    events.TaskID
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{
		cfg: cfg, log: cfg.Logger.Named("task").With(zap.String("worker", string(cfg.ID))), h: cfg.Host,
		runs: make(map[taskKey]*taskRun), spawning: make(map[taskKey]int),
		looking: make(map[bus.Class]int), freed: make(map[bus.Class]chan struct{}),
	}
}

// ID names this run of the worker in histories.
func (t *Service) ID() events.WorkerID { return t.cfg.ID }

// Start joins the queue. Errors of joining are returned; later ones are logged and retried.
func (t *Service) Start(ctx context.Context) error {
	queues := make(map[bus.Class]*bus.Queue)
	var err error
	for _, class := range t.cfg.Classes {
		if queues[class], err = t.cfg.Bus.Queue(ctx, class); err != nil {
			return fmt.Errorf("start tasks: %w", err)
		}
		t.freed[class] = make(chan struct{}, 1)
	}
	t.cfg.Peers.Add(t.holds)
	// Both outlive the caller's ctx: Stop ends them, in order.
	var fetchCtx context.Context
	fetchCtx, t.fetch = context.WithCancel(context.WithoutCancel(ctx))
	t.life, t.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	for class, queue := range queues {
		wakes := wake.Fetcher{
			Free: func() int { return t.free(class) }, Freed: t.freed[class], Lost: func() { t.cfg.Lost(false) }, Log: t.log,
			Pull: func(ctx context.Context, n int, wait time.Duration) (bool, error) {
				return queue.Fetch(ctx, min(n, fetchWakes), wait, func(w *bus.Wake) { t.look(class, w) })
			},
		}
		t.fetching.Go(func() { wakes.Run(fetchCtx) })
	}
	return nil
}

// Stop takes no more tasks. What another worker can go on with is stopped and
// handed back at once; so are monitors, with their processes. What no other can
// go on with may end by itself until ctx ends; then it is cancelled, and
// recorded as abandoned.
func (t *Service) Stop(ctx context.Context) {
	if t.fetch == nil {
		return
	}
	t.fetch()
	t.fetching.Wait()
	t.mu.Lock()
	t.stopping = true
	for _, r := range t.runs {
		if r.again || r.monitors {
			r.cancel(wake.ErrStopped)
		}
	}
	t.mu.Unlock()
	wake.Ended(ctx, &t.busy)
	t.kill(wake.ErrStopped)
	if !wake.EndedSoon(&t.jobs) {
		t.log.Error("a task ignores its context and is left behind")
	}
}

// fetchWakes is how many wakes one pull asks for at most. Each is looked at at once.
const fetchWakes = 32

// free is how many wakes of a class more may be fetched: each may become a task that runs here.
func (t *Service) free(class bus.Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.freeLocked(class)-t.looking[class], 0)
}

// look handles a wake, which until then may yet become a task.
func (t *Service) look(class bus.Class, w *bus.Wake) {
	t.mu.Lock()
	t.looking[class]++
	t.mu.Unlock()
	t.jobs.Go(func() {
		defer t.looked(class)
		t.handle(t.life, w)
	})
}

func (t *Service) looked(class bus.Class) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looking[class]--
	t.freeOneLocked(class)
}

// freeOneLocked wakes the loop that waits for room.
func (t *Service) freeOneLocked(class bus.Class) {
	select {
	case t.freed[class] <- struct{}{}:
	default: // the loop has not looked since the last one
	}
}

func (t *Service) freeLocked(class bus.Class) int {
	if class == classHidden {
		return 1 // their own limit is the session's
	}
	free := t.cfg.Held
	if class == bus.ClassTool {
		free = t.cfg.HeldTools
	}
	for _, r := range t.runs {
		if r.class == class {
			free--
		}
	}
	return max(free, 0)
}

// holds answers another worker whether a task runs here, and takes its wake.
func (t *Service) holds(q *wake.Question) bool {
	if q.Task == "" {
		return false
	}
	t.mu.Lock()
	r, starting := t.findLocked(q)
	t.mu.Unlock()
	if r == nil || q.Handle == "" {
		return r != nil || starting
	}
	if w, err := t.cfg.Bus.Adopt(bus.WakeKey{Class: q.Class, Session: q.Session, Task: q.Task}, q.Handle); err == nil {
		r.offer(w)
	}
	return true
}

// findLocked is the run of a task, and whether one is about to start.
func (t *Service) findLocked(q *wake.Question) (r *taskRun, starting bool) {
	key := taskKey{q.Session, q.Task}
	if r := t.runs[key]; r != nil {
		return r, false
	}
	for _, r := range t.runs {
		if q.Moved && r.claim.Task == q.Task && r.made == q.Created {
			return r, false
		}
	}
	return nil, t.spawning[key] > 0
}

// Running is how many tasks run here.
func (t *Service) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.runs)
}
