package reader

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
	"github.com/lash-go/lash/session/api"
)

// Open is a session's state now from its snapshot and the log after that. It may be partial, and knows which of its
// segments are stored.
func (r *Reader) Open(ctx context.Context, id events.SessionID) (*projector.State, error) {
	if err := events.CheckToken("session", id); err != nil {
		return nil, err
	}
	s, err := follow.Open(ctx, r.b, id)
	if err = api.Authorize(ctx, id, s, err); err != nil {
		return nil, fmt.Errorf("state of %s: %w", id, err)
	}
	return s, nil
}

// RemainingAt is the state of a session that has lost its last commits, as it was at a sequence before them.
func (r *Reader) RemainingAt(ctx context.Context, id events.SessionID, seq events.Seq) (*projector.State, error) {
	s, err := follow.At(ctx, r.b.Log().Remaining(), r.b, id, seq)
	if err = api.Authorize(ctx, id, s, err); err != nil {
		return nil, fmt.Errorf("state of %s: %w", id, err)
	}
	return s, nil
}

// OfSnapshot is a copy of a state that a caller has. Its stored segments may be gone with its session; then the copy is whole.
func (r *Reader) OfSnapshot(ctx context.Context, s *projector.State) (*projector.State, error) {
	_, err := r.log.Last(ctx, s.Session)
	if !errors.Is(err, events.ErrNoSession) {
		return s.Clone(), err
	}
	c := s.Clone()
	if err := follow.Complete(ctx, r.b, c); err != nil {
		return nil, err
	}
	return c.Unstored(), nil
}
