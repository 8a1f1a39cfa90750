package operation

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// RegisterTask implements [api.Service]. The task runs in this program, see [api.TaskRequest.CheckOwn].
func (r Requests) RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error) {
	if err := req.CheckOwn(); err != nil { // also checks the fields that are not encoded
		return projector.Task{}, fmt.Errorf("%s: %w", RegisterTask.Name, err)
	}
	return send(ctx, r, RegisterTask, id, req)
}

// ProgressTask implements [api.Service].
func (r Requests) ProgressTask(ctx context.Context, id events.SessionID, name events.TaskID, message string) (projector.Task, error) {
	return send(ctx, r, ProgressTask, id, api.ProgressArgs{Task: name, Message: message})
}

// EndOwnTask implements [api.Service].
func (r Requests) EndOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) (projector.Task, error) {
	return send(ctx, r, EndOwnTask, id, api.EndOwnTaskArgs{Task: name, State: state, Summary: summary})
}

// TransitionOwnTask implements [api.Service].
func (r Requests) TransitionOwnTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState) (projector.Task, error) {
	return send(ctx, r, TransitionOwnTask, id, api.TransitionArgs{Task: name, State: state})
}

// UnregisterOwnTask implements [api.Service].
func (r Requests) UnregisterOwnTask(ctx context.Context, id events.SessionID, name events.TaskID) error {
	return sendOnly(ctx, r, UnregisterOwnTask, id, name)
}

// RequestCancelTask implements [api.Service].
func (r Requests) RequestCancelTask(ctx context.Context, id events.SessionID, name events.TaskID, reason string) (projector.Task, error) {
	return send(ctx, r, RequestCancelTask, id, api.RequestCancelTaskArgs{Task: name, Reason: reason})
}

// CancelTask implements [api.Service].
func (r Requests) CancelTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return send(ctx, r, CancelTask, id, name)
}

// CancelTasks implements [api.Service].
func (r Requests) CancelTasks(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]events.TaskID, error) {
	return send(ctx, r, CancelTasks, id, keep)
}

// TransferTasks implements [api.Service].
func (r Requests) TransferTasks(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error {
	return sendOnly(ctx, r, TransferTasks, from, api.TransferArgs{To: to, Tasks: ids})
}

// StartMonitor implements [api.Service].
func (r Requests) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error {
	return sendOnly(ctx, r, StartMonitor, id, spec)
}

// StopMonitor implements [api.Service].
func (r Requests) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) error {
	return sendOnly(ctx, r, StopMonitor, id, monitor)
}

// MonitorSnapshot implements [api.Service].
func (r Requests) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	return send(ctx, r, MonitorSnapshot, id, None{})
}

// TakeMonitorUpdatesTo implements [Host].
func (r Requests) TakeMonitorUpdatesTo(ctx context.Context, id events.SessionID, upto int64) (api.MonitorUpdates, error) {
	return send(ctx, r, TakeMonitorUpdates, id, upto)
}
