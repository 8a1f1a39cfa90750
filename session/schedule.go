package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/tracing"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/turn"
)

// SubmitAt requests a turn that starts at a time, or at once where that time has passed. When it returns nil the
// history has the turn. Before its time a [Host.Cancel] ends it without a run. A repeat with equal content is the
// same turn; an id that was used with another time or input is [api.ErrDifferent]. A [Host.Submit] of the id before
// the time starts the turn at once. A close of the session before the time ends the turn as cancelled.
func (h *Host) SubmitAt(ctx context.Context, id events.SessionID, at time.Time, req api.TurnRequest) (events.TurnID, error) {
	ctx, reqMeta, err := api.TakeRequest(ctx, &req)
	req.ID = chooseID(req.ID, reqMeta)
	if err != nil {
		return "", fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	input, err := h.prepareTurn(ctx, id, req)
	if err != nil {
		return "", err
	}
	p := &events.TurnScheduled{Input: input, At: events.MillisOf(at), Busy: busyOf(req.WhenBusy), Callers: callersOf(req, reqMeta), Trace: tracing.Of(ctx)}
	c := requestContent{operation.SubmitAt.Name, "submit at", &api.SubmitAtArgs{At: p.At, Request: asSubmitted(req, input)}}
	if err := h.schedule(ctx, id, c, reqMeta, req.ID, p); err != nil {
		return "", fmt.Errorf("submit turn %s: %w", req.ID, err)
	}
	return req.ID, nil
}

func (h *Host) schedule(ctx context.Context, id events.SessionID, c requestContent, reqMeta api.RequestMeta, name events.TurnID, p *events.TurnScheduled) error {
	if err := fits(p); err != nil {
		return err
	}
	digest := projector.InputDigest(p.Input)
	return h.decideByID(ctx, id, c, reqMeta, func(s *projector.State) ([]events.Event, error) {
		place, err := s.FindTurn(name)
		switch {
		case err != nil:
			return nil, err
		case !place.Known():
			if err := check.Open(s); err != nil {
				return nil, err
			}
			return h.scheduled(s, name, p), h.acceptTurn(ctx, s, &p.Input, p.Busy)
		case place.InputDigest() != digest:
			return nil, api.ErrDifferent
		}
		if t := place.Scheduled; t != nil && (t.At != p.At || t.Busy != p.Busy) {
			return nil, api.ErrDifferent
		}
		api.RecordSeq(ctx, id, place.AcceptedSeq())
		return nil, nil // the history has it
	})
}

// scheduled returns the events that accept a turn for a time. If the time has passed by the servers' clock, the same
// commit requests the turn.
func (h *Host) scheduled(s *projector.State, name events.TurnID, p *events.TurnScheduled) []events.Event {
	list := []events.Event{events.Of(name, p)}
	if p.At <= h.b.Millis() {
		list = append(list, turn.Request(s, name, events.TurnRequested{Input: p.Input, Busy: p.Busy, Callers: p.Callers, Trace: p.Trace})...)
	}
	return list
}

// requestExtra is the largest size of a turn request beyond its scheduled form, in bytes: the id of the running turn,
// and the tags.
const requestExtra = 128

// fits refuses a scheduled turn whose request would be too large for an event. A worker appends the request at the
// turn's time.
func fits(p *events.TurnScheduled) error {
	body, err := events.EncodePayload(p)
	if err == nil && len(body)+requestExtra > events.MaxEventBytes {
		err = &events.FieldError{Field: "input", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(body), events.MaxEventBytes-requestExtra), Err: events.ErrTooLarge}
	}
	return err
}

// Now is the servers' time.
func (h *Host) Now() time.Time { return h.b.Now() }

// ResolveAt gives a pending call of the running turn its result at a time, on any node and after any delay. The first
// time that is set for a key counts, so a tool that runs again waits for the same time. A turn that has ended by then
// ignores the result. A key that names no call without a result is [api.ErrUnknownTurn].
func (h *Host) ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error {
	p := &events.ToolResultScheduled{Effect: key, At: events.MillisOf(at), Result: result, By: h.actor.ID}
	err := p.Validate()
	if err == nil {
		o := decideOptions{meta: h.followingMeta(ctx, "resolve at"), repeatHints: true}
		err = h.decideUntilAppended(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
			switch t := s.Turn(); {
			case t == nil || t.Cancelled || !turn.Resolvable(t, key):
				return nil, api.ErrUnknownTurn
			case t.TimedResult(key) != nil:
				return nil, nil
			default:
				return []events.Event{events.Of(t.ID, p)}, nil
			}
		})
	}
	if err != nil {
		return fmt.Errorf("resolve %s of session %s later: %w", key, id, err)
	}
	return nil
}
