package workers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
)

// ErrTaskCancelled is the cause that ends the context of a cancelled task.
var ErrTaskCancelled = errors.New("task was cancelled")

// TaskFunc does a task's work. What it returns ends the task: completed with
// the summary, or failed with the error's text; cancelled where it was asked
// to stop and returns an error. Its context ends with [ErrTaskCancelled],
// [ErrSuperseded], [ErrOutOfTouch] or [ErrStopped] as the cause. A panic fails the task.
type TaskFunc func(ctx context.Context, t *RunningTask) (summary string, err error)

// TasksConfig of a tasks service.
type TasksConfig struct {
	Bus      *bus.Bus
	Runners  map[string]TaskFunc // by the name that tasks are registered with
	Held     int                 // tasks run here at once. Defaults to 1024
	JobRetry JobRetry
	Logger   *zap.Logger     // nil is silent
	ID       events.WorkerID // of this run of the worker. Defaults to a new one
	// Classes of the queue whose jobs it takes: [bus.ClassTask], [bus.ClassTool]. Defaults
	// to the former; an empty list takes none, and what this process spawns runs all the same.
	Classes []bus.Class
	// HeldTools is how many tool calls run here at once. Defaults to 256.
	HeldTools int

	call TaskFunc // runs tool calls of turns elsewhere
}

func (c *TasksConfig) defaults() error {
	if c.Bus == nil {
		return errors.New("bus is required")
	}
	if c.Held < 0 {
		return fmt.Errorf("held: %d, want at least 1", c.Held)
	}
	c.Held = orDefault(c.Held, 1024)
	c.HeldTools = orDefault(c.HeldTools, 256)
	if c.Classes == nil {
		c.Classes = []bus.Class{bus.ClassTask}
	}
	if c.Logger == nil {
		c.Logger = zap.NewNop()
	}
	if c.ID == "" {
		c.ID = events.WorkerID(ulid.Make().String())
	}
	return errors.Join(c.JobRetry.defaults(), events.CheckToken("worker", c.ID))
}

// Tasks runs background tasks and monitors. A task's job stands in the queue
// as long as the task lives, and whoever runs the task holds it; when that
// worker goes quiet another gets the job and, once the first does not answer
// any more either, restarts the task or ends it with the evidence. It is
// started and stopped once.
type Tasks struct {
	cfg   TasksConfig
	log   *zap.Logger
	h     *session.Host
	tries *tries

	fetch    context.CancelFunc // ends fetching
	kill     context.CancelCauseFunc
	life     context.Context //nolint:containedctx // of what is spawned here; ends with Stop, not with a caller
	unanswer func()
	fetching sync.WaitGroup
	jobs     sync.WaitGroup
	busy     sync.WaitGroup // runs that Stop waits for

	mu       sync.Mutex
	stopping bool
	runs     map[taskKey]*taskRun
	spawning map[taskKey]int // registrations under way whose closure is here
	hidden   map[events.SessionID][]*hiddenTask
	looking  map[bus.Class]int           // jobs that were fetched, and may yet become tasks that run
	freed    map[bus.Class]chan struct{} // a task has ended, or a job was looked at
}

type taskKey struct {
	session events.SessionID
	task    events.TaskID
}

// NewTasks makes the service.
func NewTasks(cfg TasksConfig) (*Tasks, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("new tasks: %w", err)
	}
	h, err := session.New(session.Config{Bus: cfg.Bus, Actor: string(cfg.ID), Kind: events.ActorNode, Logger: cfg.Logger})
	if err != nil {
		return nil, fmt.Errorf("new tasks: %w", err)
	}
	log := cfg.Logger.Named("tasks").With(zap.String("worker", string(cfg.ID)))
	return &Tasks{
		cfg: cfg, log: log, h: h, tries: &tries{bus: cfg.Bus, cfg: cfg.JobRetry, worker: cfg.ID, log: log, steady: steadyTask},
		runs: make(map[taskKey]*taskRun), spawning: make(map[taskKey]int), hidden: make(map[events.SessionID][]*hiddenTask),
		looking: make(map[bus.Class]int), freed: make(map[bus.Class]chan struct{}),
	}, nil
}

// ID names this run of the worker in histories.
func (t *Tasks) ID() events.WorkerID { return t.cfg.ID }

// Start joins the queue. Errors of joining are returned; later ones are logged and retried.
func (t *Tasks) Start(ctx context.Context) error {
	queues := make(map[bus.Class]*bus.Work)
	var err error
	for _, class := range t.cfg.Classes {
		if queues[class], err = t.cfg.Bus.Work(ctx, class); err != nil {
			return fmt.Errorf("start tasks: %w", err)
		}
		t.freed[class] = make(chan struct{}, 1)
	}
	if t.unanswer, err = t.cfg.Bus.Answer(t.cfg.ID, t.answer); err != nil {
		return fmt.Errorf("start tasks: %w", err)
	}
	// Both outlive the caller's ctx: Stop ends them, in order.
	var fetchCtx context.Context
	fetchCtx, t.fetch = context.WithCancel(context.WithoutCancel(ctx))
	t.life, t.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	for class, queue := range queues {
		t.fetching.Go(func() { t.fetchLoop(fetchCtx, class, queue) })
	}
	return nil
}

