package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/hint"
	"github.com/lash-go/lash/session/internal/states"
)

// Worker is a host with the methods that the workers of its process need: work on tasks under a claim, states and
// plugins that a run shares with the host, commits that a run decided. Package workers is their only caller. Like the
// host it is safe for concurrent use.
type Worker struct {
	Host  *Host        // what any program may call
	actor events.Actor // of commits that follow from no caller's request; zero: the host's
}

// Worker returns the host for the workers of its process.
func (h *Host) Worker() Worker { return Worker{Host: h} }

// AsNode returns a worker whose own commits have a node as actor.
func (w Worker) AsNode() Worker {
	w.actor = events.Actor{Kind: events.ActorNode, ID: w.Host.actor.ID}
	return w
}

// Process is what the workers of a process do for its host. Every field is optional.
type Process struct {
	// Worker of this process. Wakes name it, because its process has the state cached.
	Worker events.WorkerID
	// NeedsWorker receives a session that needs a worker after a commit of the host, so that a worker of this process
	// starts a run before the wake arrives. It must not block.
	NeedsWorker func(*projector.State)
	// Complete makes direct completions. Without it they are [plugin.ErrUnavailable] on this host.
	Complete CompleteFunc
	// Spawner runs tasks of this process. Without it such tasks are [plugin.ErrUnavailable] on this host.
	Spawner Spawner
}

// Bind gives the host what the workers of its process do for it. The workers are made from the host, so the host gets
// them after [New]: once, before its first request.
func (w Worker) Bind(p Process) {
	w.Host.process = p
	w.Host.hints = hint.New(w.Host.b, p.Worker, p.NeedsWorker)
}

type actorKey struct{}

// as is ctx for a commit of this worker.
func (w Worker) as(ctx context.Context) context.Context {
	if w.actor == (events.Actor{}) {
		return ctx // of the worker that called the host, or of none
	}
	return context.WithValue(ctx, actorKey{}, w.actor)
}

// decide is [Host.decide] for a decision of this worker.
func (w Worker) decide(ctx context.Context, id events.SessionID, cause string, d decideFunc) error {
	return w.Host.decide(w.as(ctx), id, cause, d)
}

// RegisterTask is [Host.RegisterTask] for this worker.
func (w Worker) RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error) {
	return w.Host.RegisterTask(w.as(ctx), id, req)
}

// ResolveTool is [Host.ResolveTool] for this worker.
func (w Worker) ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	return w.Host.ResolveTool(w.as(ctx), id, key, result)
}

// WakeCancelsToPassOn publishes the wakes of the tasks whose cancel has to reach their child session. A worker calls it for a
// state that has such tasks.
func (w Worker) WakeCancelsToPassOn(s *projector.State) { w.Host.hints.CancelsToPassOn(s) }

// TakeState moves the cached state of a session to a worker, with the values computed from it; nil where the cache
// has none. The state may be behind the log. The host keeps a copy.
func (w Worker) TakeState(ctx context.Context, id events.SessionID) *projector.State {
	return w.Host.states.Take(ctx, id)
}

// ReturnState moves a state back to the host's cache, the inverse of [Worker.TakeState]. It replaces an older state.
// The host drops it where its cache has no entry or a newer state.
func (w Worker) ReturnState(ctx context.Context, state *projector.State) {
	w.Host.states.Return(ctx, state)
}

// Subscribe makes a waiter for a condition on a session's state. relevant says which live commits can make the
// condition true; it must not block. The caller closes the waiter.
func (w Worker) Subscribe(id events.SessionID, relevant func(bus.LiveMessage) bool) (*states.Waiter, error) {
	return w.Host.states.Subscribe(id, relevant)
}
