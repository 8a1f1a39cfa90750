package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/turn"
)

// Approve answers the approval request of a call. The first answer in the history counts, also when its turn has
// ended. An equal answer later changes nothing; a different one is [api.ErrDifferent]. When Approve returns nil the
// answer is in the history, and any worker can continue the turn unless it is cancelled first. Other errors:
// [api.ErrNotAsked], [api.ErrSelfApproval], see [Config].
func (h *Host) Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	if answer.By == "" || reqMeta.Actor != "" {
		answer.By = h.actorOf(ctx, reqMeta).ID
	}
	err := error(nil)
	if answer.Effect != "" { // else nothing was asked
		err = answer.Validate()
	}
	if err == nil {
		err = h.approve(ctx, id, answer, reqMeta)
	}
	if errors.Is(err, api.ErrNotAsked) {
		err = h.lateAnswer(ctx, id, answer, err)
	}
	if err != nil {
		return fmt.Errorf("approve %s of session %s: %w", answer.Effect, id, err)
	}
	return nil
}

func (h *Host) approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven, reqMeta api.RequestMeta) error {
	body := answer
	body.By = "" // the caller may be the host
	return h.decideByKey(ctx, id, requestContent{operation.Approve.Name, "approve", &body}, reqMeta, func(s *projector.State) ([]events.Event, error) {
		t := s.Turn()
		if t == nil || t.Cancelled || t.Approval(answer.Effect) == nil {
			return nil, api.ErrNotAsked
		}
		if answer.Granted && h.cfg.ForbidSelfApproval && slices.Contains(t.Callers, answer.By) {
			return nil, fmt.Errorf("%w: %s asked for the turn, and another one has to approve its calls", api.ErrSelfApproval, answer.By)
		}
		if request := t.Approval(answer.Effect); request.Answered {
			return nil, sameAnswer(&request.Answer, answer)
		}
		out, err := turn.Step(s, turn.Answer{ToolApprovalGiven: answer})
		return out.Events, err
	})
}

// lateAnswer responds to an answer whose turn has ended: it compares the answer with the first one in the history.
// Without a first answer it returns notAsked.
func (h *Host) lateAnswer(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven, notAsked error) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	record, err := s.Record(turn.OfEffect(answer.Effect))
	if err != nil || record == nil {
		return cmp.Or(err, notAsked)
	}
	for entry, err := range h.log.Read(ctx, id, record.Asked) {
		if err != nil {
			return err
		}
		if entry.Seq > record.Seq {
			break
		}
		for i := range entry.Commit.Events {
			if first, ok := entry.Commit.Events[i].Payload.(*events.ToolApprovalGiven); ok && first.Effect == answer.Effect {
				return sameAnswer(first, answer)
			}
		}
	}
	return notAsked
}

// sameAnswer refuses an answer that differs from the first one.
func sameAnswer(first *events.ToolApprovalGiven, answer events.ToolApprovalGiven) error {
	if first.Granted == answer.Granted {
		return nil
	}
	word := "denied"
	if first.Granted {
		word = "granted"
	}
	return fmt.Errorf("%s has %s it before: %w", first.By, word, api.ErrDifferent)
}

// ResolveTool stores the result of a pending call of the running turn, by its completion key. The result may arrive
// before the call is pending. The first result in the history counts. A key that names no call without a result is
// [api.ErrUnknownTurn].
func (h *Host) ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	resolve, err := h.resolution(ctx, events.ToolResolved{Effect: key, Result: result, By: h.actorOf(ctx, reqMeta).ID})
	if err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	err = h.resolve(ctx, id, resolve, reqMeta)
	if err != nil {
		return fmt.Errorf("resolve %s of session %s: %w", key, id, err)
	}
	return nil
}

// resolution checks a result and moves its large bodies to blobs.
func (h *Host) resolution(ctx context.Context, r events.ToolResolved) (events.ToolResolved, error) {
	if err := r.Validate(); err != nil {
		return r, err
	}
	spilled, err := blob.Spill(ctx, h.blobs, &r)
	if err != nil {
		return r, err
	}
	return *spilled.(*events.ToolResolved), nil
}

func (h *Host) resolve(ctx context.Context, id events.SessionID, resolve events.ToolResolved, reqMeta api.RequestMeta) error {
	resolved := false
	c := requestContent{operation.ResolveTool.Name, "resolve", &api.ResolveArgs{Key: resolve.Effect, Result: resolve.Result}}
	err := h.decideByKey(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
		t := s.Turn()
		if t == nil || t.Cancelled {
			return nil, api.ErrUnknownTurn
		}
		if resolved = t.Resolution(resolve.Effect) != nil; resolved {
			return nil, nil
		}
		if !turn.Resolvable(t, resolve.Effect) {
			return nil, fmt.Errorf("call %s of turn %s: %w", resolve.Effect, t.ID, api.ErrUnknownTurn)
		}
		out, err := turn.Step(s, turn.Resolved{ToolResolved: resolve})
		return out.Events, err
	})
	if err == nil && resolved {
		err = api.ErrResolved
	}
	return err
}
