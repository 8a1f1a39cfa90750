package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Approvals lists the questions about calls of the running turn that wait for
// an answer, with the arguments whole.
func (h *Host) Approvals(ctx context.Context, id events.SessionID) ([]projector.Approval, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	var list []projector.Approval
	if t := s.Turn(); t != nil && !t.Cancelled {
		for _, a := range t.Asks {
			if a.Answered {
				continue
			}
			if a.Args, err = body(ctx, h.b, a.Args, a.Blob); err != nil {
				return nil, fmt.Errorf("approvals of session %s: arguments of %s: %w", id, a.Effect, err)
			}
			list = append(list, a)
		}
	}
	return list, nil
}

// Approve answers a question about a call. The first answer counts; the same
// again does nothing, another is [ErrDifferent]. When it returns nil the
// answer is durable, and the turn goes on wherever a worker takes it; unless
// it is cancelled before. Errors besides: [api.ErrNotAsked].
func (h *Host) Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	if answer.By == "" {
		answer.By = h.actor.ID
	}
	err := h.approve(ctx, id, answer)
	if err != nil {
		return fmt.Errorf("approve %s of session %s: %w", answer.Effect, id, err)
	}
	return nil
}

func (h *Host) approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	t := s.Turn()
	if t == nil || t.Cancelled || t.Approval(answer.Effect) == nil {
		return api.ErrNotAsked
	}
	if asked := t.Approval(answer.Effect); asked.Answered {
		return sameAnswer(&asked.Answer, answer)
	}
	for {
		waited, err := enqueueNew(ctx, h.b, id, commandID("answer", answer.Effect), Command{Answer: answer, Actor: h.actor.ID})
		if err != nil {
			return err
		}
		known, err := h.answered(ctx, id, t.ID, s.Seq, answer, waited)
		if known || err != nil {
			return err
		}
	}
}

// answered finds out which answer counts, once one waits in the queue: what
// the history has since the question was seen, or else what waits. Neither is
// there where what waited was dropped.
func (h *Host) answered(
	ctx context.Context, id events.SessionID, turn events.TurnID, since events.Seq, answer events.ToolApprovalGiven, waited bool,
) (known bool, err error) {
	waits, there := Command{Answer: answer}, true
	if waited {
		if waits, there, err = h.queuedCommand(ctx, id, commandID("answer", answer.Effect)); err != nil {
			return false, err
		}
	}
	first, err := h.firstSince(ctx, id, since, func(ev *events.Event) bool {
		given, ok := ev.Payload.(*events.ToolApprovalGiven)
		return ok && given.Effect == answer.Effect ||
			ev.Turn == turn && (ev.Kind == events.KindTurnCancelRequested || ev.Kind == events.KindTurnCompleted)
	})
	given, isAnswer := first.(*events.ToolApprovalGiven)
	switch {
	case err != nil:
		return false, err
	case isAnswer:
		return true, sameAnswer(given, answer)
	case first != nil:
		return true, api.ErrNotAsked
	case there:
		return true, sameAnswer(&waits.Answer, answer)
	}
	return false, nil
}

// sameAnswer tells whoever answers otherwise what counts.
func sameAnswer(first *events.ToolApprovalGiven, answer events.ToolApprovalGiven) error {
	if first.Granted == answer.Granted {
		return nil
	}
	word := "denied"
	if first.Granted {
		word = "granted"
	}
	return fmt.Errorf("%s has %s it before: %w", first.By, word, ErrDifferent)
}

// ResolveTool gives the result of a pending call, by its completion key, which
// may be before the call is pending. The first result counts.
func (h *Host) ResolveTool(ctx context.Context, id events.SessionID, key events.EffectID, result events.ToolResult) error {
	resolve := events.ToolResolved{Effect: key, Result: result, By: h.actor.ID}
	if err := resolve.Validate(); err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	s, err := h.State(ctx, id)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	if t := s.Turn(); t == nil || t.Cancelled {
		return fmt.Errorf("resolve %s of session %s: %w", key, id, ErrUnknownTurn)
	} else if t.Resolution(key) != nil {
		return fmt.Errorf("resolve %s: %w", key, api.ErrResolved)
	}
	spilled, err := Spill(ctx, h.b, &resolve)
	if err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	return enqueue(ctx, h.b, id, commandID("resolve", key), Command{Resolve: *spilled.(*events.ToolResolved), Actor: h.actor.ID})
}

// commandID names a command that is about an effect: one of each kind waits at a time.
func commandID(kind string, effect events.EffectID) events.TurnID {
	sum := sha256.Sum256([]byte(effect))
	return events.TurnID(kind + "-" + hex.EncodeToString(sum[:16]))
}
