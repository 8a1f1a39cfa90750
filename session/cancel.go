package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
)

// Cancel requests that a turn stops, and returns at once. The first request in the history wins; the evidence
// returned is of that request. A turn that ended before does not change. A turn that waits for its time ends at once.
// A turn that the history does not have is [api.ErrUnknownTurn]. The origin of an authenticated caller is its name.
// Origin and reason have at most 1000 bytes each.
func (h *Host) Cancel(ctx context.Context, id events.SessionID, of events.TurnID, req api.CancelRequest) (api.CancelReceipt, api.CancelRequest, error) {
	cancel := requestContent{operation.Cancel.Name, "cancel", &api.CancelArgs{Turn: of, Request: req}}
	if req.ID == "" {
		req.ID = ulid.Make().String()
	}
	if caller, ok := api.CallerOf(ctx); ok { // the server authenticated the caller; its name replaces the request's origin
		req.Origin = caller.Name
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	c := canceller{turn: of, req: req}
	err := errors.Join(events.CheckToken("session", id), events.CheckToken("turn", of), events.CheckReason("origin", req.Origin), events.CheckReason("reason", req.Reason))
	if err == nil {
		err = h.decideByKey(ctx, id, cancel, reqMeta, c.decide)
	}
	if err != nil {
		return "", api.CancelRequest{}, fmt.Errorf("cancel turn %s of session %s: %w", of, id, err)
	}
	return c.receipt, c.evidence, nil
}

// canceller is one call of [Host.Cancel].
type canceller struct {
	turn     events.TurnID
	req      api.CancelRequest
	receipt  api.CancelReceipt
	evidence api.CancelRequest
}

func (c *canceller) decide(s *projector.State) ([]events.Event, error) {
	c.receipt, c.evidence = api.CancelRequested, c.req
	place, err := s.FindTurn(c.turn)
	switch running, queued := place.Running, place.Queued; {
	case err != nil:
		return nil, err
	case running != nil && running.Cancelled:
		c.requested(&running.Cancel)
		return nil, nil
	case queued != nil && queued.Cancelled:
		c.requested(&queued.Cancel)
		return nil, nil
	case running != nil, queued != nil && queued.Busy != events.BusyBranch:
		return []events.Event{c.event()}, nil
	case place.Scheduled != nil: // no worker would end it before its time
		return []events.Event{c.event(), events.Of(c.turn, &events.TurnCompleted{End: events.EndCancelled})}, nil
	case !place.Known():
		return nil, api.ErrUnknownTurn
	}
	c.receipt, c.evidence = api.CancelCompletionWon, api.CancelRequest{} // it has ended, or another session has it or will get it
	return nil, nil
}

// requested distinguishes this call's request from an earlier one.
func (c *canceller) requested(first *events.TurnCancelRequested) {
	c.receipt, c.evidence = api.CancelRequested, api.CancelRequest{ID: first.Request, Origin: first.Origin, Reason: first.Reason}
	if first.Request != c.req.ID {
		c.receipt = api.CancelAlreadyRequested
	}
}

func (c *canceller) event() events.Event {
	return events.Of(c.turn, &events.TurnCancelRequested{Request: c.req.ID, Origin: c.req.Origin, Reason: c.req.Reason})
}
