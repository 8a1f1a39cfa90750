package plugin

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// TaskFunc is the work of a task. An error fails the task.
type TaskFunc func(ctx context.Context) error

// TaskHost injects input into turns and manages background tasks.
type TaskHost interface {
	// InjectTurnInput puts a message into a session's running turn, or before its next turn.
	InjectTurnInput(ctx context.Context, id events.SessionID, req api.InjectRequest) error
	// SpawnHiddenTask starts work in this process that no list shows.
	SpawnHiddenTask(ctx context.Context, id events.SessionID, label string, work TaskFunc) error
	AwaitHiddenTasks(ctx context.Context, id events.SessionID) error
	// SpawnTask registers a task and runs it in this process. If the process dies, the task fails.
	SpawnTask(ctx context.Context, id events.SessionID, req api.TaskRequest, work TaskFunc) error
	// RegisterTask registers a task that a named runner or a program outside runs.
	RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error)
	UnregisterTask(ctx context.Context, id events.SessionID, task events.TaskID) error
	EndTask(ctx context.Context, id events.SessionID, task events.TaskID, state events.TaskState, summary string) error
	TransitionTask(ctx context.Context, id events.SessionID, task events.TaskID, state events.TaskState) error
	Tasks(ctx context.Context, id events.SessionID) ([]projector.Task, error)
	CancelTask(ctx context.Context, id events.SessionID, task events.TaskID) (projector.Task, error)
	// CancelTaskIfKnown is CancelTask, and ignores an unknown task.
	CancelTaskIfKnown(ctx context.Context, id events.SessionID, task events.TaskID) error
	// CancelTasksExcept cancels the live tasks that are not in keep.
	CancelTasksExcept(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]projector.Task, error)
	// CheckTasks refuses an id that is not a live task of the session.
	CheckTasks(ctx context.Context, id events.SessionID, tasks []events.TaskID) error
	TransferTasks(ctx context.Context, from, to events.SessionID, tasks []events.TaskID) error
}

// MonitorHost runs monitors.
type MonitorHost interface {
	// MonitorSnapshot also starts armed monitors that do not run.
	MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error)
	// TakeMonitorUpdates returns the updates and removes them.
	TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error)
	StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) (api.MonitorSnapshot, error)
	StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) (api.MonitorSnapshot, error)
}
