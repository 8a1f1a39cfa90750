package task

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// ErrTaskCancelled cancels the context of a cancelled task.
var ErrTaskCancelled = errors.New("task was cancelled")

// Func does the work of a task. Its return ends the task: completed with the summary, or failed with the text of the
// error. If the task was cancelled and Func returns an error, the task ends as cancelled. The cause of its context is
// [ErrTaskCancelled], [wake.ErrSuperseded], [ErrQueueUnreachable] or [wake.ErrStopped]. A panic fails the task.
type Func func(ctx context.Context, t *Running) (summary string, err error)

// Config configures a service. Every field but Runners is required.
type Config struct {
	Bus             *bus.Bus
	Worker          session.Worker // whose commits have the node as actor
	Calls           *call.Env      // runs tool calls for turns on other nodes
	Peers           *wake.Peers
	ID              events.WorkerID
	Runners         map[string]Func // by the name that a task is registered with
	Retry           wake.Retry
	TaskConcurrency int // limit of the tasks that run here at once, without those that wait for a turn
	// ToolConcurrency limits the tool calls for turns on other nodes that run here at once, without those that wait for a turn.
	ToolConcurrency int
	// Classes of the queue from which it takes wakes: [bus.ClassTask], [bus.ClassTool]. An empty list takes none; the
	// tasks that this process spawns run anyway.
	Classes []bus.Class
	Logger  *zap.Logger
	// QueueLost is called when the queue was lost and created again.
	QueueLost func(timers bool)
}

// Service runs background tasks and monitors. The queue has a task's wake as long as the task lives, and the worker
// that runs the task owns it. When that worker reports no progress, another worker receives the wake. If the first
// does not respond to it either, it restarts the task or ends it with the reason. A Service is started and stopped
// once.
type Service struct {
	cfg Config
	log *zap.Logger

	fetch    context.CancelFunc // ends fetching
	kill     context.CancelCauseFunc
	life     context.Context //nolint:containedctx // context of the tasks; ends with Stop, not with a caller
	fetching sync.WaitGroup
	jobs     sync.WaitGroup
	busy     sync.WaitGroup // runs that Stop waits for

	failures *lru.Cache[events.TaskID, error] // of hidden tasks

	mu       sync.Mutex
	stopping bool
	runs     map[taskKey]*taskRun
	spawning map[taskKey]int             // registrations in progress whose closure is in this process
	handling map[bus.Class]int           // wakes that were fetched and may become running tasks
	freed    map[bus.Class]chan struct{} // receives when capacity may have grown
}

type taskKey struct {
	session events.SessionID
	task    events.TaskID
}

// New creates a service.
func New(cfg Config) *Service {
	failures, _ := lru.New[events.TaskID, error](maxFailures) // the size is valid
	return &Service{
		failures: failures,
		cfg:      cfg, log: cfg.Logger.Named("task").With(zap.String("worker", string(cfg.ID))),
		runs: make(map[taskKey]*taskRun), spawning: make(map[taskKey]int),
		handling: make(map[bus.Class]int), freed: make(map[bus.Class]chan struct{}),
	}
}

// ID identifies this run of the worker in histories.
func (t *Service) ID() events.WorkerID { return t.cfg.ID }

// Start joins the queue. It returns errors of joining; it logs and retries later ones.
func (t *Service) Start(ctx context.Context) error {
	queues := make(map[bus.Class]*bus.Queue)
	var err error
	for _, class := range t.cfg.Classes {
		if queues[class], err = t.cfg.Bus.Queue(ctx, class); err != nil {
			return fmt.Errorf("start tasks: %w", err)
		}
		t.freed[class] = make(chan struct{}, 1)
	}
	t.cfg.Peers.Add(t.respond)
	// Both outlive the caller's ctx: Stop ends them, in order.
	var fetchCtx context.Context
	fetchCtx, t.fetch = context.WithCancel(context.WithoutCancel(ctx))
	t.life, t.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	for class, queue := range queues {
		wakes := wake.Fetcher{
			Free: func() int { return t.free(class) }, Freed: t.freed[class], QueueLost: func() { t.cfg.QueueLost(false) }, Log: t.log,
			Pull: func(ctx context.Context, n int, wait time.Duration) (bool, error) {
				return queue.Fetch(ctx, min(n, fetchWakes), wait, func(w *bus.Wake) { t.handleAsync(class, w) })
			},
		}
		t.fetching.Go(func() { wakes.Run(fetchCtx) })
	}
	return nil
}

// Stop takes no more tasks. It cancels monitors and the tasks that another worker can continue, and returns their
// wakes at once. Other tasks may complete until ctx ends; then they are cancelled and recorded as abandoned.
func (t *Service) Stop(ctx context.Context) {
	if t.fetch == nil {
		return
	}
	t.fetch()
	t.fetching.Wait()
	t.mu.Lock()
	t.stopping = true
	for _, r := range t.runs {
		if r.restartable || r.isMonitor {
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

// fetchWakes limits the wakes of one pull. Each is handled at once.
const fetchWakes = 32

// free is the number of further wakes of a class that may be fetched: each may become a task that runs here.
func (t *Service) free(class bus.Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.freeLocked(class)-t.handling[class], 0)
}

// handleAsync handles a wake in a goroutine. Until it has, the wake counts as a possible task.
func (t *Service) handleAsync(class bus.Class, w *bus.Wake) {
	t.mu.Lock()
	t.handling[class]++
	t.mu.Unlock()
	t.jobs.Go(func() {
		defer t.handled(class)
		t.handle(t.life, w)
	})
}

func (t *Service) handled(class bus.Class) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.handling[class]--
	t.freeOneLocked(class)
}

// freeOneLocked signals that capacity may have grown.
func (t *Service) freeOneLocked(class bus.Class) {
	select {
	case t.freed[class] <- struct{}{}:
	default: // the signal is already set
	}
}

func (t *Service) freeLocked(class bus.Class) int {
	if class == classHidden { // the session limits hidden tasks
		return 1
	}
	free := t.cfg.TaskConcurrency
	if class == bus.ClassTool {
		free = t.cfg.ToolConcurrency
	}
	for _, r := range t.runs {
		if r.class == class && r.waiting == 0 {
			free--
		}
	}
	return max(free, 0)
}

// respond responds to another worker whether a task runs here, and if so accepts its wake.
func (t *Service) respond(q *wake.PeerRequest) bool {
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

// findLocked is the run of a task, and whether a run is about to start.
func (t *Service) findLocked(q *wake.PeerRequest) (r *taskRun, starting bool) {
	key := taskKey{q.Session, q.Task}
	if r := t.runs[key]; r != nil {
		return r, false
	}
	for _, r := range t.runs {
		if q.Transferred && r.claim.Task == q.Task && r.createdAt == q.Created {
			return r, false
		}
	}
	return nil, t.spawning[key] > 0
}

// Running counts the tasks that run here.
func (t *Service) Running() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.runs)
}
