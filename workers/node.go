package workers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/service"
	"github.com/lash-go/lash/session/turn"
	"github.com/lash-go/lash/workers/internal/call"
	"github.com/lash-go/lash/workers/internal/run"
	"github.com/lash-go/lash/workers/internal/task"
	"github.com/lash-go/lash/workers/internal/wake"
)

// Node runs the work of its roles in one process. With any roles it has a host, and it runs the tasks that its own
// process spawns. A Node is started and stopped once.
type Node struct {
	cfg      Config
	log      *zap.Logger
	memory   memory.Division
	host     *session.Host
	peers    *wake.Peers
	pool     *run.Pool
	tasks    *Tasks
	sweep    *wake.Sweeper
	project  *follow.Projector
	archive  *follow.Archiver
	serve    func(context.Context) error // stops the session API
	unlisten func()                      // stops responses to other workers
	cancel   context.CancelFunc
	wait     sync.WaitGroup

	stopping atomic.Bool
}

// NewNode makes a node. The error lists every invalid field of cfg.
func NewNode(cfg Config) (*Node, error) {
	if err := cfg.defaults(); err != nil {
		return nil, fmt.Errorf("new node: %w", err)
	}
	n := &Node{cfg: cfg, memory: memory.Divide(cfg.Memory), log: cfg.Logger.Named("worker").With(zap.String("worker", string(cfg.ID)))}
	cfg.Plugins.SetWarn(func(plugin, point string, err error) {
		n.log.Warn("hook", zap.String("plugin", plugin), zap.String("point", point), zap.Error(err))
	})
	host, err := session.New(n.cfg.host())
	if err != nil {
		return nil, err
	}
	n.host = host
	n.makeWorkers(host.Worker())
	n.makeProjections()
	return n, nil
}

// makeWorkers makes what works on the host's sessions. Each needs the host and those before it:
//
//	sweep   peers            repairs lost wakes
//	calls                    calls models and tools
//	tasks   calls, sweep     runs background tasks
//	pool    calls, sweep     runs turns
//
// At the end the host gets them: for its completions, for the tasks that plugins start, and for the runs that it starts.
func (n *Node) makeWorkers(worker session.Worker) {
	cfg := &n.cfg
	n.peers = wake.NewPeers(cfg.Bus, cfg.ID, cfg.Name, cfg.Logger)
	n.sweep = wake.NewSweeper(cfg.Bus, worker, n.peers.Lowest, cfg.Logger)
	calls := &call.Env{
		Bus: cfg.Bus, Worker: worker, Blobs: cfg.Filter.Store(call.NewBlobCache(cfg.Bus)), Quiet: cfg.Filter != nil, Log: n.log,
		Providers: cfg.Providers, Provider: cfg.Provider, Model: cfg.Model, Retry: cfg.ModelRetry, Silence: cfg.ModelSilence,
		Allowed: cfg.Locks.AllowedProviders, RunsTools: n.Has(RoleTool), Environments: cfg.Environments, Memory: n.memory.Turns,
	}
	n.tasks = task.New(task.Config{
		Bus: cfg.Bus, Worker: worker.AsNode(), Calls: calls, Peers: n.peers, ID: cfg.ID,
		Runners: cfg.Runners, Retry: cfg.JobRetry, TaskConcurrency: cfg.TaskConcurrency, ToolConcurrency: cfg.ToolConcurrency,
		Classes: cfg.taskClasses(), Logger: cfg.Logger, QueueLost: n.sweep.QueueLost,
	})
	n.pool = run.New(run.Config{
		Bus: cfg.Bus, Worker: worker, Calls: calls, Peers: n.peers, ID: cfg.ID, Retry: cfg.JobRetry, Concurrency: cfg.Concurrency,
		Linger: cfg.Linger, Patience: cfg.Patience, Logger: cfg.Logger, QueueLost: n.sweep.QueueLost,
	})
	process := session.Process{Complete: calls.Complete, Spawner: n.tasks}
	if n.Has(RoleTurn) {
		process.Worker, process.NeedsWorker = cfg.ID, n.pool.NeedsWorker
	}
	worker.Bind(process)
}

// makeProjections makes what derives rows and archives from histories.
func (n *Node) makeProjections() {
	cfg := &n.cfg
	n.project = follow.NewProjector(cfg.Bus, cfg.Logger)
	n.archive = follow.NewArchiver(cfg.Bus, follow.ArchiverConfig{
		After: cfg.ArchiveAfter, Retain: cfg.Retain, Least: cfg.Locks.LeastRetain, Parked: turn.Parked, Signer: cfg.Signer,
		Logger: cfg.Logger, Wake: func(ctx context.Context, s *projector.State) error { return hint.Store(ctx, cfg.Bus, s) },
	})
}

