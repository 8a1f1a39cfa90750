package workers

import (
	"context"
	"errors"
)

// Running is how many sessions' turns, and how many tasks, the node is at work on.
func (n *Node) Running() (turns, tasks int) {
	n.worker.mu.Lock()
	turns = len(n.worker.runs)
	n.worker.mu.Unlock()
	n.tasks.mu.Lock()
	defer n.tasks.mu.Unlock()
	return turns, len(n.tasks.runs)
}

// ErrStopping is a node that takes no more work.
var ErrStopping = errors.New("node is stopping")

// Ready is nil where the node takes work and its servers answer.
func (n *Node) Ready(ctx context.Context) error {
	if n.stopping.Load() {
		return ErrStopping
	}
	return n.worker.cfg.Bus.Ready(ctx)
}
