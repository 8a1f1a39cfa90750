// Package follow loads and saves the state of sessions over the bus: snapshots,
// the rows of the directory and the catalogues, and the projector that keeps them.
//
// The history stays the truth. A reader folds the tail after the snapshot, so
// a projector that is late, or dead, costs time and never correctness.
package follow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// row is a snapshot as it stands in its table.
type row struct {
	Seq    events.Seq     `msgpack:"q"`
	Digest string         `msgpack:"d"` // of the head
	Head   []byte         `msgpack:"h,omitempty"`
	Blob   events.BlobRef `msgpack:"b,omitempty"` // of the head, when it is too large for a row
}

// maxRowBytes leaves room for the table's own headers in a message.
const maxRowBytes = 900 << 10

// Open gives the state of a session at its end, folded from the newest
// snapshot. It may be partial: [Complete] attaches the rest.
// Errors: [events.ErrNoSession] and those of [events.Log.Read].
func Open(ctx context.Context, b *bus.Bus, session events.SessionID) (*projector.State, error) {
	s, _, err := restore(ctx, b, session)
	if err != nil {
		return nil, err
	}
	if err := Sync(ctx, b.Log(), b, s); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenBefore gives the state of a session's newest snapshot where that is before what is looked for,
// and else the empty state. It may be partial.
func OpenBefore(ctx context.Context, b *bus.Bus, session events.SessionID, before func(*projector.State) bool) (*projector.State, error) {
	s, _, err := restore(ctx, b, session)
	if err == nil && !before(s) {
		s = projector.New(session)
	}
	return s, err
}

// BlobReader gives bodies kept outside the log, checked against their reference.
type BlobReader interface {
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// Sync folds what was appended since.
func Sync(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State) error {
	return syncTo(ctx, log, blobs, s, math.MaxUint64)
}

// At gives the whole state of a session as it was at seq, or where it ends before, folded from
// the log and the base that it began with, if it is a copy.
func At(ctx context.Context, log events.Log, blobs BlobReader, session events.SessionID, seq events.Seq) (*projector.State, error) {
	s := projector.New(session)
	if err := syncTo(ctx, log, blobs, s, seq); err != nil {
		return nil, err
	}
	if err := Complete(ctx, blobs, s); err != nil {
		return nil, err
	}
	return s, nil
}

// Prepare gives a state the base that the commit which it folds next needs, where it needs one.
// Where that is gone nothing of the session can be read.
func Prepare(ctx context.Context, blobs BlobReader, s *projector.State, c *events.Commit) error {
	ref := s.Needs(c)
	if ref.IsZero() {
		return nil
	}
	body, err := blobs.Blob(ctx, ref)
	if err == nil {
		err = s.Give(ref, body)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", &projector.MissingBaseError{Session: s.Session, Ref: ref}, err)
	}
	return nil
}

// Verify is [projector.Verifier.Apply] for histories of sessions that may be copies: it gives the verifier the base.
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

func syncTo(ctx context.Context, log events.Log, blobs BlobReader, s *projector.State, seq events.Seq) error {
	for entry, err := range log.Read(ctx, s.Session, s.Seq+1) {
		if err != nil {
			return fmt.Errorf("sync %s: %w", s.Session, err)
		}
		if entry.Seq > seq {
			break
		}
		if err = Prepare(ctx, blobs, s, entry.Commit); err == nil {
			err = s.Apply(entry)
		}
		if err != nil {
			return fmt.Errorf("sync %s: %w", s.Session, err)
		}
	}
	return nil
}

// Complete attaches all that is missing.
func Complete(ctx context.Context, blobs BlobReader, s *projector.State) error {
	for missing := s.Missing(); len(missing) > 0; missing = s.Missing() { // what a page names is missing then
		for _, ref := range missing {
			data, err := blobs.Blob(ctx, ref)
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

// Whole is [Open] and [Complete]. Where a segment is gone it folds from the log instead.
func Whole(ctx context.Context, b *bus.Bus, session events.SessionID) (*projector.State, error) {
	s, err := Open(ctx, b, session)
	if err != nil {
		return nil, err
	}
	if err := Complete(ctx, b, s); err == nil {
		return s, nil
	} else if ctx.Err() != nil {
		return nil, err
	}
	return At(ctx, b.Log(), b, session, math.MaxUint64)
}

// restore reads the newest snapshot. Without a usable one it is the empty state.
func restore(ctx context.Context, b *bus.Bus, session events.SessionID) (*projector.State, bus.Row, error) {
	stored, err := b.Snapshots().Get(ctx, session)
	if err != nil || stored.Revision == 0 {
		return projector.New(session), stored, err
	}
	s, err := decode(ctx, b, stored.Value)
	if err != nil {
		if ctx.Err() != nil {
			return nil, stored, err
		}
		// Another fold version, or a damaged row: the history has everything.
		return projector.New(session), stored, nil
	}
	return s, stored, nil
}

func decode(ctx context.Context, b *bus.Bus, value []byte) (*projector.State, error) {
	var r row
	if err := events.DecodePayload(value, &r); err != nil {
		return nil, err
	}
	head := r.Head
	if !r.Blob.IsZero() {
		var err error
		if head, err = b.Blob(ctx, r.Blob); err != nil {
			return nil, err
		}
	}
	if projector.RefOf(head).Digest != r.Digest {
		return nil, fmt.Errorf("snapshot: %w: digest differs", events.ErrMalformed)
	}
	return projector.Restore(head)
}

// Save writes a snapshot of s, its fresh segments first, unless a usable one
// at least as new is there already. It reports the digest of the head. A state
// of which a piece is larger than [events.MaxBlobBytes] gets none, and the digest is empty: its history has everything.
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
	r := row{Seq: s.Seq, Digest: projector.RefOf(head).Digest, Head: head}
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
		var have row
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

// SaveBase stores what a copy of s begins with, and gives its reference. What snapshots of the history, or other
// copies, have stored is named. So it costs the same however long the history is, where s was opened from a snapshot.
func SaveBase(ctx context.Context, b *bus.Bus, s *projector.State) (ref events.BlobRef, base []byte, err error) {
	base, fresh, err := s.Base()
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

// unusable reports whether a stored snapshot serves nobody: it is damaged, its
// head is gone, or another fold version made it. An idle session's would stay so for ever.
func unusable(ctx context.Context, b *bus.Bus, value []byte) bool {
	_, err := decode(ctx, b, value)
	return errors.Is(err, events.ErrMalformed) || errors.Is(err, bus.ErrNotFound) || errors.Is(err, projector.ErrOldFold)
}

// putRow writes the directory's row of a session that is at a place. At one sequence the cold one stays.
func putRow(ctx context.Context, b *bus.Bus, s *projector.State, place string) error {
	row := RowOf(s)
	row.Place = place
	value, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("row of %s: %w", s.Session, err)
	}
	return replace(ctx, b.Directory(), s.Session, value, func(old []byte) bool {
		var have Directory
		if json.Unmarshal(old, &have) != nil {
			return true
		}
		return !have.buried() && (have.Seq < s.Seq || have.Seq == s.Seq && have.Place != PlaceCold && !bytes.Equal(old, value))
	})
}

// renew writes a row of an earlier version anew. The session stays at its place.
func renew(ctx context.Context, b *bus.Bus, session events.SessionID) error {
	s, err := Open(ctx, b, session)
	if err != nil {
		return err
	}
	have, err := b.Directory().Get(ctx, session)
	if err != nil {
		return err
	}
	var old Directory
	if err := json.Unmarshal(have.Value, &old); err != nil || old.Version >= RowVersion || old.Seq > s.Seq || old.buried() {
		return nil //nolint:nilerr // a projector writes a damaged row anew
	}
	row := RowOf(s)
	row.Place = old.Place
	value, err := json.Marshal(row)
	if err != nil {
		return fmt.Errorf("row of %s: %w", session, err)
	}
	if _, err = b.Directory().Put(ctx, session, value, have.Revision); errors.Is(err, bus.ErrStale) {
		return nil // another program wrote a newer row
	}
	return err
}

// replace writes a row where newer says that the one in place is older. Two
// projectors at once settle it by revision.
func replace(ctx context.Context, rows bus.Rows, session events.SessionID, value []byte, newer func(old []byte) bool) error {
	for {
		have, err := rows.Get(ctx, session)
		if err != nil {
			return err
		}
		if have.Revision != 0 && !newer(have.Value) {
			return nil
		}
		_, err = rows.Put(ctx, session, value, have.Revision)
		if !errors.Is(err, bus.ErrStale) {
			return err
		}
	}
}
