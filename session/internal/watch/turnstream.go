package watch

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
)

// StartTurnStream submits a turn and yields its events from the first to done. For the id of an existing turn it
// yields that turn's events, and reads the session from its start. The turn continues where the loop ends early or
// never starts. Errors are those of the submitter. Errors inside the stream are terminal, and are those of
// [Watcher.Observe].
func (w *Watcher) StartTurnStream(ctx context.Context, submitter Submitter, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	before, err := w.reader.State(ctx, id)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	place, err := before.FindTurn(req.ID)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	if place.Known() {
		before = projector.NewUnproven(id) // the state before the turn is unknown: start from the empty one
	}
	a, err := submitter.SubmitTurn(ctx, id, req)
	if err != nil {
		return "", nil, err
	}
	list := w.turnEvents(ctx, a.Turn, before)
	return a.Turn, func(yield func(api.SessionEvent, error) bool) {
		for e, err := range list {
			if errors.Is(err, api.ErrMemory) { // which says that the request had no effect
				err = fmt.Errorf("%w: %s", events.ErrOutcomeUnknown, err) //nolint:errorlint // it must not match
			}
			if !yield(e, err) {
				return
			}
		}
	}, nil
}

// WatchTurn yields the events of a waiting, running or ended turn, from the first to done. It reads the session from
// its start. A turn that the history does not have is [api.ErrUnknownTurn]. Errors inside the stream are terminal,
// and are those of [Watcher.Observe].
func (w *Watcher) WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error) {
	if _, err := w.reader.FindTurn(ctx, id, turn); err != nil {
		return nil, fmt.Errorf("watch turn %s of session %s: %w", turn, id, err)
	}
	return w.turnEvents(ctx, turn, projector.NewUnproven(id)), nil
}

// turnEvents observes a session and yields the events of one turn, from a state before it.
func (w *Watcher) turnEvents(ctx context.Context, turn events.TurnID, before *projector.State) iter.Seq2[api.SessionEvent, error] {
	return func(yield func(api.SessionEvent, error) bool) {
		t := &turnStream{b: w.b, events: newEventStream(turn, before.Clone())}
		for seen, err := range w.Observe(ctx, before.Session, before.Seq) {
			list, err := t.next(ctx, seen, err)
			for _, e := range list {
				if !yield(e, nil) {
					return
				}
			}
			if err != nil {
				yield(api.SessionEvent{}, fmt.Errorf("stream turn %s: %w", turn, err))
			}
			if err != nil || t.events.Done() {
				return
			}
		}
	}
}

// turnStream is one run of a turn's events.
type turnStream struct {
	b      *bus.Bus
	events *eventStream
}

func (t *turnStream) next(ctx context.Context, seen api.Observed, err error) ([]api.SessionEvent, error) {
	if err != nil {
		return nil, err
	}
	if seen.Commit != nil {
		if err := follow.Prepare(ctx, t.b, t.events.s, seen.Commit); err != nil {
			return nil, err
		}
		for i := range seen.Commit.Events {
			if err := t.prepare(ctx, &seen.Commit.Events[i]); err != nil {
				return nil, err
			}
		}
	}
	list, err := t.events.Next(seen)
	if err == nil && seen.Seq == 1 {
		err = follow.Complete(ctx, t.b, t.events.s) // bodies of a session that started as a copy
	}
	return list, err
}

// prepare loads the bodies of the turn's replies, results and approval requests.
func (t *turnStream) prepare(ctx context.Context, ev *events.Event) (err error) {
	if ev.Turn != t.events.turn {
		return nil
	}
	switch p := ev.Payload.(type) {
	case *events.ModelReplied, *events.ToolReturned, *events.ToolApprovalAsked:
		ev.Payload, err = blob.FillPayload(ctx, t.b, p)
	}
	return err
}
