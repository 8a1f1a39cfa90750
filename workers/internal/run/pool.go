package run

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/work"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/wake"
)

// Config configures a pool. Every field is required, except that Linger and Patience may be 0.
type Config struct {
	Bus         *bus.Bus
	Worker      session.Worker
	Calls       *call.Env
	Peers       *wake.Peers
	ID          events.WorkerID
	Retry       wake.Retry
	Concurrency int           // sessions whose turns run at once, and as many of agents, without those that wait for another session
	Linger      time.Duration // longest time that a commit waits for further results, see package turn; 0: none waits
	Patience    time.Duration // time without a worker that can build a session's plugins and has its environment, after which its turn fails
	Logger      *zap.Logger
	// QueueLost is called when the queue, or the timers, were lost and created again.
	QueueLost func(timers bool)
}

// Pool fetches wakes of sessions and runs their turns. It is started and stopped once.
type Pool struct {
	cfg    Config
	log    *zap.Logger
	trials *wake.Trials

	fetch    context.CancelFunc // ends fetching: the soft stop
	draining atomic.Bool        // runs start no effects, and hand over
	kill     context.CancelCauseFunc
	life     context.Context //nolint:containedctx // context of the runs; ends with Stop, not with a caller
	unlisten func()
	fetching sync.WaitGroup
	jobs     sync.WaitGroup
	admitted map[bus.Class]*admission // of each class

	mu      sync.Mutex
	runs    map[events.SessionID]*run      // at most one for each session
	unbuilt map[events.SessionID]time.Time // since when this worker cannot build the plugins, or lacks the environment
}

// New makes a pool.
func New(cfg Config) *Pool {
	log := cfg.Logger.Named("run").With(zap.String("worker", string(cfg.ID)))
	p := &Pool{
		cfg: cfg, log: log, trials: &wake.Trials{Bus: cfg.Bus, Retry: cfg.Retry, Worker: cfg.ID, Log: log},
		runs: make(map[events.SessionID]*run), unbuilt: make(map[events.SessionID]time.Time),
		admitted: make(map[bus.Class]*admission),
	}
	for _, class := range bus.TurnClasses() {
		p.admitted[class] = &admission{freed: make(chan struct{}, 1)}
	}
	return p
}

// Start joins the queue. It returns errors of joining; it logs and retries later ones.
func (p *Pool) Start(ctx context.Context) error {
	queues := make(map[bus.Class]*bus.Queue)
	for class := range p.admitted {
		var err error
		if queues[class], err = p.cfg.Bus.Queue(ctx, class); err != nil {
			return fmt.Errorf("start worker: %w", err)
		}
	}
	due, err := p.cfg.Bus.Due(ctx)
	if err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	if p.unlisten, err = p.cfg.Bus.OnNotify(p.cfg.ID, p.logMoved); err != nil {
		return fmt.Errorf("start worker: %w", err)
	}
	// Both outlive the caller's ctx: Stop ends them, in order.
	var fetchCtx context.Context
	fetchCtx, p.fetch = context.WithCancel(context.WithoutCancel(ctx))
	p.mu.Lock()
	p.life, p.kill = context.WithCancelCause(context.WithoutCancel(ctx))
	p.mu.Unlock()
	p.cfg.Peers.Add(p.respond) // from now on other workers' requests start runs
	timers := wake.Fetcher{
		Free: func() int { return fetchTimers }, QueueLost: func() { p.cfg.QueueLost(true) }, Log: p.log.With(zap.String("of", "timers")),
		Pull: func(ctx context.Context, n int, wait time.Duration) (bool, error) {
			return due.Fetch(ctx, n, wait, func(id events.SessionID, at events.Millis) error { return p.handleTimer(ctx, id, at) })
		},
	}
	for class, of := range p.admitted {
		wakes := wake.Fetcher{
			Free: func() int { return p.free(class) }, Freed: of.freed, QueueLost: func() { p.cfg.QueueLost(false) }, Log: p.log.With(zap.String("of", "wakes of class "+string(class))),
			Pull: func(ctx context.Context, n int, wait time.Duration) (bool, error) {
				return queues[class].Fetch(ctx, n, wait, p.deliver)
			},
		}
		p.fetching.Go(func() { wakes.Run(fetchCtx) })
	}
	p.fetching.Go(func() { timers.Run(fetchCtx) })
	return nil
}

