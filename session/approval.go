package session

import (
	"bytes"
	"context"
	"errors"
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
			if a.Args, err = Body(ctx, h.b, a.Args, a.Blob); err != nil {
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
	ctx, asked := api.TakeAsked(ctx)
	actor := h.stamp("", asked).actor.ID
	if answer.By == "" {
		answer.By = actor
	}
	err := h.approve(ctx, id, answer, actor)
	if errors.Is(err, api.ErrNotAsked) && asked.Key != "" {
		err = h.approvedBefore(ctx, id, asked.Since, answer, err)
	}
	if err != nil {
		return fmt.Errorf("approve %s of session %s: %w", answer.Effect, id, err)
	}
	return nil
}

// approvedBefore is nil where the same answer counts, of a turn that has ended since it was asked for.
func (h *Host) approvedBefore(ctx context.Context, id events.SessionID, since events.Seq, answer events.ToolApprovalGiven, refused error) error {
	first, err := h.firstSince(ctx, id, since, func(ev *events.Event) bool {
		p, ok := ev.Payload.(*events.ToolApprovalGiven)
		return ok && p.Effect == answer.Effect
	})
	if err != nil {
		return err
	}
	if given, ok := first.(*events.ToolApprovalGiven); ok {
		return sameAnswer(given, answer)
	}
	return refused
}

func (h *Host) approve(ctx context.Context, id events.SessionID, answer events.ToolApprovalGiven, actor string) error {
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
	first, err := h.settle(ctx, s, events.TurnID(events.DerivedID("answer-", string(answer.Effect))), Command{Answer: answer, Actor: actor})
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
	ctx, asked := api.TakeAsked(ctx)
	resolve, err := h.resolution(ctx, events.ToolResolved{Effect: key, Result: result, By: h.stamp("", asked).actor.ID})
	if err != nil {
		return fmt.Errorf("resolve %s: %w", key, err)
	}
	err = h.resolve(ctx, id, resolve)
	if asked.Key != "" && (errors.Is(err, api.ErrResolved) || errors.Is(err, ErrUnknownTurn)) {
		err = h.resolvedBefore(ctx, id, asked.Since, &resolve, err)
	}
	if err != nil {
		return fmt.Errorf("resolve %s of session %s: %w", key, id, err)
	}
	return nil
}

// resolution is a result as a command takes it: checked, and what is large of it in blobs.
func (h *Host) resolution(ctx context.Context, r events.ToolResolved) (events.ToolResolved, error) {
	if err := r.Validate(); err != nil {
		return r, err
	}
	spilled, err := Spill(ctx, h.b, &r)
	if err != nil {
		return r, err
	}
	return *spilled.(*events.ToolResolved), nil
}

func (h *Host) resolve(ctx context.Context, id events.SessionID, resolve events.ToolResolved) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	if t := s.Turn(); t == nil || t.Cancelled {
		return ErrUnknownTurn
	} else if t.Resolution(resolve.Effect) != nil {
		return api.ErrResolved
	}
	first, err := h.settle(ctx, s, events.TurnID(events.DerivedID("resolve-", string(resolve.Effect))), Command{Resolve: resolve, Actor: resolve.By})
	if err != nil {
		return err
	}
	return sameResult(first, &resolve)
}

// resolvedBefore is nil where it is the same result that the history has.
func (h *Host) resolvedBefore(ctx context.Context, id events.SessionID, since events.Seq, resolve *events.ToolResolved, refused error) error {
	first, err := h.firstSince(ctx, id, since, func(ev *events.Event) bool {
		p, ok := ev.Payload.(*events.ToolResolved)
		return ok && p.Effect == resolve.Effect
	})
	if err != nil || first == nil {
		return errors.Join(err, refused)
	}
	return sameResult(first, resolve)
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
