package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/turn"
)

// Submit requests a turn and returns its id. When it returns nil the history has the request, in the order of turns,
// and the turn will end in the history. It does not wait for a worker. An id that was used with the same input is the
// same turn; with other input it is [api.ErrDifferent]. A session at its limit of waiting turns refuses more with an
// [api.LimitError]. WhenBusy decides about the turn while another one runs. An unknown policy, or one that does not
// fit the input, is [events.ErrInvalid].
func (h *Host) Submit(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, error) {
	a, err := h.SubmitTurn(ctx, id, req)
	return a.Turn, err
}

// SubmitTurn accepts a turn. The response has its sequence in the history.
func (h *Host) SubmitTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.SubmitResponse, error) {
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	req.ID = chooseID(req.ID, reqMeta)
	if err != nil {
		return api.SubmitResponse{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	input, err := h.prepareTurn(ctx, id, req)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	meta, err := h.keyedMetaByID(ctx, requestContent{operation.Submit.Name, string(req.ID), new(asSubmitted(req, input))}, reqMeta)
	if err != nil {
		return api.SubmitResponse{}, err
	}
	a, err := h.requestTurn(ctx, id, meta, turnRequest{req.ID, events.TurnRequested{Input: input, Busy: busyOf(req.WhenBusy), Callers: callersOf(req, reqMeta), Trace: tracing.Of(ctx)}})
	if err != nil {
		return api.SubmitResponse{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	return a, nil
}

// asSubmitted is the part of a request that distinguishes it from others, without its callers.
func asSubmitted(req api.TurnRequest, input events.TurnInput) api.TurnRequest {
	return api.TurnRequest{ID: req.ID, Input: input, WhenBusy: api.WhenBusy(busyOf(req.WhenBusy))}
}

// turnRequest is a turn request whose large bodies are in blobs.
type turnRequest struct {
	name events.TurnID
	events.TurnRequested
}

// callersOf are the callers on whose behalf a turn is requested.
func callersOf(req api.TurnRequest, reqMeta api.RequestMeta) []string {
	if reqMeta.Actor != "" {
		return []string{reqMeta.Actor}
	}
	return req.Callers
}

// requestTurn appends the request of a turn, with the events of its policy.
func (h *Host) requestTurn(ctx context.Context, id events.SessionID, meta commitMeta, r turnRequest) (api.SubmitResponse, error) {
	a := api.SubmitResponse{Turn: r.name, Input: projector.InputDigest(r.Input)}
	o := decideOptions{meta: meta, repeatHints: true, then: func(s *projector.State, _ bool) error {
		place, err := s.FindTurn(r.name)
		a.Seq = place.AcceptedSeq()
		api.RecordSeq(ctx, id, a.Seq)
		return err
	}}
	err := h.decideUntilAppended(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
		place, err := s.FindTurn(r.name)
		switch {
		case err != nil:
			return nil, err
		case place.Known() && place.InputDigest() != a.Input:
			return nil, api.ErrDifferent
		case place.Known() && place.Scheduled == nil:
			return nil, nil
		}
		if err := errors.Join(check.Open(s), r.Busy.Check(r.Input)); err != nil {
			return nil, err
		}
		list := turn.Request(s, r.name, r.TurnRequested)
		if !place.Known() {
			err = h.acceptTurn(ctx, s, &r.Input, list[0].Payload.(*events.TurnRequested).Busy)
		}
		return list, err
	})
	return a, err
}

// acceptTurn refuses a new turn above the limits of the session and of its owner.
func (h *Host) acceptTurn(ctx context.Context, s *projector.State, input *events.TurnInput, busy events.WhenBusy) error {
	err := check.QueuedTurn(s, input, h.cfg.MaxQueued)
	if err == nil {
		err = h.quota.CheckStored(ctx, s.Owner)
	}
	if err == nil && busy == events.BusyBranch {
		err = h.quota.CheckBranch(ctx, s)
	}
	return err
}

// prepareTurn checks a request, and moves large bodies of its input to blobs.
func (h *Host) prepareTurn(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnInput, error) {
	if err := errors.Join(events.CheckToken("session", id), events.CheckToken("turn", req.ID)); err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn: %w", err)
	}
	if err := errors.Join(busyOf(req.WhenBusy).Check(req.Input), h.cfg.Locks.Options("input.plugins", req.Input.Plugins), h.cfg.Locks.Generation("input.generation", req.Input.Generation),
		plugin.OutputOf(req.Input.Output).Check("input.output"), check.Prompt("input.parts", req.Input.Parts)); err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	if req.Input.Answers != "" {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, &events.FieldError{Field: "input.answers", Reason: "is set by nodes", Err: events.ErrInvalid})
	}
	req.Input.Answers = req.Answers
	spilled, err := blob.Spill(ctx, h.blobs, &events.TurnRequested{Input: req.Input})
	if err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	input := spilled.(*events.TurnRequested).Input
	if err := h.checkProtocol(ctx, id, req.ID, input); err != nil {
		return events.TurnInput{}, fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	return input, nil
}

// busyOf is the policy in the format of histories.
func busyOf(w api.WhenBusy) events.WhenBusy {
	if w == api.WhenBusyEnqueue {
		return events.BusyEnqueue
	}
	return events.WhenBusy(w)
}

// checkProtocol refuses an input that the session's protocol does not accept. The cached state may be old: the worker
// that starts the turn checks again.
func (h *Host) checkProtocol(ctx context.Context, id events.SessionID, name events.TurnID, input events.TurnInput) error {
	if h.plugins == nil {
		return nil
	}
	known := false
	s, err := h.cached(ctx, id, func(s *projector.State) error {
		place, err := s.FindTurn(name)
		known = place.Known()
		return err
	})
	if err != nil || known || check.Open(s) != nil {
		return err
	}
	p, _, release, err := h.stacks.Open(ctx, s)
	switch {
	case errors.Is(err, plugin.ErrNoSource):
		return nil // the worker that starts the turn checks it
	case err != nil:
		return err
	}
	defer release()
	if err := h.cfg.Locks.ProtocolOptions("input.options", p.ProtocolPlugin(), input.Options); err != nil {
		return err
	}
	input, err = blob.FillInput(ctx, h.b, input)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		return nil // the worker that starts the turn ends it, and names the missing body
	case err != nil:
		return err
	}
	if err := p.Protocol().ValidateTurn(ctx, input); err != nil {
		return fmt.Errorf("%w: %w", api.ErrProtocol, err)
	}
	return nil
}
