package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// BranchOf is the id of the session that [api.WhenBusyBranch] creates for a turn. The id is the same in every
// process.
func BranchOf(id events.SessionID, turn events.TurnID) events.SessionID {
	return events.SessionID(events.DerivedID("branch-", string(id), string(turn)))
}

// ContinueInBranch creates the session in which a waiting turn continues, and requests the turn there. The new session is a
// copy of this one as it was before the running turn began. Its configuration, plugin states, tools and
// grants are those of now.
// Concurrent and repeated calls are safe: on return exactly one such session exists, and it has the turn or will get
// it. Errors: [api.ErrExists] where the id belongs to an unrelated session.
func (w Worker) ContinueInBranch(ctx context.Context, id events.SessionID, q projector.QueuedTurn) (events.SessionID, error) {
	ctx, branch := w.as(ctx), BranchOf(id, q.ID)
	for {
		err := w.Host.openBranch(ctx, id, branch, q)
		if errors.Is(err, errRaced) {
			continue // the session exists
		}
		if err == nil {
			_, err = w.Host.requestTurn(ctx, branch, w.Host.ownMeta(ctx, string(q.ID)), turnRequest{q.ID, events.TurnRequested{Input: q.Input, Callers: q.Callers, Trace: q.Trace}})
		}
		if err != nil {
			return "", fmt.Errorf("branch turn %s of session %s: %w", q.ID, id, err)
		}
		return branch, nil
	}
}

// errRaced reports that another process opened the session first.
var errRaced = errors.New("session was opened meanwhile")

// openBranch opens the session unless it exists.
func (h *Host) openBranch(ctx context.Context, id, branch events.SessionID, q projector.QueuedTurn) error {
	have, err := h.State(ctx, branch)
	switch {
	case errors.Is(err, events.ErrNoSession):
	case err != nil:
		return err
	case have.Forked.Session != id:
		return api.ErrExists
	default:
		return nil
	}
	base, err := h.stateBefore(ctx, id, q)
	if err != nil {
		return err
	}
	now, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	o := creation{h: h, id: branch, meta: h.ownMeta(ctx, "create"), creators: q.Callers, now: now, creator: base, base: base, req: api.CreateRequest{
		Parent: base.Parent, Relation: base.Relation, Labels: base.Labels, Usage: base.Source,
	}}
	err = o.create(ctx, nil, o.openedEvent(ctx), nil)
	if errors.As(err, new(*events.ConflictError)) {
		return errRaced
	}
	if err == nil {
		o.keepOverlays(ctx)
	}
	return err
}

// stateBefore is the session's state before the running turn began. Where that turn did not start, it is the state
// before the waiting turn was recorded.
func (h *Host) stateBefore(ctx context.Context, id events.SessionID, q projector.QueuedTurn) (*projector.State, error) {
	s, err := follow.OpenBefore(ctx, h.b, id, func(s *projector.State) bool {
		t := s.Turn()
		return s.Seq < q.Seq && (t == nil || t.ID != q.Behind)
	})
	if err != nil {
		return nil, err
	}
	for entry, err := range h.log.Read(ctx, id, s.Seq+1) {
		if err == nil {
			err = follow.Prepare(ctx, h.b, s, entry.Commit)
		}
		if err != nil {
			return nil, err
		}
		for i := range entry.Commit.Events {
			ev := &entry.Commit.Events[i]
			if ev.Kind == events.KindTurnStarted && ev.Turn == q.Behind || ev.Kind == events.KindTurnRequested && ev.Turn == q.ID {
				return s, nil
			}
		}
		if err := s.Apply(entry); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("turn %s: %w", q.ID, api.ErrUnknownTurn)
}
