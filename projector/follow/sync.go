package follow

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// A state is of one history. The servers may have another one later: of a store, or a stream, that was restored, or without lost commits.
// Sequences do not show that, and the last commit does only where it is known to follow the others of the state. So every commit that is folded is
// of the incarnation of the log that the state is of, or the state is compared first:
//
//	commit                                    guard
//	of a read of the log                      the read is of one history; [Sync] compares the incarnation of it with the state's
//	of a subscription, or requested alone     [Receive]
//	that this process appended                [Compare], where the state is stale after the append
//	of a snapshot                             [Sync] looks the commit at its sequence up

// Sync folds the commits after the state's sequence. Where the history is shorter than the state, as after the restore of an
// older stream, the state is of a history that does not exist any more: Sync folds the history from its start. The same where another
// stream was made in the place of the one that the state is of, and has another commit at the state's sequence, or where texts were removed
// from the history since ([bus.SameTexts]): of that a snapshot knows nothing. Errors: a [*events.KeyError] for a commit whose key is not here.
func Sync(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	return syncWith(ctx, log, blobs, s, func(events.Entry) {})
}

// syncWith is [Sync] that calls next with each commit that follows the state, before it folds it. Where another history is in
// the place of the state's, next gets none of its commits, or the state is reset.
func syncWith(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, next func(events.Entry)) error {
	seq, id := s.Seq, s.LastCommit()
	err := walkWhole(ctx, log, blobs, s, next)
	if err == nil && s.Seq > 0 && s.Incarnation() == "" {
		err = identify(ctx, log, s, seq, id)
	}
	return resolve(ctx, log, blobs, s, err)
}

// resolve continues a sync that ended because the state may be of another history, as long as that is its error.
func resolve(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, err error) error {
	for {
		switch {
		case errors.Is(err, events.ErrShorter):
			err = startAgain(ctx, log, blobs, s)
		case errors.Is(err, errOtherIncarnation):
			err = inNewIncarnation(ctx, log, blobs, s)
		default:
			return err
		}
	}
}

// walkWhole folds the commits after the state, if the log has the incarnation that the state is of. The state before the first commit gets that of
// the log.
func walkWhole(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, next func(events.Entry)) error {
	first := true
	err := Walk(ctx, log, blobs, s, math.MaxUint64, func(s *projector.State, e events.Entry) error {
		if first { // the read has located the history
			first = false
			if s.Seq == 0 {
				s.SetIncarnation(incarnationOf(log, s.Session))
			}
			if !sameIncarnation(log, s) {
				return errOtherIncarnation
			}
		}
		if err := refuseLocked(s, e); err != nil {
			return err
		}
		next(e)
		return nil
	})
	if err == nil && s.Seq > 0 && !sameIncarnation(log, s) {
		err = errOtherIncarnation
	}
	return err
}

// errOtherIncarnation is a state of a stream in whose place there is another one, or perhaps.
var errOtherIncarnation = errors.New("another stream is in the place of the state's")

// inNewIncarnation compares the state's last commit with that of the session's stream now, and folds the rest. errOtherIncarnation: it was replaced
// once more. [events.ErrShorter]: it has another commit.
func inNewIncarnation(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	now, err := located(ctx, log, s.Session)
	if err != nil {
		return err
	}
	if s.LastCommit() == "" || !bus.SameTexts(s.Incarnation(), now) {
		return events.ErrShorter
	}
	if err := fromLast(ctx, log, blobs, s); err != nil {
		return err
	}
	if incarnationOf(log, s.Session) != now {
		return errOtherIncarnation
	}
	s.SetIncarnation(now)
	return nil
}

// SyncAfterConflict is [Sync] for a state that the log refused. It compares the state's last commit with that of the log: the
// history may have been replaced by an older one that is as long by now.
func SyncAfterConflict(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	if s.LastCommit() == "" {
		return Sync(ctx, log, blobs, s)
	}
	return resolve(ctx, log, blobs, s, fromLast(ctx, log, blobs, s))
}

// fromLast folds the commits after the state, if the log has its last one: else [events.ErrShorter].
func fromLast(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	return Continue(ctx, log, blobs, s, math.MaxUint64, refuseLocked)
}

