package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrMoved is the error of a publish if the store reports another last sequence than the expected one.
// The report can be wrong, so [Settle] reads the tail before it believes it.
var ErrMoved = errors.New("wrong last sequence")

// Publication describes how to publish a commit, as a store implements it.
type Publication struct {
	Commit *Commit
	At     Seq // expected last sequence of the history
	// Publish makes one attempt. Errors: [ErrMoved], [ErrOutcomeUnknown] (the reply was lost), or an error after
	// which the store is unchanged.
	Publish func(context.Context) (Seq, error)
	// Read reads the tail from a sequence on, from the stream's leader.
	Read func(context.Context, Seq) iter.Seq2[Entry, error]
	// Last is the last sequence, from the stream's leader.
	Last func(context.Context) (Seq, error)
	// Wait pauses before attempt n, from 1. It returns ctx's error if ctx ends first.
	Wait func(ctx context.Context, n int) error
}

// Settle publishes until the outcome is known, and so implements the promises of [Log.Append]. It reads commit ids
// back from the tail, because a store's replies do not distinguish conflict, duplicate and lost reply.
func Settle(ctx context.Context, p Publication) (Seq, error) {
	for try := 1; ; try++ {
		seq, err := p.Publish(ctx)
		if err == nil {
			return seq, nil
		}
		if !errors.Is(err, ErrMoved) && !errors.Is(err, ErrOutcomeUnknown) {
			return 0, err
		}
		seq, backErr := p.readBack(ctx, errors.Is(err, ErrMoved))
		if _, conflict := errors.AsType[*ConflictError](backErr); conflict || seq != 0 || errors.Is(err, ErrMoved) && p.stays(backErr) {
			return seq, backErr
		}
		// The tail does not contain the commit: the refusal was wrong, the publish never arrived, or the tail was
		// unreadable. In all three cases the same publish is safe to repeat.
		if waitErr := p.Wait(ctx, try); waitErr != nil {
			return 0, fmt.Errorf("append to %s: %w: %w", p.Commit.Session, ErrOutcomeUnknown, errors.Join(waitErr, err, backErr))
		}
	}
}

// stays reports whether an error of the read-back stays after a refusal. A history that this commit creates may still appear; a malformed
// commit is another one.
func (p Publication) stays(err error) bool {
	_, erased := errors.AsType[*ErasedError](err)
	_, lost := errors.AsType[*LostError](err)
	return erased || lost || errors.Is(err, ErrMalformed) || errors.Is(err, ErrNoSession) && p.At > 0
}

// readBack searches the tail for the commit. It returns the commit's sequence, a [ConflictError] if another commit
// has that sequence, or 0 and nil if the tail is empty. If the store refused the append and the tail is empty, the
// history may be shorter than At. Then a retry would never end, so the last sequence decides.
func (p Publication) readBack(ctx context.Context, refused bool) (Seq, error) {
	last := p.At
	for entry, err := range p.Read(ctx, p.At+1) {
		if errors.Is(err, ErrShorter) {
			break // the tail is empty
		}
		if err != nil {
			return 0, err
		}
		if entry.Commit.ID == p.Commit.ID {
			return entry.Seq, nil
		}
		last = entry.Seq
	}
	conflict := &ConflictError{Session: p.Commit.Session, Expected: p.At, Last: last}
	switch {
	case last > p.At:
		return 0, conflict
	case !refused:
		return 0, nil
	}
	var err error
	if conflict.Last, err = p.Last(ctx); err != nil || conflict.Last >= p.At {
		return 0, err // a commit that arrived meanwhile may be this one: the next attempt reads it
	}
	return 0, conflict
}
