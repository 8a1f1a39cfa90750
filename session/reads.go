package session

import (
	"context"
	"iter"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/watch"
)

// State implements [api.Service].
func (h *Host) State(ctx context.Context, id events.SessionID) (*projector.State, error) {
	return h.reader.State(ctx, id)
}

// StateAt implements [api.Service].
func (h *Host) StateAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error) {
	return h.reader.StateAt(ctx, id, seq)
}

// View implements [api.Service].
func (h *Host) View(ctx context.Context, id events.SessionID) (projector.ReadView, error) {
	return h.reader.View(ctx, id)
}

// ViewAt implements [api.Finder].
func (h *Host) ViewAt(ctx context.Context, id events.SessionID, seq events.Seq) (projector.ReadView, error) {
	return h.reader.ViewAt(ctx, id, seq)
}

// Sessions implements [api.Finder].
func (h *Host) Sessions(ctx context.Context, q api.SessionQuery) (api.SessionPage, error) {
	return h.reader.Sessions(ctx, q)
}

// Turns implements [api.Finder].
func (h *Host) Turns(ctx context.Context, id events.SessionID, p api.Page) (api.TurnPage, error) {
	return h.reader.Turns(ctx, id, p)
}

// PendingApprovals implements [api.Finder].
func (h *Host) PendingApprovals(ctx context.Context, p api.Page) (api.ApprovalPage, error) {
	return h.reader.PendingApprovals(ctx, p)
}

// FindBlobs implements [api.Bodies].
func (h *Host) FindBlobs(ctx context.Context, id events.SessionID, digests ...string) ([]events.BlobRef, error) {
	return h.reader.FindBlobs(ctx, id, digests...)
}

// ReadBlob implements [api.Bodies].
func (h *Host) ReadBlob(ctx context.Context, id events.SessionID, digest string) ([]byte, error) {
	return h.reader.ReadBlob(ctx, id, digest)
}

// Approvals implements [api.Service].
func (h *Host) Approvals(ctx context.Context, id events.SessionID) ([]projector.Approval, error) {
	return h.reader.Approvals(ctx, id)
}

// Tasks implements [api.Service].
func (h *Host) Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	return h.reader.Tasks(ctx, id)
}

// Task implements [api.Service].
func (h *Host) Task(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return h.reader.Task(ctx, id, name)
}

// AssembledTurn implements [api.Service].
func (h *Host) AssembledTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (api.AssembledTurn, error) {
	return h.reader.AssembledTurn(ctx, id, turn)
}

// ToolOutput implements [api.Service].
func (h *Host) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	return h.reader.ToolOutput(ctx, id, call)
}

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
