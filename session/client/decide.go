package client

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Create implements [api.Service].
func (c *Client) Create(ctx context.Context, req api.CreateRequest) (events.SessionID, error) {
	if req.ID == "" {
		req.ID = events.SessionID(ulid.Make().String())
	}
	args := api.CreateArgs{Request: req}
	if s := req.Snapshot; s != nil && req.Start == api.StartSnapshot {
		var fresh []projector.Segment
		var err error
		if args.Head, fresh, err = s.Clone().Snapshot(); err != nil {
			return "", fmt.Errorf("create session %s: %w", req.ID, err)
		}
		for _, seg := range fresh {
			args.Segments = append(args.Segments, seg.Data)
		}
	}
	return request[events.SessionID](ctx, c, api.OpCreate, api.Request{Key: ulid.Make().String()}, &args)
}

// Fork implements [api.Service].
func (c *Client) Fork(ctx context.Context, from events.SessionID, req api.CreateRequest) (events.SessionID, error) {
	req.Start, req.From, req.PathOnly = api.StartExisting, from, true
	return c.Create(ctx, req)
}

// Configure implements [api.Service]. The change is made here, and lands only on
// the configuration it was made from: of a repeat, that before the first one's change.
func (c *Client) Configure(ctx context.Context, id events.SessionID, req api.ConfigureRequest) error {
	r, err := keyed(id)
	for moved := true; moved && err == nil; {
		var s *projector.State
		if s, err = c.State(ctx, id); err != nil {
			break
		}
		if first, ok, _ := s.Configured(cmp.Or(req.IdempotencyKey, r.Key)); ok { // the state is whole
			if s, err = c.StateAt(ctx, id, first.Seq-1); err != nil {
				break
			}
		}
		args := api.ConfigureArgs{Previous: s.Config, Current: req.Change(s.Config), Key: req.IdempotencyKey}
		moved, err = request[bool](ctx, c, api.OpConfigure, r, &args)
	}
	return err
}

// CloseSession implements [api.Service].
func (c *Client) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	return tell(ctx, c, api.OpClose, id, &reason)
}

// Grant implements [api.Service].
func (c *Client) Grant(ctx context.Context, id events.SessionID, req api.GrantRequest) error {
	return tell(ctx, c, api.OpGrant, id, &req)
}

// Cancel implements [api.Service].
func (c *Client) Cancel(ctx context.Context, id events.SessionID, turn events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error) {
	if req.ID == "" {
		req.ID = ulid.Make().String()
	}
	a, err := ask[api.CancelAnswer](ctx, c, api.OpCancel, id, &api.CancelArgs{Turn: turn, Request: req})
	return a.Receipt, a.Evidence, err
}

// Inject implements [api.Service].
func (c *Client) Inject(ctx context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error) {
	if req.ID == "" {
		req.ID = events.InputID(ulid.Make().String())
	}
	return request[events.InputID](ctx, c, api.OpInject, plain(id), &req)
}

// CancelInputs implements [api.Service].
func (c *Client) CancelInputs(ctx context.Context, id events.SessionID, inputs ...events.InputID) ([]api.InputReceipt, error) {
	return ask[[]api.InputReceipt](ctx, c, api.OpCancelInputs, id, &inputs)
}

// CancelInputsFrom implements [api.Service].
func (c *Client) CancelInputsFrom(ctx context.Context, id events.SessionID, first events.InputID) (api.InputReceipt, []events.InputID, error) {
	a, err := ask[api.CancelFromAnswer](ctx, c, api.OpCancelInputsFrom, id, &first)
	return a.Receipt, a.Cancelled, err
}

// AppendNodes implements [api.Service].
func (c *Client) AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error) {
	if req.IdempotencyKey == "" {
		req.IdempotencyKey = ulid.Make().String()
	}
	return request[api.AppendedNodes](ctx, c, api.OpAppendNodes, plain(id), &req)
}

// BranchTo implements [api.Service].
func (c *Client) BranchTo(ctx context.Context, id events.SessionID, node events.NodeID) error {
	return tell(ctx, c, api.OpBranch, id, &node)
}

// OpenFrame implements [api.Service].
func (c *Client) OpenFrame(ctx context.Context, id events.SessionID, req api.FrameRequest) (bool, error) {
	return ask[bool](ctx, c, api.OpOpenFrame, id, &req)
}

// Rewrite implements [api.Service].
func (c *Client) Rewrite(ctx context.Context, id events.SessionID, target []api.RewriteMessage) error {
	args := make([]api.RewriteArg, len(target))
	for i, m := range target {
		args[i] = api.RewriteArg{Message: m.Message, Transient: m.Transient}
	}
	return tell(ctx, c, api.OpRewrite, id, &args)
}

