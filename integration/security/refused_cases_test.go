package security

import (
	"context"
	"strings"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/session/api"
)

// apiOperations has the operations of every API, as far as these tests use them.
type apiOperations interface {
	Submit(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, error)
	SubmitAt(ctx context.Context, id events.SessionID, at time.Time, req api.TurnRequest) (events.TurnID, error)
	Inject(ctx context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error)
	Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error
	ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error
	Cancel(ctx context.Context, id events.SessionID, turn events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error)
}

// small is that many parts, each too small for a blob, of about that many bytes together.
func small(size int) []events.Part {
	list := make([]events.Part, max(size/11, 1))
	for i := range list {
		list[i] = harness.Text("x")
	}
	return list
}

// unspilled is a part with that many bytes that do not go to a blob.
func unspilled(size int) []events.Part {
	return []events.Part{{Kind: events.PartText, Text: "x", MediaType: strings.Repeat("m", size)}}
}

func longID(size int) string { return strings.Repeat("i", size) }

// tooLong are the fields of a request with a limit: each has about that many bytes at the limit.
var tooLong = map[string]struct {
	limit int
	inner bool // HTTP has no field for it
	ask   func(ctx context.Context, by apiOperations, id events.SessionID, size int) error
}{
	"submit_parts":    {events.MaxEventBytes, false, submits(func(size int) api.TurnRequest { return turnWith("t2", small(size)) })},
	"submit_field":    {events.MaxEventBytes, true, submits(func(size int) api.TurnRequest { return turnWith("t2", unspilled(size)) })},
	"submit_id":       {events.MaxTokenBytes, false, submits(func(size int) api.TurnRequest { return turnWith(longID(size), small(11)) })},
	"submit_at_parts": {events.MaxEventBytes, false, submitsAt(func(size int) api.TurnRequest { return turnWith("t2", small(size)) })},
	"submit_at_field": {events.MaxEventBytes, true, submitsAt(func(size int) api.TurnRequest { return turnWith("t2", unspilled(size)) })},
	"submit_at_id":    {events.MaxTokenBytes, false, submitsAt(func(size int) api.TurnRequest { return turnWith(longID(size), small(11)) })},
	"inject_parts":    {events.MaxEventBytes, false, injects(func(size int) api.InjectRequest { return api.InjectRequest{ID: "i1", Parts: small(size)} })},
	"inject_field":    {events.MaxEventBytes, true, injects(func(size int) api.InjectRequest { return api.InjectRequest{ID: "i1", Parts: unspilled(size)} })},
	"inject_id": {events.MaxIDBytes, false, injects(func(size int) api.InjectRequest {
		return api.InjectRequest{ID: events.InputID(longID(size)), Parts: small(11)}
	})},
	"approve_reason": {events.MaxEventBytes, false, approves(func(size int) events.ToolApprovalGiven {
		return events.ToolApprovalGiven{Effect: harness.AddEffect, Granted: true, Reason: longID(size)}
	})},
	"deny_reason": {events.MaxEventBytes, false, approves(func(size int) events.ToolApprovalGiven {
		return events.ToolApprovalGiven{Effect: harness.AddEffect, Reason: longID(size)}
	})},
	"approve_by": {events.MaxEventBytes, true, approves(func(size int) events.ToolApprovalGiven {
		return events.ToolApprovalGiven{Effect: harness.AddEffect, Granted: true, By: longID(size)}
	})},
	"cancel_reason": {events.MaxEventBytes, false, cancels(func(size int) api.CancelRequest { return api.CancelRequest{ID: "r", Reason: longID(size)} })},
	"cancel_origin": {events.MaxEventBytes, true, cancels(func(size int) api.CancelRequest { return api.CancelRequest{ID: "r", Origin: longID(size)} })},
	"cancel_id":     {events.MaxIDBytes, false, cancels(func(size int) api.CancelRequest { return api.CancelRequest{ID: longID(size)} })},
	"resolve_code": {events.MaxEventBytes, false, resolves(func(size int) events.ToolResult {
		return events.ToolResult{Outcome: events.OutcomeFailure, Text: "no", Code: longID(size)}
	})},
	"resolve_parts": {events.MaxEventBytes, true, resolves(func(size int) events.ToolResult {
		return events.ToolResult{Outcome: events.OutcomeSuccess, Text: "yes", Attachments: small(size)}
	})},
}

func turnWith(id string, parts []events.Part) api.TurnRequest {
	return api.TurnRequest{ID: events.TurnID(id), Input: events.TurnInput{Parts: parts}}
}

type longRequest = func(ctx context.Context, by apiOperations, id events.SessionID, size int) error

func submits(of func(int) api.TurnRequest) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		_, err := by.Submit(ctx, id, of(size))
		return err
	}
}

func submitsAt(of func(int) api.TurnRequest) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		_, err := by.SubmitAt(ctx, id, time.Now(), of(size))
		return err
	}
}

func injects(of func(int) api.InjectRequest) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		_, err := by.Inject(ctx, id, of(size))
		return err
	}
}

func approves(of func(int) events.ToolApprovalGiven) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		return by.Approve(ctx, id, of(size))
	}
}

func cancels(of func(int) api.CancelRequest) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		_, _, err := by.Cancel(ctx, id, "t1", of(size))
		return err
	}
}

func resolves(of func(int) events.ToolResult) longRequest {
	return func(ctx context.Context, by apiOperations, id events.SessionID, size int) error {
		return by.ResolveTool(ctx, id, "t1/0/1", of(size))
	}
}
