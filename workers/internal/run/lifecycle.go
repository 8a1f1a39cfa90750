package run

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/internal/wake"
)

// tellPersisted tells the plugins of a turn whose end is in the history. The run does not wait.
func (r *run) tellPersisted(id events.TurnID) {
	if r.stack.Session == nil || !r.stack.HasLifecycle() {
		return
	}
	stack, state, blobs := r.stack.Session, r.state.Clone(), r.p.cfg.Calls.Blobs
	r.p.jobs.Go(func() { // waited for by the pool's Stop
		ctx, cancel := context.WithTimeout(context.Background(), wake.StopWait) // the run may end before
		defer cancel()
		if err := session.FillState(ctx, blobs, state); err != nil {
			r.p.warn(state.Session, err) // they are told all the same, and the body is a reference
		}
		stack.Tell(ctx, plugin.Lifecycle{
			Kind: plugin.TurnPersisted, Session: state.Session, Turn: id, State: state, Host: r.p.cfg.Host.Services(state.Session, nil, ""),
		})
	})
}
