package follow

import (
	"context"
	"errors"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Sync folds the commits after the state's sequence. Where the history is shorter than the state, as after the restore of an
// older stream, the state is of a history that does not exist any more: Sync folds the history from its start. The same where another
// stream was made in the place of the one that the state is of, and has another commit at the state's sequence, or where texts were removed
// from the history since ([bus.SameTexts]): of that a snapshot knows nothing. Errors: a [*events.KeyError] for a commit whose key is not here.
func Sync(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	return syncWith(ctx, log, blobs, s, func(events.Entry) {})
}

// syncWith is [Sync] that calls next with each commit that follows the state, before it folds it. Where another history is in
// the place of the state's, next gets none of its commits.
func syncWith(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, next func(events.Entry)) error {
	err := Walk(ctx, log, blobs, s, math.MaxUint64, func(s *projector.State, e events.Entry) error {
		if err := sameHistory(log, s); err != nil {
			return err
		}
		if err := refuseLocked(s, e); err != nil {
			return err
		}
		next(e)
		return nil
	})
	if err == nil && !sameIncarnation(log, s) {
		err = errOtherIncarnation
	}
	for errors.Is(err, errOtherIncarnation) || errors.Is(err, events.ErrShorter) {
		if errors.Is(err, events.ErrShorter) {
			err = startAgain(ctx, log, blobs, s)
		} else {
			err = inNewIncarnation(ctx, log, blobs, s)
		}
	}
	if err == nil && s.Incarnation() == "" {
		s.SetIncarnation(incarnationOf(log, s.Session))
	}
	return err
}

// sameHistory is errOtherIncarnation for a commit that is not of the history that the state is of: a read goes on in another one where its
// stream was replaced meanwhile. The read has located the history of the commit.
func sameHistory(log events.Log, s *projector.State) error {
	if !sameIncarnation(log, s) {
		return errOtherIncarnation
	}
	if s.Incarnation() == "" { // before the fold: texts that are removed meanwhile make it another one
		s.SetIncarnation(incarnationOf(log, s.Session))
	}
	return nil
}

// errOtherIncarnation is a state of a stream in whose place there is another one.
var errOtherIncarnation = errors.New("another stream is in the place of the state's")

// inNewIncarnation compares the state's last commit with that of the session's stream now, and folds the rest. errOtherIncarnation: it was replaced
// once more.
func inNewIncarnation(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	incarnation, sync := incarnationOf(log, s.Session), SyncAfterConflict
	if s.LastCommit() == "" || !bus.SameTexts(s.Incarnation(), incarnation) {
		sync = startAgain
	}
	if err := sync(ctx, log, blobs, s); err != nil {
		return err
	}
	s.SetIncarnation(incarnation)
	if !sameIncarnation(log, s) {
		return errOtherIncarnation
	}
	return nil
}

// sameIncarnation reports whether the log still has the stream that the state is of, with the same texts, as far as it knows.
func sameIncarnation(log events.Log, s *projector.State) bool {
	now := incarnationOf(log, s.Session)
	if s.Incarnation() == "" { // of a snapshot, or of no commit
		return s.Seq == 0 || bus.SameTexts("", now)
	}
	return now == "" || s.Incarnation() == now
}

// IsStale reports whether a state may be of commits that are lost, or have texts that were removed. It sends no request; [Sync] decides.
func IsStale(b *bus.Bus, s *projector.State) bool {
	return s.Incarnation() != "" && s.Incarnation() != incarnationOf(b.Log(), s.Session)
}

func incarnationOf(log events.Log, session events.SessionID) string {
	l, ok := log.(interface {
		Incarnation(session events.SessionID) string
	})
	if !ok {
		return ""
	}
	return l.Incarnation(session)
}
