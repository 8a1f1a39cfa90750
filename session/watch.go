package session

import (
	"context"
	"iter"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/watch"
)

// Observe implements [api.Service].
func (h *Host) Observe(ctx context.Context, id events.SessionID, cursor events.Seq) iter.Seq2[api.Observed, error] {
	return h.watcher.Observe(ctx, id, cursor)
}

// WatchTurn yields the events of a waiting, running or ended turn, from the first to done. It reads the session from
// its start. A turn that the history does not have is [api.ErrUnknownTurn]. Errors inside the stream are terminal, and
// are those of [Host.Observe].
func (h *Host) WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error) {
	return h.watcher.WatchTurn(ctx, id, turn)
}

// Await implements [api.Service].
func (h *Host) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	return h.watcher.Await(ctx, id, turn)
}

// Run implements [api.Service].
func (h *Host) Run(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.TurnResult, error) {
	return h.watcher.Run(ctx, h, id, req)
}

// StartTurnStream implements [api.Service].
func (h *Host) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	return h.watcher.StartTurnStream(ctx, h, id, req)
}

// WithWaiting returns a context for calls of a host. A wait for a turn calls begin when it starts, and end when the
// turn has ended.
func WithWaiting(ctx context.Context, begin func() (end func())) context.Context {
	return watch.WithWaiting(ctx, begin)
}

// BeginWait begins a wait of another kind, for the code of [WithWaiting] in ctx, until end is called.
func BeginWait(ctx context.Context) (end func()) { return watch.BeginWait(ctx) }
