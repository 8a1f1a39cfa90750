package follow

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/delay"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// snapshotRow is a snapshot in its table.
type snapshotRow struct {
	Seq    events.Seq      `msgpack:"q"`
	Digest string          `msgpack:"d"` // of the head
	Head   []byte          `msgpack:"h,omitempty"`
	Blob   events.BlobRef  `msgpack:"b,omitempty"` // of the head, if it is too large for a row
	Commit events.CommitID `msgpack:"c"`           // at Seq
}

// maxRowBytes leaves space for the table's headers in a message.
const maxRowBytes = 900 << 10

// Open returns the state of a session at its end, folded from the newest snapshot. It may be partial: [Complete]
// attaches the rest. Errors: [events.ErrNoSession] and those of [events.Log.Read].
func Open(ctx context.Context, b *bus.Bus, session events.SessionID) (*projector.State, error) {
	s, _, err := restore(ctx, b, b, session)
	if err != nil {
		return nil, err
	}
	if err := Sync(ctx, b.Log(), b, s); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenBefore returns the state of a session's newest snapshot if before accepts it, otherwise the empty state. It may
// be partial.
func OpenBefore(ctx context.Context, b *bus.Bus, session events.SessionID, before func(*projector.State) bool) (*projector.State, error) {
	s, _, err := restore(ctx, b, b, session)
	if err == nil && (!before(s) || isReplaced(ctx, b.Log(), session, s.Seq, s.LastCommit())) {
		s = projector.New(session)
	}
	return s, err
}

// BlobReader reads bodies outside the log and checks them against their reference.
type BlobReader interface {
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// How often a body is read that the servers do not give, and the waits between.
const (
	readTries = 5
	readBase  = 100 * time.Millisecond
	readLimit = 2 * time.Second
)

// isTransient reports whether a body may be read later: the servers do not answer, so it may be there.
func isTransient(err error) bool { return events.OfServers(err) }

// readBlob reads a body, again where the error is transient. A fold of the whole history costs more than these waits.
func readBlob(ctx context.Context, blobs BlobReader, ref events.BlobRef) ([]byte, error) {
	for n := 1; ; n++ {
		data, err := blobs.Blob(ctx, ref)
		if err == nil || !isTransient(err) || n == readTries || !delay.Sleep(ctx, delay.Backoff(readBase, readLimit, n)) {
			return data, err
		}
	}
}

// refuseLocked refuses a commit of which a payload cannot be read: a state without it would be another one than that of
// the nodes with the key. So a node without the key decides, appends, saves and lists nothing of the session.
func refuseLocked(s *projector.State, e events.Entry) error {
	if id := e.Commit.Locked(); id != 0 {
		return fmt.Errorf("session %s at sequence %d: %w", s.Session, e.Seq, &events.KeyError{ID: id})
	}
	return nil
}

// At returns the complete state of a session at seq, or at its end if that is earlier. It is folded from the log, and
// from the base of a copy.
func At(ctx context.Context, log events.Log, blobs BlobReader, session events.SessionID, seq events.Seq) (*projector.State, error) {
	return upTo(ctx, log, blobs, projector.New(session), seq, refuseLocked)
}

// ReadAt is At for readers: the state is one of [projector.NewUnproven]. Events whose key is not here change nothing in it,
// like redacted ones.
func ReadAt(ctx context.Context, log events.Log, blobs BlobReader, session events.SessionID, seq events.Seq) (*projector.State, error) {
	return upTo(ctx, log, blobs, projector.NewUnproven(session), seq, nil)
}

func upTo(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, seq events.Seq, before func(*projector.State, events.Entry) error) (*projector.State, error) {
	err := Walk(ctx, log, blobs, s, seq, before)
	for errors.Is(err, events.ErrShorter) { // another history took its place meanwhile
		s.Reset()
		err = Walk(ctx, log, blobs, s, seq, before)
	}
	if err != nil {
		return nil, err
	}
	if err := Complete(ctx, blobs, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Prepare attaches the base that the state needs to fold c, if any. If the base is lost, the session cannot be read.
func Prepare(ctx context.Context, blobs BlobReader, s *projector.State, c *events.Commit) error {
	ref := s.NeedsBase(c)
	if ref.IsZero() {
		return nil
	}
	body, err := readBlob(ctx, blobs, ref)
	if err == nil {
		err = s.AttachBase(ref, body)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", &projector.MissingBaseError{Session: s.Session, Ref: ref}, err)
	}
	return nil
}

// Verify is [projector.Verifier.Apply] for sessions that may be copies: it attaches the base.
func Verify(ctx context.Context, blobs BlobReader, v *projector.Verifier, e events.Entry) ([]projector.Violation, error) {
	if err := Prepare(ctx, blobs, v.State(), e.Commit); err != nil {
		return nil, err
	}
	found := v.Apply(e)
	if e.Seq > 1 {
		return found, nil
	}
	return found, Complete(ctx, blobs, v.State())
}

// Walk folds the commits after the state's sequence up to seq. It calls before, unless that is nil, with the state and
// each commit that it is about to fold. An error of before ends the walk and is returned as it is.
func Walk(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, seq events.Seq, before func(*projector.State, events.Entry) error) error {
	return fold(ctx, log.Read(ctx, s.Session, s.Seq+1), blobs, s, seq, before)
}

// fold is [Walk] for the commits that follow the state.
func fold(ctx context.Context, commits iter.Seq2[events.Entry, error], blobs BlobReader, s *projector.State, seq events.Seq, before func(*projector.State, events.Entry) error) error {
	for entry, err := range commits {
		if err != nil {
			return fmt.Errorf("sync %s: %w", s.Session, err)
		}
		if entry.Seq > seq {
			break
		}
		if err = Prepare(ctx, blobs, s, entry.Commit); err != nil {
			return fmt.Errorf("sync %s: %w", s.Session, err)
		}
		if before != nil {
			if err := before(s, entry); err != nil {
				return err
			}
		}
		if err := s.Apply(entry); err != nil {
			return fmt.Errorf("sync %s: %w", s.Session, err)
		}
	}
	return nil
}

// Complete attaches all missing segments.
func Complete(ctx context.Context, blobs BlobReader, s *projector.State) error {
	for missing := s.Missing(); len(missing) > 0; missing = s.Missing() { // an attached page lists more missing segments
		for _, ref := range missing {
			data, err := readBlob(ctx, blobs, ref)
			if err == nil {
				err = s.Attach(ref, data)
			}
			if err != nil {
				return fmt.Errorf("complete %s: %w", s.Session, err)
			}
		}
	}
	return nil
}

// Whole is [Open] and [Complete]. If a segment is lost, it folds from the log. If the servers do not give a segment, that
// is an error: a fold of a long history would not make them answer.
func Whole(ctx context.Context, b *bus.Bus, session events.SessionID) (*projector.State, error) {
	return whole(ctx, b, b.Log(), b, session)
}

func whole(ctx context.Context, b *bus.Bus, log events.Log, blobs BlobReader, session events.SessionID) (*projector.State, error) {
	s, _, err := restore(ctx, b, blobs, session)
	if err == nil {
		err = Sync(ctx, log, blobs, s)
	}
	if err != nil {
		return nil, err
	}
	if err := Complete(ctx, blobs, s); err == nil {
		return s, nil
	} else if ctx.Err() != nil || isTransient(err) {
		return nil, err
	}
	return At(ctx, log, blobs, session, math.MaxUint64)
}

// restore reads the newest snapshot. Without a usable one it returns the empty state. Errors: those of the table, and a
// transient one of the head.
func restore(ctx context.Context, b *bus.Bus, blobs BlobReader, session events.SessionID) (*projector.State, bus.Row, error) {
	stored, err := b.Snapshots().Get(ctx, session)
	if err != nil || stored.Revision == 0 {
		return projector.New(session), stored, err
	}
	s, err := decode(ctx, blobs, stored.Value)
	if err != nil {
		if ctx.Err() != nil || isTransient(err) {
			return nil, stored, err
		}
		// For another fold version, or a damaged row, the history has everything.
		return projector.New(session), stored, nil
	}
	return s, stored, nil
}

func decode(ctx context.Context, blobs BlobReader, value []byte) (*projector.State, error) {
	var r snapshotRow
	if err := events.DecodePayload(value, &r); err != nil {
		return nil, err
	}
	head := r.Head
	if !r.Blob.IsZero() {
		var err error
		if head, err = readBlob(ctx, blobs, r.Blob); err != nil {
			return nil, err
		}
	}
	if projector.RefOf(head).Digest != r.Digest {
		return nil, fmt.Errorf("snapshot: %w: digest differs", events.ErrMalformed)
	}
	s, err := projector.Restore(head)
	if err == nil {
		s.SetLastCommit(r.Commit)
	}
	return s, err
}

// Save writes a snapshot of s after its fresh segments, unless a usable snapshot that is at least as new exists. It
// returns the digest of the head. A state with a segment larger than [events.MaxBlobBytes] gets no snapshot; then the
// digest is empty.
func Save(ctx context.Context, b *bus.Bus, s *projector.State) (string, error) {
	digest, err := save(ctx, b, s)
	if errors.Is(err, events.ErrTooLarge) {
		return "", nil
	}
	return digest, err
}

func save(ctx context.Context, b *bus.Bus, s *projector.State) (string, error) {
	head, fresh, err := s.Snapshot()
	if err != nil {
		return "", err
	}
	if err := store(ctx, b, fresh); err != nil {
		return "", fmt.Errorf("save snapshot of %s: %w", s.Session, err)
	}
	r := snapshotRow{Seq: s.Seq, Commit: s.LastCommit(), Digest: projector.RefOf(head).Digest, Head: head}
	if len(head) > maxRowBytes {
		r.Head = nil
		if r.Blob, err = b.PutBlob(ctx, head); err != nil {
			return "", fmt.Errorf("save snapshot of %s: %w", s.Session, err)
		}
	}
	value, err := events.EncodePayload(&r)
	if err != nil {
		return "", err
	}
	err = replace(ctx, b.Snapshots(), s.Session, value, func(old []byte) bool {
		var have snapshotRow
		return events.DecodePayload(old, &have) != nil || have.Seq < s.Seq || have.Seq == s.Seq && unusable(ctx, b, old)
	})
	return r.Digest, err
}

func store(ctx context.Context, b *bus.Bus, pieces []projector.Segment) error {
	for i := range pieces {
		if _, err := b.PutBlob(ctx, pieces[i].Data); err != nil {
			return err
		}
	}
	return nil
}

// SaveBase stores the initial content of a copy of s and returns its reference. It reuses the stored segments of
// snapshots and other copies. So its cost does not depend on the length of the history, if s was opened from a
// snapshot.
func SaveBase(ctx context.Context, b *bus.Bus, s *projector.State) (ref events.BlobRef, base []byte, err error) {
	base, fresh, err := s.EncodeBase()
	if err == nil {
		err = store(ctx, b, fresh)
	}
	if err == nil {
		ref, err = b.PutBlob(ctx, base)
	}
	if err != nil {
		return ref, nil, fmt.Errorf("save base of %s: %w", s.Session, err)
	}
	return ref, base, nil
}

// unusable reports whether a stored snapshot is damaged, lost its head, or has another fold version. Without a
// replacement, an idle session would keep it.
func unusable(ctx context.Context, b *bus.Bus, value []byte) bool {
	_, err := decode(ctx, b, value)
	return errors.Is(err, events.ErrMalformed) || errors.Is(err, bus.ErrNotFound) || errors.Is(err, projector.ErrOldFold)
}
