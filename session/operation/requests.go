package operation

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Transport sends requests to a host in another process. It repeats a request, as the row's [Repeat] allows, until it
// has the answer or ctx ends. It decodes the answer into out.
type Transport interface {
	Send(ctx context.Context, r *Row, id events.SessionID, key string, in, out any) error
}

// Requests sends operations to a host in another process. It creates the ids that a request leaves out, so that repeats
// have the same ids.
type Requests struct{ Transport }

func newID[ID ~string](given ID) ID { return cmp.Or(given, ID(ulid.Make().String())) }

// send sends a request, with a new key where its repeats are recognised by that.
func send[In, Out any](ctx context.Context, r Requests, op *Op[In, Out], id events.SessionID, in In) (out Out, err error) {
	key := ""
	if op.Repeat == ByKey {
		key = newID("")
	}
	if !op.anywhere() {
		err = events.CheckToken("session", id)
	}
	if err == nil {
		err = r.Send(ctx, &op.Row, id, key, &in, &out)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", op.Name, err)
	}
	return out, err
}

func sendOnly[In any](ctx context.Context, r Requests, op *Op[In, None], id events.SessionID, in In) error {
	_, err := send(ctx, r, op, id, in)
	return err
}

// Create implements [api.Service].
func (r Requests) Create(ctx context.Context, req api.CreateRequest) (events.SessionID, error) {
	req.ID = newID(req.ID)
	args := api.CreateArgs{Request: req}
	if err := req.CheckSnapshot(); err != nil {
		return "", fmt.Errorf("create session %s: %w", req.ID, err)
	}
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
	id, err := send(ctx, r, Create, "", args)
	if len(args.Segments) > 0 && errors.Is(err, events.ErrTooLarge) {
		args.Segments = nil // of a session that is still there, the node has them
		if id, again := send(ctx, r, Create, "", args); again == nil {
			return id, nil
		}
	}
	return id, err
}

// Fork implements [api.Service].
func (r Requests) Fork(ctx context.Context, from events.SessionID, req api.CreateRequest) (events.SessionID, error) {
	req.Start, req.From, req.PathOnly = api.StartExisting, from, true
	return r.Create(ctx, req)
}

// CloseSession implements [api.Service].
func (r Requests) CloseSession(ctx context.Context, id events.SessionID, reason string) error {
	return sendOnly(ctx, r, CloseSession, id, reason)
}

// Grant implements [api.Service].
func (r Requests) Grant(ctx context.Context, id events.SessionID, req api.GrantRequest) error {
	return sendOnly(ctx, r, Grant, id, req)
}

// SetProtocolOptions implements [api.Service].
func (r Requests) SetProtocolOptions(ctx context.Context, id events.SessionID, options json.RawMessage, allFrames bool) error {
	return sendOnly(ctx, r, SetProtocolOptions, id, api.ProtocolOptionsArgs{Options: options, All: allFrames})
}

// ApplyExtension implements [api.Service].
func (r Requests) ApplyExtension(ctx context.Context, id events.SessionID, e events.Extension) error {
	return sendOnly(ctx, r, ApplyExtension, id, e)
}

// ReplaceExtensions implements [api.Service].
func (r Requests) ReplaceExtensions(ctx context.Context, id events.SessionID, list []events.Extension) error {
	return sendOnly(ctx, r, ReplaceExtensions, id, list)
}

// SubmitTurn implements [Host].
func (r Requests) SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitResponse, error) {
	req.ID = newID(req.ID)
	return send(ctx, r, Submit, id, req)
}

// Submit implements [api.Service].
func (r Requests) Submit(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	a, err := r.SubmitTurn(ctx, id, req)
	return a.Turn, err
}

// SubmitAt implements [api.Service].
func (r Requests) SubmitAt(ctx context.Context, id events.SessionID, at time.Time, req api.TurnRequest) (events.TurnID, error) {
	req.ID = newID(req.ID)
	return send(ctx, r, SubmitAt, id, api.SubmitAtArgs{At: events.MillisOf(at), Request: req})
}

// Cancel implements [api.Service].
func (r Requests) Cancel(ctx context.Context, id events.SessionID, turn events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error) {
	req.ID = newID(req.ID)
	a, err := send(ctx, r, Cancel, id, api.CancelArgs{Turn: turn, Request: req})
	return a.Receipt, a.Evidence, err
}

// Inject implements [api.Service].
func (r Requests) Inject(ctx context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error) {
	req.ID = newID(req.ID)
	return send(ctx, r, Inject, id, req)
}

// CancelInputs implements [api.Service].
func (r Requests) CancelInputs(ctx context.Context, id events.SessionID, inputs ...events.InputID) ([]api.InputReceipt, error) {
	return send(ctx, r, CancelInputs, id, inputs)
}

// CancelInputsFrom implements [api.Service].
func (r Requests) CancelInputsFrom(ctx context.Context, id events.SessionID, first events.InputID) (api.InputReceipt, []events.InputID, error) {
	a, err := send(ctx, r, CancelInputsFrom, id, first)
	return a.Receipt, a.Cancelled, err
}

