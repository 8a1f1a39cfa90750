package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/callback"
	"github.com/lash-go/lash/workers/external/internal/result"
)

// refuse decodes the body of a callback that is no operation of the API, an object with a field. It is nil for one that the operator
// allows.
func (o *instanceCall) refuse(in *wire.Callback, operation string, body any, field string) *wire.CallbackAnswer {
	switch {
	case !slices.Contains(o.p.registry.Settings(o.plugin).Callbacks, operation):
		return callback.Problem(http.StatusForbidden, "forbidden", "", fmt.Sprintf("the operator does not allow this plugin the operation %q", operation))
	case in.Method != http.MethodPost:
		return callback.Problem(http.StatusBadRequest, "invalid_parameter", "method", "method: want POST")
	case wire.Decode(in.Body, body) != nil:
		return callback.Problem(http.StatusBadRequest, "invalid_parameter", "body", "body: want an object with "+field)
	}
	return nil
}

// trace writes a trace event of a call.
func (o *instanceCall) trace(ctx context.Context, in *wire.Callback) *wire.CallbackAnswer {
	var event wire.Trace
	if refused := o.refuse(in, wire.TraceOperation, &event, "name"); refused != nil {
		return refused
	}
	if err := event.Validate(); err != nil {
		return callback.InvalidField(err)
	}
	if o.call.Host != nil { // the host says that it never fails
		_ = o.call.Host.EmitTrace(ctx, result.Place(event.Context).Of(o.plugin), api.TraceEvent{Name: "plugin." + o.plugin + "." + event.Name, Payload: event.Payload})
	}
	return &wire.CallbackAnswer{Status: http.StatusNoContent}
}

// ask asks people for a call. Without their answer in the history it returns nil: this node waits no longer for the
// instance, whose program goes on.
//
//	instance                              node                                    history
//	callback, every 2 s ────────────────► records the question ─────────────────► tool.approval_asked
//	keeps the call                        rests, as does the turn
//	                                      any node reads the answer ◄──────────── tool.approval_given
//	joins the call ◄───────────────────── sends the call again
//	callback ───────────────────────────► answers it from the history
//
// An instance that dies meanwhile is gone when the call is sent again: its effects decide.
func (o *instanceCall) ask(in *wire.Callback) *wire.CallbackAnswer {
	var asks wire.Ask
	if refused := o.refuse(in, wire.AskOperation, &asks, "question"); refused != nil {
		return refused
	}
	if n := len(asks.Question); n == 0 || n > wire.MaxQuestion {
		return callback.Problem(http.StatusBadRequest, "invalid_parameter", "question", fmt.Sprintf("question: has %d bytes, want 1 to %d", n, wire.MaxQuestion))
	}
	if n := len(asks.Details); n > wire.MaxAskDetails {
		return callback.Problem(http.StatusBadRequest, "invalid_parameter", "details", fmt.Sprintf("details: have %d bytes, limit is %d", n, wire.MaxAskDetails))
	}
	given, err := o.call.Ask(o.ctx, in.ID, asks.Question, asks.Details)
	switch failure, refused := errors.AsType[*plugin.Failure](err); {
	case errors.Is(err, plugin.ErrWaits):
		o.end(errAsks)
		return nil
	case refused:
		return callback.Problem(http.StatusConflict, failure.Code, "", failure.Message)
	case errors.As(err, new(*events.FieldError)):
		return callback.InvalidField(err)
	case err != nil: // the node lost the turn, or its server
		o.end(err)
		return nil
	}
	body, err := json.Marshal(&wire.Answer{Granted: given.Granted, Reason: given.Reason, By: given.By})
	if err != nil {
		return callback.Problem(http.StatusInternalServerError, "internal", "", err.Error())
	}
	return &wire.CallbackAnswer{Status: http.StatusOK, Body: body}
}
