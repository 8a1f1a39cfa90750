package workers

import (
	"context"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/service"
	"github.com/lash-go/lash/session/turn"
)

// Node is what one process runs on a bus: what its roles say. Whatever they
// are, it has a host, and runs the tasks that this process spawns.
type Node struct {
	worker  *Worker
	tasks   *Tasks
	project *follow.Projector
	archive *follow.Archiver
	sweep   *Sweeper
	serve   func(context.Context) error // stops the session service
	log     *zap.Logger
	cancel  context.CancelFunc
	wait    sync.WaitGroup

	stopping atomic.Bool
}

// NewNode makes a node.
func NewNode(cfg Config) (*Node, error) {
	w, err := New(cfg)
	if err != nil {
		return nil, err
	}
	archive := follow.NewArchiver(cfg.Bus, follow.ArchiverConfig{
		After: w.cfg.ArchiveAfter, Retain: cfg.Retain, Parked: turn.Parked, Logger: cfg.Logger,
	})
	return &Node{
		worker: w, tasks: w.tasks, project: follow.NewProjector(cfg.Bus, cfg.Logger), archive: archive,
		sweep: NewSweeper(SweeperConfig{Bus: cfg.Bus, Host: w.host, Logger: cfg.Logger}), log: w.log,
	}, nil
}

// Host is the node's own host: it has the plugins.
func (n *Node) Host() *session.Host { return n.worker.Host() }

// Tasks is the node's service of background tasks, for closures and hidden tasks.
func (n *Node) Tasks() *Tasks { return n.tasks }

// Start joins the queues.
func (n *Node) Start(ctx context.Context) error {
	if n.Has(RoleTurn) {
		if err := n.worker.Start(ctx); err != nil {
			return err
		}
	}
	if err := n.tasks.Start(ctx); err != nil {
		n.worker.Stop(ctx)
		return err
	}
	if err := n.startService(); err != nil {
		n.tasks.Stop(ctx)
		n.worker.Stop(ctx)
		return err
	}
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	n.cancel = cancel
	if n.Has(RoleTurn) {
		n.wait.Go(func() { n.sweep.Run(beside) })
		n.wait.Go(func() { newOrphans(n.worker).run(beside) })
	}
	if n.Has(RoleProjector) {
		n.wait.Go(func() {
			if err := n.project.Run(beside); err != nil {
				n.log.Error("projector", zap.Error(err))
			}
		})
	}
	if n.Has(RoleArchive) {
		n.wait.Go(func() { n.archive.Run(beside) })
	}
	return nil
}

// startService answers clients, where that is the node's role.
func (n *Node) startService() (err error) {
	n.serve = func(context.Context) error { return nil }
	if n.Has(RoleAPI) {
		about := map[string]string{"worker": string(n.worker.cfg.ID)}
		n.serve, err = service.Serve(n.worker.cfg.Bus, n.Host(), service.Config{Metadata: about, Logger: n.log})
	}
	return err
}

// Stop is soft until ctx ends, then hard; see [Worker.Stop] and [Tasks.Stop].
// Of a node that did not start nothing is to be stopped.
func (n *Node) Stop(ctx context.Context) {
	if n.cancel == nil {
		return
	}
	n.stopping.Store(true)
	var stopping sync.WaitGroup
	stopping.Go(func() {
		if err := n.serve(ctx); err != nil {
			n.log.Warn("session service", zap.Error(err))
		}
	})
	stopping.Go(func() { n.tasks.Stop(ctx) }) // beside the turns, whose tools may wait for tasks
	n.worker.Stop(ctx)
	stopping.Wait()
	n.cancel()
	n.wait.Wait()
}
