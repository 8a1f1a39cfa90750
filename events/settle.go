package events

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// ErrMoved is what a publish answers when the store says that its last
// sequence is not the expected one. It is a hint: [Settle] believes it only
// after the tail was read.
var ErrMoved = errors.New("wrong last sequence")

// Publication is one try-able publish of a commit, as stores offer it.
type Publication struct {
	Commit *Commit
	At     Seq // where the history has to end
	// Publish tries once. It answers nil, [ErrMoved], [ErrOutcomeUnknown]
	// (the reply was lost), or an error after which nothing was written.
	Publish func(context.Context) (Seq, error)
	// Read reads the tail from a sequence on, as the leader has it.
	Read func(context.Context, Seq) iter.Seq2[Entry, error]
	// Last is the last sequence, as the leader has it.
	Last func(context.Context) (Seq, error)
	// Wait pauses before try n, from 1. It returns ctx's error when that ends first.
	Wait func(ctx context.Context, n int) error
}

// Settle publishes until the outcome is known and keeps the promises of
// [Log.Append]: conflict, duplicate, lost reply and unknown outcome are told
// apart by reading commit ids back, because a store's answers alone do not.
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
		if _, conflict := errors.AsType[*ConflictError](backErr); conflict || seq != 0 || errors.Is(err, ErrMoved) && p.gone(backErr) {
			return seq, backErr
		}
		// The tail does not hold it: a spurious refusal, or a publish that never
		// arrived, or the tail could not be read. The same publish is safe again.
		if waitErr := p.Wait(ctx, try); waitErr != nil {
			return 0, fmt.Errorf("append to %s: %w: %w", p.Commit.Session, ErrOutcomeUnknown, errors.Join(waitErr, err, backErr))
		}
	}
}

// gone reports whether there is no history to append to, and will be none by
// waiting. One that is to begin with this commit may not be there yet.
func (p Publication) gone(err error) bool {
	_, erased := errors.AsType[*ErasedError](err)
	return erased || errors.Is(err, ErrNoSession) && p.At > 0
}

// readBack looks for the commit in the tail. It returns its sequence, or a
// [ConflictError] where another commit took its place, or 0 and nil where it is not there.
// Where the store refused the append and there is no tail, the history may
// be shorter than the caller believes, and then trying again would never end.
func (p Publication) readBack(ctx context.Context, refused bool) (Seq, error) {
	last := p.At
	for entry, err := range p.Read(ctx, p.At+1) {
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
		return 0, err // what came meanwhile may be the commit itself: it is read the next time
	}
	return 0, conflict
}
