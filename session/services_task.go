package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Spawner runs work of this process for sessions.
type Spawner interface {
	SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error
	AwaitHiddenTasks(ctx context.Context, id events.SessionID) error
	SpawnManagedTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error
}

func (s *services) InjectTurnInput(ctx context.Context, id events.SessionID, req api.InjectRequest) error {
	_, err := s.h.Inject(ctx, id, req)
	return err
}

func (s *services) SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work plugin.TaskFunc) error {
	if s.h.spawner == nil {
		return fmt.Errorf("background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.spawner.SpawnHiddenTask(ctx, id, label, work)
}

func (s *services) AwaitHiddenTasks(ctx context.Context, id events.SessionID) error {
	if s.h.spawner == nil {
		return nil
	}
	return s.h.spawner.AwaitHiddenTasks(ctx, id)
}

func (s *services) SpawnManagedTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work plugin.TaskFunc) error {
	if s.h.spawner == nil {
		return fmt.Errorf("managed background tasks: %w", plugin.ErrUnavailable)
	}
	return s.h.spawner.SpawnManagedTask(ctx, id, req, work)
}

func (s *services) CancelManagedTask(ctx context.Context, id events.SessionID, task events.TaskID) error {
	return s.h.CancelManagedTask(ctx, id, task)
}

func (s *services) RegisterBackgroundTask(ctx context.Context, id events.SessionID, req api.TaskRequest) error {
	_, err := s.h.RegisterTask(ctx, id, req)
	return err
}

func (s *services) UnregisterBackgroundTask(ctx context.Context, id events.SessionID, task events.TaskID) error {
	return s.h.UnregisterTask(ctx, id, task)
}

func (s *services) CompleteBackgroundTask(ctx context.Context, id events.SessionID, task events.TaskID, state events.TaskState, summary string) error {
	return s.h.CompleteTask(ctx, id, task, state, summary)
}

func (s *services) TransitionBackgroundTask(ctx context.Context, id events.SessionID, task events.TaskID, state events.TaskState) error {
	return s.h.TransitionTask(ctx, id, task, state)
}

func (s *services) ListBackgroundTasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	return s.h.Tasks(ctx, id)
}

func (s *services) CancelBackgroundTask(ctx context.Context, id events.SessionID, task events.TaskID) (projector.Task, error) {
	return s.h.CancelTask(ctx, id, task)
}

func (s *services) CancelAllBackgroundTasks(ctx context.Context, id events.SessionID) ([]projector.Task, error) {
	return s.h.CancelAllTasks(ctx, id)
}

func (s *services) ValidateAsyncHandlesVisible(ctx context.Context, id events.SessionID, handles []events.TaskID) error {
	return s.h.ValidateHandles(ctx, id, handles)
}

func (s *services) TransferAsyncHandles(ctx context.Context, from, to events.SessionID, handles []events.TaskID) error {
	return s.h.TransferHandles(ctx, from, to, handles)
}

func (s *services) CancelUnreferencedAsyncHandles(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]projector.Task, error) {
	return s.h.CancelUnreferenced(ctx, id, keep)
}

func (s *services) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	return s.h.MonitorSnapshot(ctx, id)
}

func (s *services) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	return s.h.TakeMonitorUpdates(ctx, id)
}

func (s *services) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error) {
	if err := s.h.StartMonitor(ctx, id, spec); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.h.MonitorSnapshot(ctx, id)
}

func (s *services) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) (api.MonitorSnapshot, error) {
	if err := s.h.StopMonitor(ctx, id, monitor); err != nil {
		return api.MonitorSnapshot{}, err
	}
	return s.h.MonitorSnapshot(ctx, id)
}
