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

// Approvals lists the questions about calls of the running turn that wait for an answer.
func (h *Host) Approvals(ctx context.Context, id events.SessionID) ([]projector.Approval, error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return nil, err
	}
	var list []projector.Approval
	if t := s.Turn(); t != nil {
		for _, a := range t.Asks {
			if !a.Answered {
				list = append(list, a)
			}
		}
	}
	return list, nil
}

// Approve answers a question about a call. The first answer counts; the same
// again does nothing, another is [ErrDifferent]. When it returns nil the
// answer is durable, and the turn goes on wherever a worker takes it.
func (h *Host) Approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return fmt.Errorf("approve %s: %w", answer.Effect, err)
	}
	var asked *projector.Approval
	if t := s.Turn(); t != nil {
		asked = t.Approval(answer.Effect)
	}
	switch {
	case asked == nil:
		return fmt.Errorf("approve %s of session %s: %w", answer.Effect, id, api.ErrNotAsked)
	case asked.Answered && asked.Answer.Granted == answer.Granted:
		return nil
	case asked.Answered:
		return fmt.Errorf("approve %s: %w", answer.Effect, ErrDifferent)
	}
	if answer.By == "" {
		answer.By = h.actor.ID
	}
	return enqueue(ctx, h.b, id, commandID("answer", answer.Effect), Command{Answer: answer, Actor: h.actor.ID})
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
	if t := s.Turn(); t == nil {
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
