package session

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
)

// MaxInputs limits the pending injected inputs of one session.
const MaxInputs = 1024

// Inject queues an input. It never waits for the running turn: the turn's next checkpoint consumes the input, or the
// start of the next turn does.
func (h *Host) Inject(ctx context.Context, id events.SessionID, req api.InjectRequest) (events.InputID, error) {
	if req.Role == "" {
		req.Role = events.RoleUser
	}
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	if err = errors.Join(err, check.Prompt("parts", req.Parts)); err != nil {
		return "", fmt.Errorf("inject: %w", err)
	}
	req.ID = chooseID(req.ID, reqMeta)
	spilled, err := blob.Spill(ctx, h.blobs, &events.InputInjected{Input: req.ID, Role: req.Role, Parts: req.Parts, Boundary: req.Boundary, Caller: reqMeta.Actor})
	if err != nil {
		return "", fmt.Errorf("inject: %w", err)
	}
	in := spilled.(*events.InputInjected)
	digest := projector.Input{Role: in.Role, Parts: in.Parts, Boundary: in.Boundary}.Digest()
	return req.ID, h.decideByID(ctx, id, requestContent{operation.Inject.Name, "inject", in}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		known, err := inputDigest(s, req.ID)
		switch {
		case err != nil:
			return nil, err
		case known == digest:
			return nil, nil
		case known != "":
			return nil, fmt.Errorf("inject %s: %w", req.ID, api.ErrDifferent)
		}
		if err := check.Open(s); err != nil {
			return nil, err
		}
		if len(s.Inputs) >= MaxInputs {
			return nil, &api.LimitError{What: "pending inputs", Limit: MaxInputs}
		}
		if err := errors.Join(check.Waiting(s, check.PartsBytes(in.Parts)), h.quota.CheckStored(ctx, s.Owner)); err != nil {
			return nil, err
		}
		// A fork can copy a node with this id, or a host can append one.
		n, err := s.Node(projector.InputNode(req.ID))
		if err == nil && n != nil {
			err = fmt.Errorf("inject %s: node %s: %w", req.ID, n.ID, api.ErrDifferent)
		}
		if err != nil {
			return nil, err
		}
		return []events.Event{events.Of("", in)}, nil
	})
}

// inputDigest identifies the content of an input, pending or finished; empty when the session has no such input.
func inputDigest(s *projector.State, id events.InputID) (string, error) {
	for _, in := range s.Inputs {
		if in.ID == id {
			return in.Digest(), nil
		}
	}
	settled, err := s.Settled(id)
	if err != nil || settled == nil {
		return "", err
	}
	return settled.Digest, nil
}

// CancelInputs cancels pending inputs in one commit, and returns a receipt for each id. Errors: those of the session,
// and of more than [MaxInputs] ids.
func (h *Host) CancelInputs(ctx context.Context, id events.SessionID, inputs ...events.InputID) ([]api.InputReceipt, error) {
	if err := check.Count("inputs", len(inputs), MaxInputs); err != nil {
		return nil, fmt.Errorf("cancel inputs: %w", err)
	}
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	var receipts []api.InputReceipt
	err := h.decideByKey(ctx, id, requestContent{operation.CancelInputs.Name, "cancel inputs", &inputs}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		receipts = make([]api.InputReceipt, len(inputs))
		var pending []events.InputID
		for i, input := range inputs {
			var err error
			if receipts[i], err = receiptOf(s, input); err != nil {
				return nil, err
			}
			if receipts[i] == api.InputCancelled && !slices.Contains(pending, input) {
				pending = append(pending, input)
			}
		}
		return cancelInputs(pending), nil
	})
	return receipts, err
}

// CancelInputsFrom cancels a pending input and all later ones, in one commit, and returns their ids. If the first one
// is not pending it cancels none, and the receipt gives the reason.
func (h *Host) CancelInputsFrom(ctx context.Context, id events.SessionID, first events.InputID) (receipt api.InputReceipt, cancelled []events.InputID, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err = h.decideByKey(ctx, id, requestContent{operation.CancelInputsFrom.Name, "cancel inputs", &first}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		cancelled = nil
		var err error
		if receipt, err = receiptOf(s, first); err != nil || receipt != api.InputCancelled {
			return nil, err
		}
		from := slices.IndexFunc(s.Inputs, func(in projector.Input) bool { return in.ID == first })
		for _, in := range s.Inputs[from:] {
			cancelled = append(cancelled, in.ID)
		}
		return cancelInputs(cancelled), nil
	})
	return receipt, cancelled, err
}

func cancelInputs(pending []events.InputID) []events.Event {
	if len(pending) == 0 {
		return nil
	}
	return []events.Event{events.Of("", &events.InputCancelled{Inputs: pending})}
}

// receiptOf is the receipt that a cancel of the input gets. It cancels nothing itself.
func receiptOf(s *projector.State, input events.InputID) (api.InputReceipt, error) {
	if slices.ContainsFunc(s.Inputs, func(in projector.Input) bool { return in.ID == input }) {
		return api.InputCancelled, nil
	}
	settled, err := s.Settled(input)
	switch {
	case err != nil:
		return "", err
	case settled == nil:
		return api.InputNotFound, nil
	case !settled.Accepted:
		return api.InputAlreadyCancelled, nil
	}
	n, err := s.Node(projector.InputNode(input))
	if t := s.Turn(); err == nil && n != nil && t != nil && n.Turn == t.ID {
		return api.InputAlreadyClaimed, nil
	}
	return api.InputAlreadyCompleted, err
}

// TakeFirstTurnInput returns the first turn's input once; nil after that, and for unknown sessions.
func (h *Host) TakeFirstTurnInput(ctx context.Context, id events.SessionID) (first *events.Message, err error) {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	err = h.decideByKey(ctx, id, requestContent{operation.TakeFirstTurnInput.Name, "take first turn input", &struct{}{}}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		first = nil
		if s.First.IsZero() || s.Status == projector.StatusClosed {
			return nil, nil
		}
		if err := api.CheckRead(ctx, s); err != nil {
			return nil, err
		}
		m := s.First
		first = &m
		return []events.Event{events.Of("", &events.SessionFirstInputTaken{By: h.actorOf(ctx, reqMeta).ID})}, nil
	})
	switch {
	case errors.Is(err, events.ErrNoSession):
		return nil, nil //nolint:nilnil // an unknown session has no first input
	case err != nil:
		return nil, err
	}
	if first != nil {
		first.Parts, err = blob.FillParts(ctx, h.b, first.Parts)
	}
	return first, err
}
