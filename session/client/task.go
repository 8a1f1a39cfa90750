package client

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// RegisterTask implements [api.Service]. The task is one that this program runs, see [api.TaskRequest.Outside].
func (c *Client) RegisterTask(ctx context.Context, id events.SessionID, req api.TaskRequest) (projector.Task, error) {
	if err := req.Outside(); err != nil { // of what does not travel too
		return projector.Task{}, fmt.Errorf("%s: %w", api.OpRegisterTask, err)
	}
	return ask[projector.Task](ctx, c, api.OpRegisterTask, id, &req)
}

// ProgressTask implements [api.Service].
func (c *Client) ProgressTask(ctx context.Context, id events.SessionID, name events.TaskID, message string) (projector.Task, error) {
	return ask[projector.Task](ctx, c, api.OpProgressTask, id, &api.ProgressArgs{Task: name, Message: message})
}

// EndTask implements [api.Service].
func (c *Client) EndTask(ctx context.Context, id events.SessionID, name events.TaskID, state events.TaskState, summary string) (projector.Task, error) {
	return ask[projector.Task](ctx, c, api.OpEndTask, id, &api.EndTaskArgs{Task: name, State: state, Summary: summary})
}

// RequestCancelTask implements [api.Service].
func (c *Client) RequestCancelTask(ctx context.Context, id events.SessionID, name events.TaskID, reason string) (projector.Task, error) {
	return ask[projector.Task](ctx, c, api.OpRequestCancel, id, &api.RequestCancelArgs{Task: name, Reason: reason})
}

// CancelTask implements [api.Service].
func (c *Client) CancelTask(ctx context.Context, id events.SessionID, name events.TaskID) (projector.Task, error) {
	return ask[projector.Task](ctx, c, api.OpCancelTask, id, &name)
}

// CancelTasks implements [api.Service].
func (c *Client) CancelTasks(ctx context.Context, id events.SessionID, keep []events.TaskID) ([]events.TaskID, error) {
	return ask[[]events.TaskID](ctx, c, api.OpCancelTasks, id, &keep)
}

// TransferAsyncHandles implements [api.Service].
func (c *Client) TransferAsyncHandles(ctx context.Context, from, to events.SessionID, ids []events.TaskID) error {
	return tell(ctx, c, api.OpTransferTasks, from, &api.TransferArgs{To: to, Tasks: ids})
}