// Stop fetches no more wakes and hands over the turns. Running effects may complete, and are recorded, until ctx
// ends. New effects are left to another worker, which receives the wake at once. An effect that still runs when ctx
// ends is cancelled, and another worker runs it again. Nothing is lost either way.
func (p *Pool) Stop(ctx context.Context) {
	if p.fetch == nil {
		return
	}
	p.Drain()
	p.fetching.Wait()
	wake.Ended(ctx, &p.jobs)
	p.kill(wake.ErrStopped)
	if !wake.EndedSoon(&p.jobs) {
		p.log.Error("a tool or a provider ignores its context and is left behind")
	}
	p.unlisten()
}

// Running counts the sessions whose turns the pool runs.
func (p *Pool) Running() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.runs)
}

// Drain begins a stop: the pool fetches no more wakes, and no run starts an effect.
func (p *Pool) Drain() {
	if p.fetch == nil {
		return
	}
	p.fetch()
	p.draining.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.runs {
		r.signal()
	}
}

// handleTimer reports a time that is due to the session's run, or else stores a wake. A wake for a run in this pool
// would wait in the queue while the pool is full.
func (p *Pool) handleTimer(ctx context.Context, id events.SessionID, at events.Millis) error {
	if p.reportDue(id, at) {
		return nil
	}
	return p.cfg.Bus.StoreWake(ctx, hint.FallbackKey(id), bus.WakeHint{Due: at})
}

// reportDue reports a time that is due to the session's run; false where there is none.
func (p *Pool) reportDue(id events.SessionID, at events.Millis) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[id]
	if r == nil {
		return false
	}
	r.due = max(r.due, at)
	r.logMovedLocked()
	return true
}

// fetchTimers is the number of timers of one pull.
const fetchTimers = 32

// admission is the state of one class: wakes offered to other workers, and a signal that a run of the class may start. Each class may have
// [Config.Concurrency] runs, so that a turn which starts very many agents holds up no turn of another session.
type admission struct {
	offers int           // without a response yet
	freed  chan struct{} // receives when capacity may have grown
}

func (p *Pool) free(class bus.Class) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.capacityLocked(class)-p.admitted[class].offers, 0)
}

// capacityLocked is the number of runs of a class that may still start. A run that waits for another session's turn does not count: that
// turn may need its place. What can run is never bounded by what waits for it.
func (p *Pool) capacityLocked(class bus.Class) int {
	n := p.cfg.Concurrency
	for _, r := range p.runs {
		if r.class == class && r.waiting == 0 {
			n--
		}
	}
	return n
}

// markWaiting marks an effect of the run as waiting for another session's turn, until end is called.
func (r *run) markWaiting() (end func()) {
	r.p.addWaiting(r, 1)
	return func() { r.p.addWaiting(r, -1) }
}

func (p *Pool) addWaiting(r *run, effects int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.waiting += effects; r.waiting > 0 {
		p.admitted[r.class].signal()
	}
}

// deliver passes a wake to the session's run. Without a run, it offers the wake to the worker that it names, which
// may have the state cached, or starts a run.
func (p *Pool) deliver(w *bus.Wake) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.runs[w.Session] == nil && w.Worker != "" && w.Worker != p.cfg.ID && w.Deliveries == 1 {
		offer := wake.PeerRequest{
			Session: w.Session, Offer: true, Runs: int64(len(p.runs)), Handle: w.Handle(), Class: w.Class, Due: w.Due, Repair: w.Repair,
		}
		of := p.admitted[w.Class]
		of.offers++
		p.jobs.Go(func() {
			taken := p.cfg.Peers.Request(p.life, w.Worker, offer)
			p.mu.Lock()
			defer p.mu.Unlock()
			of.offers--
			of.signal()
			if !taken {
				p.assignLocked(w)
			}
		})
		return
	}
	p.assignLocked(w)
}

