package session

import (
	"context"
	"encoding/json"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// The capabilities that are methods of the host. The tasks are in runtimehosttask.go.

func (s *runtimeHost) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	return s.h.ToolCatalog(ctx, id)
}

func (s *runtimeHost) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	return s.h.ToolState(ctx, id)
}

func (s *runtimeHost) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error) {
	return s.h.ApplyToolState(ctx, id, state)
}

func (s *runtimeHost) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error) {
	return s.h.SetToolsAvailability(ctx, id, names, level)
}

func (s *runtimeHost) ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error) {
	return s.h.ToolSources(ctx, id)
}

func (s *runtimeHost) AddToolSource(ctx context.Context, id events.SessionID, source string) (int64, error) {
	return s.h.AddToolSource(ctx, id, source)
}

func (s *runtimeHost) RemoveToolSource(ctx context.Context, id events.SessionID, source string) (int64, error) {
	return s.h.RemoveToolSource(ctx, id, source)
}

func (s *runtimeHost) RefreshCatalog(ctx context.Context, id events.SessionID) (int64, error) {
	return s.h.RefreshCatalog(ctx, id)
}

func (s *runtimeHost) ToolOutput(ctx context.Context, id events.SessionID, call events.EffectID) (string, error) {
	return s.h.ToolOutput(ctx, id, call)
}

func (s *runtimeHost) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error) {
	return s.h.TakeFirstTurnInput(ctx, id)
}

func (s *runtimeHost) AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error) {
	return s.h.AppendNodes(ctx, id, req)
}

func (s *runtimeHost) ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error {
	return s.h.ResolveAt(ctx, id, key, at, result)
}

func (s *runtimeHost) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	return s.h.TakeMonitorUpdates(ctx, id)
}
