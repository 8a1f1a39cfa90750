package session

import (
	"context"
	"fmt"
	"iter"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
)

// StartTurnStream submits a turn and gives its events from the first to done.
// An id that is known is attached to: its events come from its beginning, for
// which the session is read from its start. The loop may be left, or never
// begun: the turn goes on. Errors are those of [Host.Submit]; those inside the
// stream, which are terminal, of [Host.Observe].
func (h *Host) StartTurnStream(ctx context.Context, id events.SessionID, req api.TurnRequest) (events.TurnID, iter.Seq2[api.SessionEvent, error], error) {
	if req.ID == "" {
		req.ID = events.TurnID(ulid.Make().String())
	}
	before, err := h.State(ctx, id)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	found, err := findTurn(before, req.ID)
	if err != nil {
		return "", nil, fmt.Errorf("start turn %s: %w", req.ID, err)
	}
	if found.digest != "" {
		before = projector.New(id) // where it began is not at hand
	}
	a, err := h.SubmitTurn(ctx, id, req)
	if err != nil {
		return "", nil, err
	}
	return a.Turn, h.turnEvents(ctx, a.Turn, before), nil
}

// WatchTurn gives the events of a turn that was submitted before, from its
// first to done: of one that waits, runs or has ended, for which the session is
// read from its start. It writes nothing. A turn that nobody asked for is
// [api.ErrUnknownTurn]; errors inside the stream, which are terminal, are those of [Host.Observe].
func (h *Host) WatchTurn(ctx context.Context, id events.SessionID, turn events.TurnID) (iter.Seq2[api.SessionEvent, error], error) {
	if _, err := h.accepted(ctx, id, turn); err != nil {
		return nil, fmt.Errorf("watch turn %s of session %s: %w", turn, id, err)
	}
	return h.turnEvents(ctx, turn, projector.New(id)), nil // the state before it is not at hand
}

// turnEvents follows a session for the events of one turn, from a state before it.
func (h *Host) turnEvents(ctx context.Context, turn events.TurnID, before *projector.State) iter.Seq2[api.SessionEvent, error] {
	return func(yield func(api.SessionEvent, error) bool) {
		t := &turnStream{h: h, events: NewEventStream(turn, before.Clone())}
		for seen, err := range h.Observe(ctx, before.Session, before.Seq) {
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
	h      *Host
	events *EventStream
}

func (t *turnStream) next(ctx context.Context, seen api.Observed, err error) ([]api.SessionEvent, error) {
	if err != nil {
		return nil, err
	}
	if seen.Commit != nil {
		if err := follow.Prepare(ctx, t.h.b, t.events.s, seen.Commit); err != nil {
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
		err = follow.Complete(ctx, t.h.b, t.events.s) // of a session that began as a copy
	}
	return list, err
}

// prepare checks that the turn is the one submitted, and brings in what replies and results keep in blobs.
func (t *turnStream) prepare(ctx context.Context, ev *events.Event) (err error) {
	if ev.Turn != t.events.turn {
		return nil
	}
	switch p := ev.Payload.(type) {
	case *events.ModelReplied, *events.ToolReturned, *events.ToolApprovalAsked:
		ev.Payload, err = blob.FillPayload(ctx, t.h.b, p)
	}
	return err
}
