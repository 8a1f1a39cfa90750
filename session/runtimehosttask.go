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
	// SpawnTool registers a background tool and runs work for it. The text that work returns becomes the task's summary.
	// After an error, work does not run. Errors: [api.ErrTaskRunning], where a live task has the id;
	// [plugin.ErrUnavailable], where this process runs no tasks.
	SpawnTool(ctx context.Context, id events.SessionID, req api.TaskRequest, work func(context.Context) (string, error)) error
}

// SpawnTool is that of the [Spawner] of this process.
func (w Worker) SpawnTool(ctx context.Context, id events.SessionID, req api.TaskRequest, work func(context.Context) (string, error)) error {
	if w.Host.process.Spawner == nil {
		return fmt.Errorf("background tools: %w", plugin.ErrUnavailable)
	}
	return w.Host.process.Spawner.SpawnTool(ctx, id, req, work)
}

func (s *runtimeHost) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	if s.h.process.Spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.process.Spawner.SpawnHiddenTask(ctx, id, label, work)
}

func (s *runtimeHost) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	if s.h.process.Spawner == nil {
		return s.h.Worker().AwaitHiddenTasks(ctx, id)
	}
	return s.h.process.Spawner.AwaitHiddenTasks(ctx, id)
}

func (s *runtimeHost) SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	if s.h.process.Spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.process.Spawner.SpawnTask(ctx, id, req, work)
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