// TakeFirstTurnInput implements [api.Service].
func (r Requests) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (*events.Message, error) {
	first, err := send(ctx, r, TakeFirstTurnInput, id, None{})
	if err != nil || first.IsZero() {
		return nil, err
	}
	return &first, nil
}

// Complete is that of [Host]. Its repeats have a key, so the model call is paid once.
func (r Requests) Complete(ctx context.Context, id events.SessionID, req plugin.CompletionRequest, source string) (plugin.Completion, error) {
	if req.Stream != nil {
		ctx = WithStream(ctx, req.Stream)
	}
	return send(ctx, r, Complete, id, CompleteArgs{Request: req, Source: source})
}

// AppendNodes implements [api.Service].
func (r Requests) AppendNodes(ctx context.Context, id events.SessionID, req api.AppendNodesRequest) (api.AppendedNodes, error) {
	req.IdempotencyKey = newID(req.IdempotencyKey)
	return send(ctx, r, AppendNodes, id, req)
}

// BranchTo implements [api.Service].
func (r Requests) BranchTo(ctx context.Context, id events.SessionID, node events.NodeID) error {
	return sendOnly(ctx, r, BranchTo, id, node)
}

// OpenFrame implements [api.Service].
func (r Requests) OpenFrame(ctx context.Context, id events.SessionID, req api.FrameRequest) (bool, error) {
	return send(ctx, r, OpenFrame, id, req)
}

// Rewrite implements [api.Service].
func (r Requests) Rewrite(ctx context.Context, id events.SessionID, target []api.RewriteMessage) error {
	return sendOnly(ctx, r, Rewrite, id, target)
}

// Compact implements [api.Service].
func (r Requests) Compact(ctx context.Context, id events.SessionID) (bool, error) {
	return send(ctx, r, Compact, id, None{})
}

// StoreBlob implements [api.Bodies].
func (r Requests) StoreBlob(ctx context.Context, id events.SessionID, body []byte) (ref events.BlobRef, err error) {
	if id == "" {
		err = r.Send(ctx, &StoreBlob.Row, "", "", &body, &ref)
		return ref, err
	}
	return send(ctx, r, StoreBlob, id, body)
}

// Approve implements [api.Service].
func (r Requests) Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	return sendOnly(ctx, r, Approve, id, answer)
}

// ResolveTool implements [api.Service].
func (r Requests) ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	return sendOnly(ctx, r, ResolveTool, id, api.ResolveArgs{Key: key, Result: result})
}

// ToolCatalog implements [api.Service].
func (r Requests) ToolCatalog(ctx context.Context, id events.SessionID) ([]json.RawMessage, error) {
	return send(ctx, r, ToolCatalog, id, None{})
}

// ToolState implements [api.Service].
func (r Requests) ToolState(ctx context.Context, id events.SessionID) (api.ToolState, error) {
	state, err := send(ctx, r, ToolState, id, None{})
	if err == nil {
		err = state.Unpack()
	}
	return state, err
}

// ApplyToolState implements [api.Service].
func (r Requests) ApplyToolState(ctx context.Context, id events.SessionID, state api.ToolState) (int64, error) {
	state.Contracts = nil
	return send(ctx, r, ApplyToolState, id, state)
}

// SetToolsAvailability implements [api.Service].
func (r Requests) SetToolsAvailability(ctx context.Context, id events.SessionID, names []string, level events.Override) (int64, error) {
	return send(ctx, r, SetToolsAvailability, id, api.AvailabilityArgs{Names: names, Level: level})
}

// ToolSources implements [api.Service].
func (r Requests) ToolSources(ctx context.Context, id events.SessionID) ([]api.ToolSource, error) {
	return send(ctx, r, ToolSources, id, None{})
}

// AddToolSource implements [api.Service].
func (r Requests) AddToolSource(ctx context.Context, id events.SessionID, source string) (int64, error) {
	return send(ctx, r, AddToolSource, id, source)
}

// RemoveToolSource implements [api.Service].
func (r Requests) RemoveToolSource(ctx context.Context, id events.SessionID, source string) (int64, error) {
	return send(ctx, r, RemoveToolSource, id, source)
}

// RefreshCatalog implements [api.Service].
func (r Requests) RefreshCatalog(ctx context.Context, id events.SessionID) (int64, error) {
	return send(ctx, r, RefreshCatalog, id, None{})
}

// ExternalPlugins is that of [Host].
func (r Requests) ExternalPlugins(ctx context.Context) ([]api.ExternalPlugin, error) {
	return send(ctx, r, ExternalPlugins, "", None{})
}

// Actions is that of [Host].
func (r Requests) Actions(ctx context.Context, id events.SessionID) ([]plugin.ActionDef, error) {
	return send(ctx, r, Actions, id, None{})
}

// InvokeAction is that of [Host]. An action can have any effect, so it is sent once, and again only if no node
// received it. If the outcome is unknown, the error is [events.ErrOutcomeUnknown].
func (r Requests) InvokeAction(ctx context.Context, id events.SessionID, name string, args json.RawMessage) (plugin.Result, error) {
	return send(ctx, r, InvokeAction, id, api.ActionArgs{Name: name, Args: args})
}
