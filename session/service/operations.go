package service

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// operations is everything that can be asked.
func (d *door) operations() map[api.Operation]operation {
	h := d.h
	return map[api.Operation]operation{
		api.OpCreate:    typed(d.create),
		api.OpConfigure: typed(d.configure),
		api.OpClose:     silent(h.CloseSession),
		api.OpGrant:     silent(h.Grant),

		api.OpSubmit: typed(h.SubmitTurn),
		api.OpSubmitAt: typed(func(ctx context.Context, id events.SessionID, in api.SubmitAtArgs) (events.TurnID, error) {
			return h.SubmitAt(ctx, id, in.At.Time(), in.Request)
		}),
		api.OpCancel: typed(func(ctx context.Context, id events.SessionID, in api.CancelArgs) (a api.CancelAnswer, err error) {
			a.Receipt, a.Evidence, err = h.Cancel(ctx, id, in.Turn, in.Request)
			return a, err
		}),

		api.OpInject: typed(h.Inject),
		api.OpCancelInputs: typed(func(ctx context.Context, id events.SessionID, inputs []events.InputID) ([]api.InputReceipt, error) {
			return h.CancelInputs(ctx, id, inputs...)
		}),
		api.OpCancelInputsFrom: typed(func(ctx context.Context, id events.SessionID, first events.InputID) (a api.CancelFromAnswer, err error) {
			a.Receipt, a.Cancelled, err = h.CancelInputsFrom(ctx, id, first)
			return a, err
		}),

		api.OpAppendNodes: typed(h.AppendNodes),
		api.OpBranch:      silent(h.BranchTo),
		api.OpOpenFrame:   typed(h.OpenFrame),
		api.OpRewrite:     silent(d.rewrite),
		api.OpCompact:     bare(h.Compact),

		api.OpApprove: silent(h.Approve),
		api.OpResolveTool: silent(func(ctx context.Context, id events.SessionID, in api.ResolveArgs) error {
			return h.ResolveTool(ctx, id, in.Key, in.Result)
		}),

		api.OpTakeFirstInput: bare(func(ctx context.Context, id events.SessionID) (m events.Message, err error) {
			first, err := h.TakeFirstTurnInput(ctx, id)
			if first != nil {
				m = *first
			}
			return m, err
		}),
		api.OpComplete: typed(func(ctx context.Context, id events.SessionID, in session.CompleteArgs) (plugin.Completion, error) {
			return h.Complete(ctx, id, in.Request, in.Source)
		}),
		api.OpProtocolOptions: silent(func(ctx context.Context, id events.SessionID, in api.ProtocolOptionsArgs) error {
			return h.SetProtocolOptions(ctx, id, in.Options, in.All)
		}),
		api.OpApplyExtension: silent(h.ApplyExtension),

		api.OpToolCatalog:    bare(h.ToolCatalog),
		api.OpToolState:      bare(h.ToolState),
		api.OpApplyToolState: typed(h.ApplyToolState),
		api.OpSetAvailability: typed(func(ctx context.Context, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
			return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
		}),

		api.OpRegisterTask: typed(func(ctx context.Context, id events.SessionID, in api.TaskRequest) (t projector.Task, err error) {
			if err := in.Outside(); err != nil {
				return t, err
			}
			return h.RegisterTask(ctx, id, in)
		}),
		api.OpProgressTask: typed(func(ctx context.Context, id events.SessionID, in api.ProgressArgs) (projector.Task, error) {
			return h.ProgressTask(ctx, id, in.Task, in.Message)
		}),
		api.OpEndTask: typed(func(ctx context.Context, id events.SessionID, in api.EndTaskArgs) (projector.Task, error) {
			return h.EndTask(ctx, id, in.Task, in.State, in.Summary)
		}),
		api.OpRequestCancel: typed(func(ctx context.Context, id events.SessionID, in api.RequestCancelArgs) (projector.Task, error) {
			return h.RequestCancelTask(ctx, id, in.Task, in.Reason)
		}),
		api.OpCancelTask:  typed(h.CancelTask),
		api.OpCancelTasks: typed(h.CancelTasks),
		api.OpTransferTasks: silent(func(ctx context.Context, id events.SessionID, in api.TransferArgs) error {
			return h.TransferAsyncHandles(ctx, id, in.To, in.Tasks)
		}),
		api.OpStartMonitor:    silent(h.StartMonitor),
		api.OpStopMonitor:     silent(h.StopMonitor),
		api.OpMonitorSnapshot: bare(h.MonitorSnapshot),
		api.OpTakeUpdates:     typed(h.TakeMonitorUpdatesTo),

		api.OpPutBlob: typed(func(ctx context.Context, id events.SessionID, body []byte) (events.BlobRef, error) {
			if id != "" {
				return h.StoreBlob(ctx, id, body)
			}
			return d.b.PutBlob(ctx, body)
		}),
		api.OpActions: bare(h.Actions),
		api.OpInvokeAction: typed(func(ctx context.Context, id events.SessionID, in api.ActionArgs) (plugin.Result, error) {
			return h.InvokeAction(ctx, id, in.Name, in.Args)
		}),
	}
}

func (d *door) create(ctx context.Context, _ events.SessionID, in api.CreateArgs) (events.SessionID, error) {
	if len(in.Head) > 0 {
		var err error
		if in.Request.Snapshot, err = d.h.RestoreSnapshot(ctx, in.Head, in.Segments); err != nil {
			return "", err
		}
	}
	return d.h.Create(ctx, in.Request)
}

// configure replaces the configuration, if it is the one that it was made from. It tells whether that moved.
func (d *door) configure(ctx context.Context, id events.SessionID, in api.ConfigureArgs) (moved bool, err error) {
	err = d.h.Configure(ctx, id, api.ConfigureRequest{IdempotencyKey: in.Key, Change: func(now events.Config) events.Config {
		if moved = now != in.Previous; moved {
			return now
		}
		return in.Current
	}})
	return moved, err
}

func (d *door) rewrite(ctx context.Context, id events.SessionID, in []api.RewriteArg) error {
	target := make([]api.RewriteMessage, len(in))
	for i, m := range in {
		target[i] = api.RewriteMessage{Message: m.Message, Transient: m.Transient}
	}
	return d.h.Rewrite(ctx, id, target)
}
