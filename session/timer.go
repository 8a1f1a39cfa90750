package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Alarm is a command that waits for its time, as it stands in a timer.
type Alarm struct {
	ID      events.TurnID `msgpack:"i"` // of the command in the queue
	Command Command       `msgpack:"c"`
}

// DecodeAlarm reads a timer's body.
func DecodeAlarm(body []byte) (Alarm, error) {
	var a Alarm
	err := events.DecodePayload(body, &a)
	if err == nil {
		err = errors.Join(events.CheckToken("turn", a.ID), a.Command.check())
	}
	return a, err
}

// SubmitAt asks for a turn that starts at a time, or at once where that has
// passed. When it returns nil the command is durable, and until its time a
// [Host.Cancel] of the turn ends it without having run. The same again is the
// same turn; an id that was used with another time or other input is [ErrDifferent].
// A [Host.Submit] of the id meanwhile starts its turn at once, and that is the turn.
// A session that is closed by then takes no turn: the command is dropped.
func (h *Host) SubmitAt(ctx context.Context, id events.SessionID, at time.Time, req TurnRequest) (events.TurnID, error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	ctx, asked := api.TakeAsked(ctx)
	input, err := h.prepare(ctx, id, req)
	if err != nil {
		return "", err
	}
	err = h.submitAt(ctx, id, req.ID, at, Command{Input: input, Actor: h.stamp("", asked).actor.ID, Busy: busyOf(req.WhenBusy)})
	return req.ID, wrapSubmit(req.ID, err)
}

func (h *Host) submitAt(ctx context.Context, id events.SessionID, turn events.TurnID, at time.Time, cmd Command) error {
	digest := projector.InputDigest(cmd.Input)
	// A turn that has left its timer is in the queue, and then in the history.
	found, err := h.unrecorded(ctx, id, turn)
	if err != nil {
		return err
	}
	if !found.timed {
		if known, err := h.sameInput(ctx, id, turn, found, digest); known || err != nil {
			return err
		}
	}
	err = h.schedule(ctx, id, string(turn), at, Alarm{ID: turn, Command: cmd})
	if errors.Is(err, bus.ErrStale) {
		err = h.sameTimer(ctx, id, turn, at, digest)
	}
	return err
}

func wrapSubmit(turn events.TurnID, err error) error {
	if err != nil {
		return fmt.Errorf("submit turn %s: %w", turn, err)
	}
	return nil
}

// sameTimer refuses another time or other input under the id of a turn that
// waits for its time. Who asked first may have another name.
func (h *Host) sameTimer(ctx context.Context, id events.SessionID, turn events.TurnID, at time.Time, digest string) error {
	t, err := h.b.Timer(ctx, id, string(turn))
	if errors.Is(err, bus.ErrNotFound) {
		return h.sameTurn(ctx, id, turn, digest) // it has come meanwhile
	}
	if err != nil {
		return err
	}
	alarm, err := DecodeAlarm(t.Body)
	if err == nil && (t.At != events.MillisOf(at) || projector.InputDigest(alarm.Command.Input) != digest) {
		err = ErrDifferent
	}
	return err
}

// schedule sets a timer that puts a command in the queue.
func (h *Host) schedule(ctx context.Context, id events.SessionID, name string, at time.Time, alarm Alarm) error {
	if err := alarm.Command.check(); err != nil {
		return err
	}
	body, err := events.EncodePayload(&alarm)
	if err != nil {
		return err
	}
	return h.b.Schedule(ctx, bus.Timer{Session: id, ID: name, At: events.MillisOf(at), Body: body})
}

// ResolveAt gives a pending call of a running turn its result at a time, on
// whatever node, however long that is. The first time that is set for a key
// stays, so that a tool which runs again waits for the same. A turn that has
// ended by then has no use for it.
func (h *Host) ResolveAt(ctx context.Context, id events.SessionID, key events.EffectID, at time.Time, result events.ToolResult) error {
	resolve, err := h.resolution(ctx, events.ToolResolved{Effect: key, Result: result, By: h.actor.ID})
	if err == nil {
		alarm := Alarm{ID: events.TurnID(events.DerivedID("resolve-", string(key))), Command: Command{Resolve: resolve, Actor: h.actor.ID}}
		err = h.schedule(ctx, id, events.DerivedID("timer-", string(key)), at, alarm)
	}
	if err != nil && !errors.Is(err, bus.ErrStale) {
		return fmt.Errorf("resolve %s of session %s later: %w", key, id, err)
	}
	return nil
}

// ExpireApprovals sets the timers that refuse, each at its time, the questions
// of the running turn that nobody has answered until then. Once more is harmless.
func (h *Host) ExpireApprovals(ctx context.Context, s *projector.State) error {
	t := s.Turn()
	if t == nil || t.Cancelled {
		return nil
	}
	for i := range t.Asks {
		a := &t.Asks[i]
		if a.Answered || a.Until == 0 {
			continue
		}
		refusal := events.ToolApprovalGiven{Effect: a.Effect, By: "timer", Reason: "nobody answered in time"}
		alarm := Alarm{ID: events.TurnID(events.DerivedID("answer-", string(a.Effect))), Command: Command{Answer: refusal, Actor: "timer"}}
		err := h.schedule(ctx, s.Session, events.DerivedID("expire-", string(a.Effect)), a.Until.Time(), alarm)
		if err != nil && !errors.Is(err, bus.ErrStale) {
			return fmt.Errorf("expire %s of session %s: %w", a.Effect, s.Session, err)
		}
	}
	return nil
}

// Ring puts the command of a timer whose time has come in the queue; once more
// is harmless. Errors besides those of the queue: [ErrClosed] and
// [events.ErrNoSession], where the session takes it no more.
func (h *Host) Ring(ctx context.Context, id events.SessionID, alarm Alarm) error {
	s, err := h.State(ctx, id)
	switch {
	case errors.Is(err, events.ErrNoSession), errors.Is(err, events.ErrOutcomeUnknown), ctx.Err() != nil:
		return err
	case err == nil && s.Status == projector.StatusClosed:
		return fmt.Errorf("session %s: %w", id, ErrClosed)
	} // a history that cannot be folded is the queue's matter
	return enqueue(ctx, h.b, id, alarm.ID, alarm.Command)
}
