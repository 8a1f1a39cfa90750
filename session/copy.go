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

// opened is a session's state now, by the fastest way from where it is stored. It may be partial, and
// knows which of its pieces are stored.
func (h *Host) opened(ctx context.Context, id events.SessionID) (*projector.State, error) {
	if err := events.CheckToken("session", id); err != nil {
		return nil, err
	}
	s, err := follow.Open(ctx, h.b, id)
	if err = api.Reached(ctx, id, s, err); err != nil {
		return nil, fmt.Errorf("state of %s: %w", id, err)
	}
	return s, nil
}

// ofSnapshot is a state that a caller has. What was stored of it may be gone with its session.
func (h *Host) ofSnapshot(ctx context.Context, s *projector.State) (*projector.State, error) {
	_, err := h.log.Last(ctx, s.Session)
	if !errors.Is(err, events.ErrNoSession) {
		return s.Clone(), err
	}
	c := s.Clone()
	if err := follow.Complete(ctx, h.b, c); err != nil {
		return nil, err
	}
	return c.Unstored(), nil
}

// onPath leaves of the base what is asked for of it.
func (o *opening) onPath(ctx context.Context) (err error) {
	if !o.req.PathOnly || o.base == nil {
		return nil
	}
	if o.base.Branched {
		err = follow.Complete(ctx, o.h.b, o.base)
	}
	if err == nil {
		o.base, err = o.base.PathOnly()
	}
	return err
}

// store puts what the session begins with where its first commit, which is still to come, names it. A creator
// that dies between the two leaves blobs that nothing names.
func (o *opening) store(ctx context.Context, opened *events.SessionOpened, s *projector.State) error {
	if o.base == nil {
		return nil
	}
	ref, body, err := follow.SaveBase(ctx, o.h.b, o.base)
	if err != nil {
		return err
	}
	opened.Base = ref
	return s.AttachBase(ref, body)
}

// nodes are those that come after the base, with ids that it does not have.
func (o *opening) nodes(ctx context.Context) ([]events.NewNode, error) {
	beside := projector.New(o.id)
	if o.base != nil && len(o.req.Nodes) > 0 {
		beside = o.base
		if err := follow.Complete(ctx, o.h.b, beside); err != nil {
			return nil, err
		}
	}
	return newNodesBeside(beside, o.req.Nodes, make(map[events.NodeID]bool))
}
