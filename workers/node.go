package workers

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session"
)

// Node is what one process runs on a bus: a worker, background tasks, a projector and an archiver.
type Node struct {
	worker  *Worker
	tasks   *Tasks
	project *follow.Projector
	archive *follow.Archiver // nil: sessions stay hot
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
	beside, cancel := context.WithCancel(context.WithoutCancel(ctx)) // ends with Stop
	n.cancel = cancel
	n.wait.Go(func() {
		if err := n.project.Run(beside); err != nil {
			n.log.Error("projector", zap.Error(err))
		}
	})
	n.wait.Go(func() { newOrphans(n.worker).run(beside) })
	if n.archive != nil {
		n.wait.Go(func() { n.archive.Run(beside) })
	}
	return nil
}

// Stop is soft until ctx ends, then hard; see [Worker.Stop] and [Tasks.Stop].
func (n *Node) Stop(ctx context.Context) {
	var stopping sync.WaitGroup
	stopping.Go(func() { n.tasks.Stop(ctx) }) // beside the turns, whose tools may wait for tasks
	n.worker.Stop(ctx)
	stopping.Wait()
	n.cancel()
	n.wait.Wait()
}
