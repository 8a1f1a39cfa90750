package operation

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// RegisterTask implements [api.Service]. The task runs in this program, see [api.TaskRequest.Outside].
func (r Remote) RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error) {
	if err := req.Outside(); err != nil { // also checks the fields that are not encoded
		return projector.Task{}, fmt.Errorf("%s: %w", RegisterTask.Name, err)
	}
	return send(ctx, r, RegisterTask, id, req)
}

// ProgressTask implements [api.Service].
func (r Remote) ProgressTask(ctx context.Context, id events.SessionID, name events.TaskID, message string) (projector.Task, error) {
	return send(ctx, r, ProgressTask, id, api.ProgressArgs{Task: name, Message: message})
}

// EndTask implements [api.Service].
func (r Remote) EndTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) (projector.Task, error) {
	return send(ctx, r, EndTask, id, api.EndTaskArgs{Task: name, State: state, Summary: summary})
}

// RequestCancelTask implements [api.Service].
func (r Remote) RequestCancelTask(ctx context.Context, id events.SessionID, name events.TaskID, reason string) (projector.Task, error) {
	return send(ctx, r, RequestCancel, id, api.RequestCancelArgs{Task: name, Reason: reason})
}

// CancelTask implements [api.Service].
func (r Remote) CancelTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return send(ctx, r, CancelTask, id, name)
}

// CancelTasks implements [api.Service].
func (r Remote) CancelTasks(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]events.TaskID, error) {
	return send(ctx, r, CancelTasks, id, keep)
}

// TransferTasks implements [api.Service].
func (r Remote) TransferTasks(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error {
	return sendOnly(ctx, r, TransferTasks, from, api.TransferArgs{To: to, Tasks: ids})
}

// StartMonitor implements [api.Service].
func (r Remote) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error {
	return sendOnly(ctx, r, StartMonitor, id, spec)
}

// StopMonitor implements [api.Service].
func (r Remote) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) error {
	return sendOnly(ctx, r, StopMonitor, id, monitor)
}

// MonitorSnapshot implements [api.Service].
func (r Remote) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	return send(ctx, r, MonitorSnapshot, id, None{})
}

// TakeMonitorUpdatesTo implements [Host].
func (r Remote) TakeMonitorUpdatesTo(ctx context.Context, id events.SessionID, upto int64) (api.MonitorUpdates, error) {
	return send(ctx, r, TakeUpdates, id, upto)
}