// Host is the node's host, with its plugins.
func (n *Node) Host() *session.Host { return n.host }

// Memory is what requests to the node may have, over all APIs.
func (n *Node) Memory() *memory.Pool { return n.memory.Requests }

// Tasks is the node's service of background tasks.
func (n *Node) Tasks() *Tasks { return n.tasks }

// ID identifies this run of the node in histories.
func (n *Node) ID() events.WorkerID { return n.cfg.ID }

// Has reports whether the node has a role.
func (n *Node) Has(role Role) bool { return slices.Contains(n.cfg.Roles, role) }

// Start joins the queues and, by role, starts the session API, the projector and the archiver. It returns when the
// node takes work. A node does not survive the end of its bus: the program
// waits for Ended of [Config.Bus] too.
func (n *Node) Start(ctx context.Context) (err error) {
	if n.unlisten, err = n.peers.Listen(); err != nil {
		return fmt.Errorf("start node: %w", err)
	}
	if n.Has(RoleTurn) {
		err = n.pool.Start(ctx)
	}
	if err == nil {
		err = n.tasks.Start(ctx)
	}
	if err == nil {
		err = n.startService()
	}
	if err != nil {
		n.tasks.Stop(ctx)
		n.pool.Stop(ctx)
		n.unlisten()
		return err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	n.cancel = cancel
	if n.Has(RoleTurn) {
		n.wait.Go(func() { n.peers.Run(running) })
		n.wait.Go(func() { n.sweep.Run(running) })
	}
	if n.Has(RoleProjector) {
		n.wait.Go(func() {
			if err := n.project.Run(running); err != nil {
				n.log.Error("projector", zap.Error(err))
			}
		})
	}
	if n.Has(RoleArchive) {
		n.wait.Go(func() { n.archive.Run(running) })
	}
	n.wait.Go(func() { n.recreateStreams(running) })
	return nil
}

// recreateEvery is the interval between two checks of the shared streams.
const recreateEvery = 3 * time.Second

// recreateStreams creates shared streams and buckets again that were deleted. The consumers are created by the code
// that fetches from them.
func (n *Node) recreateStreams(ctx context.Context) {
	for delay.Sleep(ctx, recreateEvery) {
		made, err := n.cfg.Bus.RecreateMissing(ctx)
		if err != nil && ctx.Err() == nil {
			n.log.Warn("shared streams", zap.Error(err))
		}
		if len(made) > 0 {
			n.sweep.QueueLost(true)
		}
	}
}

// startService starts the session API, if the node has that role.
func (n *Node) startService() (err error) {
	n.serve = func(context.Context) error { return nil }
	if n.Has(RoleAPI) {
		about := map[string]string{"worker": string(n.cfg.ID)}
		n.serve, err = service.Serve(n.cfg.Bus, n.Host(), service.Config{Metadata: about, Logger: n.log, Scopes: n.cfg.Scopes, Access: n.cfg.Access, Memory: n.memory.Requests})
	}
	return err
}

// Stop takes no more work. Effects that run may complete, and are recorded, until ctx ends; then they are cancelled.
// Other workers continue the turns. Stop does nothing on a node that did not start.
func (n *Node) Stop(ctx context.Context) {
	if n.cancel == nil {
		return
	}
	n.stopping.Store(true)
	n.pool.Drain()
	var stopping sync.WaitGroup
	stopping.Go(func() {
		if err := n.serve(ctx); err != nil {
			n.log.Warn("session service", zap.Error(err))
		}
	})
	stopping.Go(func() { n.tasks.Stop(ctx) }) // in parallel with the turns: their tools may wait for tasks
	n.pool.Stop(ctx)
	stopping.Wait()
	n.cancel()
	n.wait.Wait()
	n.unlisten()
}

// Running counts the sessions whose turns run here, and the tasks that run here.
func (n *Node) Running() (turns, tasks int) { return n.pool.Running(), n.tasks.Running() }

// ErrStopping reports a node that stops and takes no more work.
var ErrStopping = errors.New("node is stopping")

// Ready returns nil if the node takes work and its servers respond. Errors: [ErrStopping], and those of the bus.
func (n *Node) Ready(ctx context.Context) error {
	if n.stopping.Load() {
		return ErrStopping
	}
	return n.cfg.Bus.Ready(ctx)
}
