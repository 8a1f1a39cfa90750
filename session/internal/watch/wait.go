package watch

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

// How long a wait for a turn's end relies on the live subject before it first reads the log: a command may name a
// turn that ended long ago.
const (
	checkSubmitted = time.Second
	checkAccepted  = 2 * time.Second
)

// Run submits a turn and waits for its end, which another turn can cause: see [api.WhenBusy]. An id that was used
// with other input is [api.ErrDifferent].
func (w *Watcher) Run(ctx context.Context, submitter Submitter, id events.SessionID, req api.TurnRequest) (api.TurnResult, error) {
	waiter, err := w.states.Subscribe(id, mayEndTurn)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer waiter.Close()
	ended := func(s *projector.State) bool { ok, err := hasEnded(s, req.ID); return ok && err == nil }
	repeats := req.ID != "" && w.states.Known(ctx, id, ended) // so the cached text may be one that was redacted since
	a, err := submitter.SubmitTurn(ctx, id, req)
	if err != nil {
		return api.TurnResult{}, err
	}
	req.ID = a.Turn
	if !w.states.Known(ctx, id, ended) {
		if err := w.waitForEnd(ctx, waiter, id, a.Turn, checkSubmitted); err != nil {
			return api.TurnResult{}, err
		}
	}
	return w.reader.TurnResult(ctx, id, a.Turn, repeats)
}

// Await waits until a turn has ended. Any number of callers may wait for the same turn,
// also after its end. A turn that the history does not have, or loses meanwhile, is [api.ErrUnknownTurn].
func (w *Watcher) Await(ctx context.Context, id events.SessionID, turn events.TurnID) (api.TurnResult, error) {
	waiter, err := w.states.Subscribe(id, mayEndTurn)
	if err != nil {
		return api.TurnResult{}, err
	}
	defer waiter.Close()
	place, err := w.reader.FindTurn(ctx, id, turn)
	if err != nil {
		return api.TurnResult{}, fmt.Errorf("await turn %s of session %s: %w", turn, id, err)
	}
	if place.Ended == nil {
		if err := w.waitForEnd(ctx, waiter, id, turn, checkAccepted); err != nil {
			return api.TurnResult{}, err
		}
	}
	return w.reader.TurnResult(ctx, id, turn, false)
}

func mayEndTurn(m bus.LiveMessage) bool { return m.MayEndTurn }

func hasEnded(s *projector.State, turn events.TurnID) (bool, error) {
	record, err := s.Record(turn)
	return record != nil, err
}

type waitingKey struct{}

// WithWaiting returns a context whose code calls begin when a wait for a turn starts, and end when the turn has
// ended.
func WithWaiting(ctx context.Context, begin func() (end func())) context.Context {
	return context.WithValue(ctx, waitingKey{}, begin)
}

// BeginWait calls the code of [WithWaiting], if there is some.
func BeginWait(ctx context.Context) (end func()) {
	if begin, ok := ctx.Value(waitingKey{}).(func() (end func())); ok {
		return begin()
	}
	return func() {}
}

// waitForEnd waits until the session has a turn's record. A cached state without the turn may be older than the turn; where the log lacks
// it too, its commits are lost.
func (w *Watcher) waitForEnd(ctx context.Context, waiter *states.Waiter, id events.SessionID, turn events.TurnID, first time.Duration) error {
	defer BeginWait(ctx)()
	for {
		lacks := false
		err := waiter.Wait(ctx, first, func(s *projector.State) (bool, error) {
			place, err := s.FindTurn(turn)
			lacks = !place.Known()
			return lacks || place.Ended != nil, err
		})
		if err != nil || !lacks {
			return err
		}
		if _, err := w.reader.FindTurn(ctx, id, turn); err != nil {
			return fmt.Errorf("await turn %s of session %s: %w", turn, id, err)
		}
	}
}