// Stop takes no more tasks. What another worker can go on with is stopped and
// handed back at once; so are monitors, with their processes. What nobody can
// go on with may end by itself until ctx ends; then it is cancelled, and
// recorded as abandoned.
func (t *Tasks) Stop(ctx context.Context) {
	if t.fetch == nil {
		return
	}
	t.fetch()
	t.fetching.Wait()
	t.mu.Lock()
	t.stopping = true
	for _, r := range t.runs {
		if r.again || r.monitors {
			r.cancel(ErrStopped)
		}
	}
	t.mu.Unlock()
	settled := waited(&t.busy)
	select {
	case <-settled:
	case <-ctx.Done():
	}
	t.kill(ErrStopped)
	select {
	case <-waited(&t.jobs):
	case <-time.After(killWait):
		t.log.Error("a task ignores its context and is left behind")
	}
	t.unanswer()
}

func waited(group *sync.WaitGroup) <-chan struct{} {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }() // ends with the group, which its owner stops
	return done
}

// fetchJobs is how many jobs one pull asks for at most. Each is begun at once.
const fetchJobs = 32

// fetchLoop pulls as many jobs as there may be tasks more.
func (t *Tasks) fetchLoop(ctx context.Context, class bus.Class, queue *bus.Work) {
	for ctx.Err() == nil {
		free := t.free(class)
		if free == 0 {
			select {
			case <-t.freed[class]:
			case <-ctx.Done():
			}
			continue
		}
		err := queue.Fetch(ctx, min(free, fetchJobs), fetchWait, func(j *bus.Job) {
			t.look(class)
			t.jobs.Go(func() {
				defer t.looked(class)
				t.handle(t.life, j)
			})
		})
		if err != nil && ctx.Err() == nil {
			t.log.Warn("fetch tasks", zap.Error(err))
			bus.Sleep(ctx, time.Second)
		}
	}
}

// free is how many jobs of a class more may be fetched: each may become a task that runs here.
func (t *Tasks) free(class bus.Class) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(t.freeLocked(class)-t.looking[class], 0)
}

// look says that a job is looked at, until looked.
func (t *Tasks) look(class bus.Class) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looking[class]++
}

func (t *Tasks) looked(class bus.Class) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.looking[class]--
	t.freeOneLocked(class)
}

// freeOneLocked wakes the loop that waits for room.
func (t *Tasks) freeOneLocked(class bus.Class) {
	select {
	case t.freed[class] <- struct{}{}:
	default: // the loop has not looked since the last one
	}
}

func (t *Tasks) freeLocked(class bus.Class) int {
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

// answer tells whether a task runs here. The question names it.
func (t *Tasks) answer(question []byte) []byte {
	var q taskQuestion
	if err := events.DecodePayload(question, &q); err != nil {
		return []byte("no")
	}
	if t.has(&q) {
		return []byte("yes")
	}
	return []byte("no")
}

type taskQuestion struct {
	Session events.SessionID `msgpack:"s"`
	Task    events.TaskID    `msgpack:"t"`
	Created events.Millis    `msgpack:"c"`
	Moved   bool             `msgpack:"m,omitempty"` // it was transferred: its run may not know yet, so any session will do
}

func (t *Tasks) has(q *taskQuestion) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := taskKey{q.Session, q.Task}
	if t.runs[key] != nil || t.spawning[key] > 0 {
		return true
	}
	for _, r := range t.runs {
		if q.Moved && r.claim.Task == q.Task && r.made == q.Created {
			return true
		}
	}
	return false
}

// askWait is how long a worker may take to say that it runs a task.
const askWait = bus.AckWait

// alive asks the worker that has a task whether it runs it.
func (t *Tasks) alive(ctx context.Context, worker events.WorkerID, q taskQuestion) (bool, error) {
	body, err := events.EncodePayload(&q)
	if err != nil {
		return false, err
	}
	if worker == t.cfg.ID {
		return string(t.answer(body)) == "yes", nil
	}
	once, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	answer, err := t.cfg.Bus.Ask(once, worker, body)
	switch {
	case errors.Is(err, bus.ErrNotFound), err != nil && once.Err() != nil && ctx.Err() == nil:
		return false, nil // gone, or quiet for as long as the queue waits
	case err != nil:
		return false, err
	}
	return string(answer) == "yes", nil
}
