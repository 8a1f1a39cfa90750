package session

import (
	"context"
	"fmt"

	"github.com/oklog/ulid/v2"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/turn"
)

// Cancel asks a turn to stop and returns at once. The first request wins: the
// evidence returned is its. A turn that ended before is left as it is. One
// whose command no worker has taken yet is recorded with its cancel, and ends
// without having run; one that waits for its time ends at once. One that nobody asked for is [ErrUnknownTurn].
func (h *Host) Cancel(ctx context.Context, id events.SessionID, of events.TurnID, req CancelRequest) (CancelReceipt, CancelRequest, error) {
	if req.ID == "" {
		req.ID = ulid.Make().String()
	}
	ctx, asked := api.TakeAsked(ctx)
	c := canceller{h: h, session: id, turn: of, req: req, asked: asked, by: h.stamp("cancel", api.Asked{Actor: asked.Actor})}
	if err := c.run(ctx); err != nil {
		return "", CancelRequest{}, fmt.Errorf("cancel turn %s of session %s: %w", of, id, err)
	}
	return c.receipt, c.evidence, nil
}

// canceller is one call of [Host.Cancel].
type canceller struct {
	h        *Host
	session  events.SessionID
	turn     events.TurnID
	req      CancelRequest
	asked    api.Asked
	by       stamp
	found    unrecordedTurn
	worker   events.WorkerID // that runs the turn
	parked   events.Seq      // at which no worker was found to run it; 0: there is one
	receipt  CancelReceipt
	evidence CancelRequest
}

func (c *canceller) run(ctx context.Context) (err error) {
	if c.found, err = c.h.unrecorded(ctx, c.session, c.turn); err != nil {
		return err
	}
	if err = c.h.decideAs(ctx, c.session, c.by, c.decide); err != nil {
		return err
	}
	if c.found.timed { // where it comes all the same, it finds the turn in the history
		if err = c.h.b.Unschedule(ctx, c.session, string(c.turn)); err != nil {
			return err
		}
	}
	if c.receipt == CancelCompletionWon && c.asked.Key != "" {
		return c.repeated(ctx)
	}
	if c.parked != 0 {
		return c.wake(ctx)
	}
	if c.worker != "" {
		_ = c.h.b.Poke(c.worker, c.session)
	}
	return nil
}

func (c *canceller) decide(s *projector.State) ([]events.Event, error) {
	c.receipt, c.evidence, c.worker, c.parked = CancelRequested, c.req, "", 0
	if t := s.Turn(); t != nil && t.ID == c.turn {
		return c.running(s, t), nil
	}
	for i := range s.Queue {
		switch q := &s.Queue[i]; {
		case q.ID != c.turn:
		case q.Cancelled:
			c.requested(&q.Cancel)
			return nil, nil
		case q.Busy == events.BusyBranch: // another session has it, or is about to
			c.receipt, c.evidence = CancelCompletionWon, CancelRequest{}
			return nil, nil
		}
	}
	record, digest, err := findTurn(s, c.turn)
	switch {
	case err != nil:
		return nil, err
	case digest == "" && c.found.waits && s.Status == projector.StatusOpen:
		list := []events.Event{events.Of(c.turn, &events.TurnRequested{Input: c.found.input}), c.event()}
		if c.found.timed { // no worker comes to end it for long
			list = append(list, events.Of(c.turn, &events.TurnCompleted{End: events.EndCancelled}))
		}
		return list, nil
	case digest == "":
		return nil, ErrUnknownTurn
	case record != nil:
		c.receipt, c.evidence = CancelCompletionWon, CancelRequest{}
		return nil, nil
	}
	return []events.Event{c.event()}, nil
}

func (c *canceller) running(s *projector.State, t *projector.Turn) []events.Event {
	switch {
	case t.Cancelled:
		c.requested(&t.Cancel)
		return nil
	case turn.Owed(s).Parked():
		c.parked = s.Seq
		return nil
	}
	c.worker = t.Worker
	return []events.Event{c.event()}
}

// wake cancels a turn that waits for somebody outside. Some worker has to end
// it: that is in the queue before the cancel is in the history, which then
// tells whose request was the first.
func (c *canceller) wake(ctx context.Context) error {
	request := Cancellation{Turn: c.turn, Request: c.fact()}
	err := enqueue(ctx, c.h.b, c.session, events.TurnID(events.DerivedID("cancel-", string(c.turn))), Command{Cancel: request, Actor: c.by.actor.ID})
	if err != nil {
		return err
	}
	err = c.h.decideAs(ctx, c.session, c.by, func(s *projector.State) ([]events.Event, error) {
		if t := s.Turn(); t == nil || t.ID != c.turn || t.Cancelled {
			return nil, nil
		}
		return []events.Event{c.event()}, nil
	})
	if err != nil {
		return err
	}
	first, err := c.h.firstSince(ctx, c.session, c.parked, func(ev *events.Event) bool {
		return ev.Turn == c.turn && (ev.Kind == events.KindTurnCancelRequested || ev.Kind == events.KindTurnCompleted)
	})
	if err != nil {
		return err
	}
	c.receipt, c.evidence = CancelCompletionWon, CancelRequest{}
	if first, ok := first.(*events.TurnCancelRequested); ok {
		c.requested(first)
	}
	return nil
}

// repeated looks whether it is this very request that the turn, which has ended, was cancelled by.
func (c *canceller) repeated(ctx context.Context) error {
	first, err := c.h.firstSince(ctx, c.session, c.asked.Since, func(ev *events.Event) bool {
		p, ok := ev.Payload.(*events.TurnCancelRequested)
		return ok && ev.Turn == c.turn && p.Request == c.req.ID
	})
	if p, ok := first.(*events.TurnCancelRequested); ok && err == nil {
		c.requested(p)
	}
	return err
}

// requested tells a cancel of ours, which a worker may have recorded, from another's.
func (c *canceller) requested(first *events.TurnCancelRequested) {
	c.receipt, c.evidence = CancelRequested, CancelRequest{ID: first.Request, Origin: first.Origin, Reason: first.Reason}
	if first.Request != c.req.ID {
		c.receipt = CancelAlreadyRequested
	}
}

func (c *canceller) fact() events.TurnCancelRequested {
	return events.TurnCancelRequested{Request: c.req.ID, Origin: c.req.Origin, Reason: c.req.Reason}
}

func (c *canceller) event() events.Event {
	fact := c.fact()
	return events.Of(c.turn, &fact)
}

// firstSince is the first event after seq that is wanted; nil where there is none.
func (h *Host) firstSince(ctx context.Context, id events.SessionID, seq events.Seq, wanted func(*events.Event) bool) (events.Payload, error) {
	for entry, err := range h.log.Read(ctx, id, seq+1) {
		if err != nil {
			return nil, err
		}
		for i := range entry.Commit.Events {
			if wanted(&entry.Commit.Events[i]) {
				return entry.Commit.Events[i].Payload, nil
			}
		}
	}
	return nil, nil
}
