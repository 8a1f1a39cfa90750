package session

import (
	"bytes"
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
	first, err := h.settle(ctx, s, commandID("answer", answer.Effect), Command{Answer: answer, Actor: h.actor.ID})
	if err != nil {
		return err
	}
	if given, ok := first.(*events.ToolApprovalGiven); ok {
		return sameAnswer(given, answer)
	}
	return api.ErrNotAsked
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
	resolve = *spilled.(*events.ToolResolved)
	first, err := h.settle(ctx, s, commandID("resolve", key), Command{Resolve: resolve, Actor: h.actor.ID})
	if err == nil {
		err = sameResult(first, &resolve)
	}
	if err != nil {
		return fmt.Errorf("resolve %s of session %s: %w", key, id, err)
	}
	return nil
}

// sameResult tells whoever brings another result that it does not count.
func sameResult(first events.Payload, resolve *events.ToolResolved) error {
	if _, ok := first.(*events.ToolResolved); !ok {
		return ErrUnknownTurn // it has ended meanwhile, or is about to
	}
	counts, err := events.EncodePayload(first)
	if err != nil {
		return err
	}
	ours, err := events.EncodePayload(resolve)
	if err == nil && !bytes.Equal(counts, ours) {
		err = api.ErrResolved
	}
	return err
}

// settle puts what somebody says of a call in the queue, and finds out which
// word counts: the one that the history has since the state was seen, or else
// the one that waits. It is the turn's cancel or end where that came first.
func (h *Host) settle(ctx context.Context, seen *projector.State, name events.TurnID, cmd Command) (events.Payload, error) {
	for {
		waited, err := enqueueNew(ctx, h.b, seen.Session, name, cmd)
		if err != nil {
			return nil, err
		}
		waits, there := cmd, true
		if waited {
			if waits, there, err = h.queuedCommand(ctx, seen.Session, name); err != nil {
				return nil, err
			}
		}
		first, err := h.firstSince(ctx, seen.Session, seen.Seq, func(ev *events.Event) bool {
			switch p := ev.Payload.(type) {
			case *events.ToolApprovalGiven:
				return p.Effect == cmd.Answer.Effect
			case *events.ToolResolved:
				return p.Effect == cmd.Resolve.Effect
			case *events.TurnCancelRequested, *events.TurnCompleted:
				return ev.Turn == seen.Turn().ID
			}
			return false
		})
		switch {
		case err != nil || first != nil:
			return first, err
		case there && !cmd.Answer.IsZero():
			return &waits.Answer, nil
		case there:
			return &waits.Resolve, nil
		} // what waited was dropped meanwhile
	}
}

// commandID names a command that is about an effect: one of each kind waits at a time.
func commandID(kind string, effect events.EffectID) events.TurnID {
	sum := sha256.Sum256([]byte(effect))
	return events.TurnID(kind + "-" + hex.EncodeToString(sum[:16]))
}
