package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Spawner runs the work of session tasks in this process.
type Spawner interface {
	SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error
	AwaitHiddenTasks(ctx context.Context, id events.SessionID) error
	SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error
}

func (s *runtimeHost) InjectTurnInput(ctx context.Context, id events.SessionID, req api.InjectRequest) error {
	_, err := s.Inject(ctx, id, req)
	return err
}

func (s *runtimeHost) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	if s.spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.spawner.SpawnHiddenTask(ctx, id, label, work)
}

func (s *runtimeHost) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	if s.spawner == nil {
		return s.Host.AwaitHiddenTasks(ctx, id)
	}
	return s.spawner.AwaitHiddenTasks(ctx, id)
}

func (s *runtimeHost) SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	if s.spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.spawner.SpawnTask(ctx, id, req, work)
}

func (s *runtimeHost) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	if err := s.startArmed(ctx, id); err != nil {
		return api.MonitorSnapshot{}, fmt.Errorf("monitor snapshot: %w", err)
	}
	return s.Host.MonitorSnapshot(ctx, id)
}

func (s *runtimeHost) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error) {
	if err := s.Host.StartMonitor(ctx, id, spec); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.MonitorSnapshot(ctx, id)
}

func (s *runtimeHost) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) (api.MonitorSnapshot, error) {
	if err := s.Host.StopMonitor(ctx, id, monitor); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.MonitorSnapshot(ctx, id)
}
