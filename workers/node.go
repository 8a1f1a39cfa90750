package workers

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/service"
)

// Node is what one process runs on a bus: a worker, background tasks, a
// projector, an archiver, and the session service for clients.
type Node struct {
	worker  *Worker
	tasks   *Tasks
	project *follow.Projector
	archive *follow.Archiver            // nil: sessions stay hot
	serve   func(context.Context) error // stops the session service
	log     *zap.Logger
	cancel  context.CancelFunc
	wait    sync.WaitGroup
}

// NewNode makes a node.
func NewNode(cfg Config) (*Node, error) {
	w, err := New(cfg)
	if err != nil {
		return nil, err
	}
	n := &Node{worker: w, tasks: w.tasks, project: follow.NewProjector(cfg.Bus, cfg.Logger), log: w.log}
	if after := w.cfg.ArchiveAfter; after > 0 {
		n.archive = follow.NewArchiver(cfg.Bus, after, cfg.Logger)
	}
	return n, nil
}

// Host is the node's own host: it has the plugins.
func (n *Node) Host() *session.Host { return n.worker.Host() }

// Tasks is the node's service of background tasks, for closures and hidden tasks.
func (n *Node) Tasks() *Tasks { return n.tasks }

// Start joins the queues.
func (n *Node) Start(ctx context.Context) error {
	if err := n.worker.Start(ctx); err != nil {
		return err
	}
	if err := n.tasks.Start(ctx); err != nil {
		n.worker.Stop(ctx)
		return err
	}
	var err error
	if n.serve, err = service.Serve(n.worker.cfg.Bus, n.Host(), service.Config{Metadata: map[string]string{"worker": string(n.worker.cfg.ID)}, Logger: n.log}); err != nil {
		n.tasks.Stop(ctx)
		n.worker.Stop(ctx)
		return err
	}
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	n.cancel = cancel
	n.wait.Go(func() {
		if err := n.project.Run(beside); err != nil {
			n.log.Error("projector", zap.Error(err))
		}
	})
	if n.archive != nil {
		n.wait.Go(func() { n.archive.Run(beside) })
	}
	return nil
}

// Stop is soft until ctx ends, then hard; see [Worker.Stop] and [Tasks.Stop].
func (n *Node) Stop(ctx context.Context) {
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