// Continue is [Walk] for a state that was folded some time before. The log has to have its last commit: else [events.ErrShorter].
func Continue(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, seq events.Seq, before func(*projector.State, events.Entry) error) error {
	known, same, commits := s.LastCommit(), false, log.Read(ctx, s.Session, s.Seq)
	err := fold(ctx, func(yield func(events.Entry, error) bool) {
		for entry, err := range commits {
			switch {
			case err != nil || same:
				if !yield(entry, err) {
					return
				}
			case known != "" && entry.Commit.ID != known:
				return
			default:
				same = true
			}
		}
	}, blobs, s, seq, before)
	if err == nil && !same {
		err = events.ErrShorter
	}
	return err
}

// startAgain drops what a state has, and folds the history.
func startAgain(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	s.Reset()
	if err := walkWhole(ctx, log, blobs, s, func(events.Entry) {}); err != nil {
		return err
	}
	return Complete(ctx, blobs, s)
}

// identify names the incarnation of a state without one, as from a snapshot that had the commit id at seq. An empty id is not known.
// [events.ErrShorter]: the history has another commit there, or other texts.
func identify(ctx context.Context, log events.Log, s *projector.State, seq events.Seq, id events.CommitID) error {
	l, ok := log.(incarnated)
	if !ok {
		return nil
	}
	for {
		now, err := located(ctx, l, s.Session)
		switch {
		case err != nil:
			return err
		case !bus.SameTexts("", now) || isReplaced(ctx, l, s.Session, seq, id):
			return events.ErrShorter
		case now == l.Incarnation(s.Session):
			s.SetIncarnation(now)
			return nil
		}
	}
}

// isReplaced reports whether a session has another commit at a sequence than the known one. It looks into the stream only: in an archive
// that costs too much.
func isReplaced(ctx context.Context, log incarnated, session events.SessionID, seq events.Seq, known events.CommitID) bool {
	if known == "" {
		return false
	}
	id, err := log.CommitIDInStream(ctx, session, seq)
	return err == nil && id != known
}

// Receive folds a commit that was received by a subscription, or requested alone, if it is certain that it follows the state: on this connection, and
// to the same servers, the log has had the incarnation that the state is of since before. Otherwise it is false, and [Sync] decides.
func Receive(b *bus.Bus, s *projector.State, e events.Entry) bool {
	return s.Incarnation() != "" && !IsStale(b, s) && s.Apply(e) == nil
}

// Compare names the incarnation of the log for a stale state, whose last commit the log still has. Unlike [Sync], it folds nothing.
// [events.ErrShorter]: the log has another commit at its sequence, or none, or other texts.
func Compare(ctx context.Context, b *bus.Bus, s *projector.State) error {
	log := b.Log()
	for {
		now, err := located(ctx, log, s.Session)
		if err != nil {
			return err
		}
		e, err := log.CommitAt(ctx, s.Session, s.Seq)
		switch {
		case err != nil:
			return err
		case e.Commit.ID != s.LastCommit() || !bus.SameTexts(s.Incarnation(), now):
			return events.ErrShorter
		case now == log.Incarnation(s.Session):
			s.SetIncarnation(now)
			return nil
		}
	}
}

// sameIncarnation reports whether the log has the stream that the state is of, with the same texts.
func sameIncarnation(log events.Log, s *projector.State) bool {
	now := incarnationOf(log, s.Session)
	if s.Incarnation() == "" { // of a snapshot
		return s.Seq > 0 && bus.SameTexts("", now) || !isIncarnated(log)
	}
	return s.Incarnation() == now
}

// IsStale reports whether a state may be of commits that are lost, or have texts that were removed. It sends no request; [Sync] decides.
func IsStale(b *bus.Bus, s *projector.State) bool {
	return s.Incarnation() != "" && s.Incarnation() != incarnationOf(b.Log(), s.Session)
}

// incarnated is a log that names the incarnations of its histories.
type incarnated interface {
	events.Log
	Incarnation(session events.SessionID) string
	CommitIDInStream(ctx context.Context, session events.SessionID, seq events.Seq) (events.CommitID, error)
}

func isIncarnated(log events.Log) bool {
	_, ok := log.(incarnated)
	return ok
}

// located is the incarnation of a log that names them, which locates the session where it has to.
func located(ctx context.Context, log events.Log, session events.SessionID) (string, error) {
	if now := incarnationOf(log, session); now != "" {
		return now, nil
	}
	if _, err := log.Last(ctx, session); err != nil {
		return "", err
	}
	if now := incarnationOf(log, session); now != "" {
		return now, nil
	}
	return "", fmt.Errorf("%w: session %s moves", events.ErrOutcomeUnknown, session)
}

func incarnationOf(log events.Log, session events.SessionID) string {
	if l, ok := log.(incarnated); ok {
		return l.Incarnation(session)
	}
	return ""
}
