package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/states"
)

// How long a waiter for a turn's end trusts the live subject before it reads the log first: a command may name a turn
// that ended long ago.
const (
	checkSubmitted = time.Second
	checkAccepted  = 2 * time.Second
)

// Run submits a turn and waits for its end, which another turn in its way may
// bring: see [api.WhenBusy]. An id that was used with other input is [api.ErrDifferent].
func (h *Host) Run(ctx context.Context, id events.SessionID, req api.TurnRequest) (api.TurnResult, error) {
	w, err := h.states.Subscribe(id, endsTurn)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer w.Close()
	a, err := h.SubmitTurn(ctx, id, req)
	if err != nil {
		return api.TurnResult{}, err
	}
	ended := func(s *projector.State) bool { ok, err := hasEnded(s, a.Turn); return ok && err == nil }
	if !h.states.Known(ctx, id, ended) {
		if err := waitForEnd(ctx, w, a.Turn, checkSubmitted); err != nil {
			return api.TurnResult{}, err
		}
	}
	return h.result(ctx, id, a.Turn)
}

// Await waits until a turn has ended. Any number of callers may wait for the same turn,
// also after its end. A turn that the history does not have is [api.ErrUnknownTurn].
func (h *Host) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	w, err := h.states.Subscribe(id, endsTurn)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer w.Close()
	found, err := h.accepted(ctx, id, turn)
	if err != nil {
		return api.TurnResult{}, fmt.Errorf("await turn %s of session %s: %w", turn, id, err)
	}
	if found.record == nil {
		if err := waitForEnd(ctx, w, turn, checkAccepted); err != nil {
			return api.TurnResult{}, err
		}
	}
	return h.result(ctx, id, turn)
}

func endsTurn(m bus.LiveMessage) bool { return m.Ends }

func hasEnded(s *projector.State, turn events.TurnID) (bool, error) {
	record, err := s.Record(turn)
	return record != nil, err
}

type waitingKey struct{}

// WithWaiting is a context whose code calls begin when it begins to wait for a turn, and end when the turn has ended.
func WithWaiting(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitingKey{}, begin)
}

// waitForEnd waits until the session has a turn's record.
func waitForEnd(ctx context.Context, w *states.Waiter, turn events.TurnID, first time.Duration) error {
	if begin, ok := ctx.Value(waitingKey{}).(func() (end func())); ok {
		defer begin()()
	}
	return w.Wait(ctx, first, func(s *projector.State) (bool, error) { return hasEnded(s, turn) })
}

// accepted is the place of a turn in the history; [api.ErrUnknownTurn] where it has none.
func (h *Host) accepted(ctx context.Context, id events.SessionID, turn events.TurnID) (found foundTurn, err error) {
	s, err := h.State(ctx, id)
	if err != nil {
		return foundTurn{}, err
	}
	found, err = findTurn(s, turn)
	if err == nil && found.digest == "" {
		err = api.ErrUnknownTurn
	}
	return found, err
}
