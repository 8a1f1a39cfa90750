package service

import (
	"context"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
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

		api.OpToolState:      bare(h.ToolState),
		api.OpApplyToolState: typed(h.ApplyToolState),
		api.OpSetAvailability: typed(func(ctx context.Context, id events.SessionID, in api.AvailabilityArgs) (int64, error) {
			return h.SetToolsAvailability(ctx, id, in.Names, in.Level)
		}),

		api.OpCancelTask:      typed(h.CancelTask),
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
		if err := api.Configuring(ctx, "snapshot"); err != nil { // before the work that it makes
			return "", err
		}
		s, err := projector.Restore(in.Head)
		if err != nil {
			return "", &events.FieldError{Field: "snapshot", Reason: err.Error(), Err: events.ErrInvalid}
		}
		if err := d.attach(ctx, s, in.Segments); err != nil {
			return "", &events.FieldError{Field: "snapshot", Reason: err.Error(), Err: events.ErrInvalid}
		}
		in.Request.Snapshot = s
	}
	return d.h.Create(ctx, in.Request)
}

// attach makes a state whole, from the segments that came with it and from blobs. Those that came are
// stored: a copy of the state names them.
func (d *door) attach(ctx context.Context, s *projector.State, segments [][]byte) error {
	came := make(map[events.BlobRef][]byte, len(segments))
	for _, data := range segments {
		came[projector.RefOf(data)] = data
	}
	return follow.Complete(ctx, blobsBeside{d.b, came}, s)
}

// blobsBeside are those that came with a request, which it stores when they are asked for, and those that are stored.
type blobsBeside struct {
	*bus.Bus
	came map[events.BlobRef][]byte
}

func (b blobsBeside) Blob(ctx context.Context, ref events.BlobRef) ([]byte, error) {
	if data, ok := b.came[ref]; ok {
		_, err := b.PutBlob(ctx, data)
		return data, err
	}
	return b.Bus.Blob(ctx, ref)
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
