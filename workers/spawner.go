package workers

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// spawner implements [session.Spawner] with the node's service of tasks, which
// is made after the host that uses it.
type spawner struct{ n *Node }

// SpawnHiddenTask implements [session.Spawner].
func (s spawner) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	return s.n.tasks.SpawnHiddenTask(ctx, id, label, work)
}

// AwaitHiddenTasks implements [session.Spawner].
func (s spawner) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	return s.n.tasks.AwaitHiddenTasks(ctx, id)
}

// SpawnManagedTask implements [session.Spawner].
func (s spawner) SpawnManagedTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	return s.n.tasks.SpawnManagedTask(ctx, id, req, work)
}