// assignLocked passes a wake to the session's run, or starts one. If the pool is full or stops, the wake returns to
// the queue at once.
func (p *Pool) assignLocked(w *bus.Wake) {
	if r := p.runs[w.Session]; r != nil {
		r.replaceWakeLocked(w)
		return
	}
	if p.capacityLocked(w.Class) <= 0 || p.draining.Load() {
		_ = w.Nak(0)
		return
	}
	p.startLocked(w.Session, w.Class, w)
}

// startLocked starts a run of a session. w may be nil.
func (p *Pool) startLocked(id events.SessionID, class bus.Class, w *bus.Wake) {
	r := newRun(p, id, class, w)
	p.runs[id] = r
	p.jobs.Go(func() { p.work(p.life, r) })
}

// respond responds to another worker: it accepts a wake whose turn runs here, or whose session this pool may run.
func (p *Pool) respond(q *wake.PeerRequest) bool {
	if q.Task != "" {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.runs[q.Session]
	switch {
	case q.Notifies:
		return r != nil && r.ownsEndCallLocked(q.Turn)
	case q.Offer && r == nil && (p.draining.Load() || p.capacityLocked(q.Class) <= 0 || p.busier(q.Runs)):
		return false
	case !q.Offer && (r == nil || r.claimed != (work.Attempt{Turn: q.Turn, Number: q.Attempt})):
		return false
	case q.Handle == "":
		return true
	case !q.Class.OfTurns():
		return false
	}
	w, err := p.cfg.Bus.Adopt(bus.WakeKey{Class: q.Class, Session: q.Session}, q.Handle)
	if err != nil {
		return false
	}
	w.Due, w.Repair = q.Due, q.Repair
	if r == nil {
		p.startLocked(q.Session, q.Class, w)
		return true
	}
	r.replaceWakeLocked(w)
	return true
}

// busier reports whether this worker has more than twice as many runs as another one, which then loads the session itself. Without
// it, a node that joins would get no share of the sessions that are never idle.
func (p *Pool) busier(runs int64) bool { return int64(len(p.runs)) > 2*runs }

// NeedsWorker reports that a session may need a worker, because a host of this process appended to it. The run starts before the
// wake arrives.
func (p *Pool) NeedsWorker(s *projector.State) {
	key := hint.TurnKey(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch r := p.runs[key.Session]; {
	case r != nil:
		r.logMovedLocked()
	case p.life != nil && p.capacityLocked(key.Class) > 0 && !p.draining.Load():
		p.startLocked(key.Session, key.Class, nil)
	}
}

// logMoved makes the session's run read the log, if there is one.
func (p *Pool) logMoved(id events.SessionID) { p.reportDue(id, 0) }

// work executes a run and then finishes its wake.
func (p *Pool) work(ctx context.Context, r *run) {
	err := p.recoverRun(ctx, r) // without an account: it would wait for memory that its own effects have
	r.markDirty()
	if ctx.Err() != nil {
		r.releaseLate()
	}
	if err == nil && r.m.State != nil {
		p.cfg.Worker.ReturnState(ctx, r.m.State)
		r.m.State = nil
	}
	w := p.unregister(r)
	p.finish(ctx, r, w, err)
}

// recoverRun recovers a panic of one run, which must not end the other runs.
func (p *Pool) recoverRun(ctx context.Context, r *run) (err error) {
	defer func() {
		if c := recover(); c != nil {
			p.log.Error("run panicked", zap.String("session", string(r.session)), zap.ByteString("stack", debug.Stack()))
			err = fmt.Errorf("run panicked: %v", c)
		}
	}()
	return r.work(ctx)
}

// unregister ends a run and returns its wake.
func (p *Pool) unregister(r *run) *bus.Wake {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.endLocked(r)
	return r.wake
}

// endLocked removes a run and frees its capacity.
func (p *Pool) endLocked(r *run) {
	if p.runs[r.session] != r {
		return
	}
	delete(p.runs, r.session)
	p.admitted[r.class].signal()
}

// signal signals that capacity may have grown.
func (of *admission) signal() {
	select {
	case of.freed <- struct{}{}:
	default: // the signal is already set
	}
}
