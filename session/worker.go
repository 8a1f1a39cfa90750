package session

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/states"
)

// Worker is a host with the methods that the workers of its process need: work on tasks under a claim, states and
// plugins that a run shares with the host, commits that a run decided. Package workers is their only caller. Like the
// host it is safe for concurrent use.
type Worker struct {
	Host *Host // what any program may call
}

// Worker returns the host for the workers of its process.
func (h *Host) Worker() Worker { return Worker{h} }

// AsNode returns a worker whose own commits have a node as actor. States and plugins are those of the host.
func (w Worker) AsNode() Worker {
	h := *w.Host
	h.actor.Kind = events.ActorNode
	return Worker{&h}
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