// Compact implements [api.Service].
func (c *Client) Compact(ctx context.Context, id events.SessionID) (bool, error) {
	return ask[bool](ctx, c, api.OpCompact, id, &none{})
}

// Approve implements [api.Service].
func (c *Client) Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	return tell(ctx, c, api.OpApprove, id, &answer)
}

// ResolveTool implements [api.Service].
func (c *Client) ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	return tell(ctx, c, api.OpResolveTool, id, &api.ResolveArgs{Key: key, Result: result})
}

// TakeFirstTurnInput implements [api.Service].
func (c *Client) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error) {
	first, err := ask[events.Message](ctx, c, api.OpTakeFirstInput, id, &none{})
	if err != nil || first.IsZero() {
		return nil, err
	}
	return &first, nil
}

// Complete is that of the host. It spends money once: its repeats have a key.
func (c *Client) Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	return ask[plugin.Completion](ctx, c, api.OpComplete, id, &session.CompleteArgs{Request: req, Source: source})
}

// SetProtocolOptions implements [api.Service].
func (c *Client) SetProtocolOptions(ctx context.Context, id events.SessionID, options json.RawMessage, allFrames bool) error {
	return tell(ctx, c, api.OpProtocolOptions, id, &api.ProtocolOptionsArgs{Options: options, All: allFrames})
}

// ApplyExtension implements [api.Service].
func (c *Client) ApplyExtension(ctx context.Context, id events.SessionID, e events.Extension) error {
	return tell(ctx, c, api.OpApplyExtension, id, &e)
}

// ToolCatalog implements [api.Service].
func (c *Client) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	return request[[]json.RawMessage](ctx, c, api.OpToolCatalog, plain(id), &none{})
}

// ToolState implements [api.Service].
func (c *Client) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	return request[api.ToolState](ctx, c, api.OpToolState, plain(id), &none{})
}

// ApplyToolState implements [api.Service].
func (c *Client) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error) {
	return ask[int64](ctx, c, api.OpApplyToolState, id, &state)
}

// SetToolsAvailability implements [api.Service].
func (c *Client) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error) {
	return ask[int64](ctx, c, api.OpSetAvailability, id, &api.AvailabilityArgs{Names: names, Level: level})
}

// StartMonitor implements [api.Service].
func (c *Client) StartMonitor(ctx context.Context, id events.SessionID, spec events.MonitorSpec) error {
	return tell(ctx, c, api.OpStartMonitor, id, &spec)
}

// StopMonitor implements [api.Service].
func (c *Client) StopMonitor(ctx context.Context, id events.SessionID, monitor events.MonitorID) error {
	return tell(ctx, c, api.OpStopMonitor, id, &monitor)
}

// MonitorSnapshot implements [api.Service].
func (c *Client) MonitorSnapshot(ctx context.Context, id events.SessionID) (api.MonitorSnapshot, error) {
	return request[api.MonitorSnapshot](ctx, c, api.OpMonitorSnapshot, plain(id), &none{})
}

// TakeMonitorUpdates implements [api.Service]. It takes what there is when it is
// called: a copy of the request that some node comes to late must not take
// what nobody would hear of.
func (c *Client) TakeMonitorUpdates(ctx context.Context, id events.SessionID) (api.MonitorUpdates, error) {
	s, err := c.State(ctx, id)
	if err != nil {
		return api.MonitorUpdates{}, fmt.Errorf("take monitor updates: %w", err)
	}
	return ask[api.MonitorUpdates](ctx, c, api.OpTakeUpdates, id, &s.Feed.Sequence)
}

// PutBlob stores a body outside the log that no history names yet: see StoreBlob. It has to fit a request.
func (c *Client) PutBlob(ctx context.Context, body []byte) (events.BlobRef, error) {
	return request[events.BlobRef](ctx, c, api.OpPutBlob, api.Request{}, &body)
}

// StoreBlob implements [api.Bodies].
func (c *Client) StoreBlob(ctx context.Context, id events.SessionID, body []byte) (events.BlobRef, error) {
	return ask[events.BlobRef](ctx, c, api.OpPutBlob, id, &body)
}

// Actions is that of the host.
func (c *Client) Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error) {
	return request[[]plugin.ActionDef](ctx, c, api.OpActions, plain(id), &none{})
}

// InvokeAction is that of the host. An action may do anything, so it is never
// asked for twice: where nobody knows what became of it the error is [events.ErrOutcomeUnknown].
func (c *Client) InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (out plugin.Result, err error) {
	data, err := c.encode(plain(id), &api.ActionArgs{Name: name, Args: args})
	if err != nil {
		return out, fmt.Errorf("%s: %w", api.OpInvokeAction, err)
	}
	err = repeat(ctx, isUndone, func() error {
		_, err := c.once(ctx, api.OpInvokeAction, data, &out)
		return err
	})
	return out, err
}
