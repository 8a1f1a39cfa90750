package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Spawner runs the work of session tasks in this process.
type Spawner interface {
	SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error
	AwaitHiddenTasks(ctx context.Context, id events.SessionID) error
	SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error
}

func (s *runtimeHost) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	if s.h.cfg.Spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.cfg.Spawner.SpawnHiddenTask(ctx, id, label, work)
}

func (s *runtimeHost) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	if s.h.cfg.Spawner == nil {
		return s.h.Worker().AwaitHiddenTasks(ctx, id)
	}
	return s.h.cfg.Spawner.AwaitHiddenTasks(ctx, id)
}

func (s *runtimeHost) SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	if s.h.cfg.Spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.cfg.Spawner.SpawnTask(ctx, id, req, work)
}

func (s *runtimeHost) CancelTasksExcept(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]projector.Task, error) {
	list, err := s.h.cancelUnreferenced(ctx, id, keep)
	if errors.Is(err, events.ErrNoSession) {
		return nil, nil
	}
	return list, err
}

func (s *runtimeHost) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	if err := s.h.startArmed(ctx, id); err != nil {
		return api.MonitorSnapshot{}, fmt.Errorf("monitor snapshot: %w", err)
	}
	return s.h.MonitorSnapshot(ctx, id)
}

func (s *runtimeHost) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error) {
	if err := s.h.StartMonitor(ctx, id, spec); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.MonitorSnapshot(ctx, id)
}

func (s *runtimeHost) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) (api.MonitorSnapshot, error) {
	if err := s.h.StopMonitor(ctx, id, monitor); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.MonitorSnapshot(ctx, id)
}
