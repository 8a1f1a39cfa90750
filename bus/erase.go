package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Tombstone is the record of an erased session, in its archive entry.
type Tombstone struct {
	At     events.Millis `msgpack:"t"`
	By     string        `msgpack:"b"` // the user that requested it
	Reason string        `msgpack:"r"`
	Last   events.Seq    `msgpack:"q"` // last sequence of the erased history

	Retention bool   `msgpack:"n,omitempty"` // the retention had ended; otherwise a user requested it
	Note      string `msgpack:"g,omitempty"` // the same, signed: see proof.Tombstone; empty: not signed
}

// IsZero reports whether the session was not erased.
func (t Tombstone) IsZero() bool { return t.At == 0 }

// Check refuses texts that the signed tombstone, whose texts are JSON, would not have byte for byte. The error has an
// [*events.FieldError].
func (t Tombstone) Check() error {
	return errors.Join(events.CheckUTF8("by", t.By), events.CheckUTF8("reason", t.Reason))
}

func (t Tombstone) erasedError(session events.SessionID) error {
	return &events.ErasedError{Session: session, At: t.At, By: t.By, Reason: t.Reason}
}

// PutTombstone erases a session: once its archive entry is the tombstone, the session cannot be read, appended to or
// created. Where end is not nil, the history must end at that sequence. [Bus.Purge] is the next step. An erased
// session keeps its first tombstone, which is returned for every end. Of a session with lost commits what is left is erased, if end is nil;
// [Log.Remaining] reads that. sign, unless it is nil, returns the tombstone's
// Note. It is called when the history has its end, which t.Last names, and can still be read; for a repetition it is
// called again. Errors: [events.ErrNoSession], [events.ConflictError], an [*events.FieldError] for texts that are not UTF-8,
// those of sign.
func (b *Bus) PutTombstone(ctx context.Context, session events.SessionID, end *events.Seq, t Tombstone, sign SignFunc) (Tombstone, error) {
	if err := t.Check(); err != nil {
		return Tombstone{}, fmt.Errorf("erase session %s: %w", session, err)
	}
	for try := 1; ; try++ {
		done, err := b.writeTombstone(ctx, session, end, t, sign)
		if err == nil {
			return done, nil
		}
		if errors.Is(err, ErrStale) || isUnknown(err) {
			if pause(ctx, try) == nil {
				continue
			}
		}
		return Tombstone{}, fmt.Errorf("erase session %s: %w", session, err)
	}
}

// SignFunc signs a tombstone, see [Bus.PutTombstone].
type SignFunc func(ctx context.Context, t Tombstone) (note string, err error)

// Tombstone is the tombstone of an erased session; zero for any other session.
func (b *Bus) Tombstone(ctx context.Context, session events.SessionID) (Tombstone, error) {
	if err := events.CheckToken("session", session); err != nil {
		return Tombstone{}, err
	}
	entry, err := b.readEntry(ctx, session)
	return entry.Erased, err
}

func (b *Bus) writeTombstone(ctx context.Context, session events.SessionID, end *events.Seq, t Tombstone, sign SignFunc) (Tombstone, error) {
	loc, err := b.locate(ctx, session)
	lost := errors.As(err, new(*CutOffError))
	switch {
	case !loc.entry.Erased.IsZero():
		return loc.entry.Erased, nil
	case end == nil && lost: // what is left is erased
	case err != nil:
		return t, err
	}
	if loc.stream != "" { // a sealed stream has a fixed end, which the tombstone names
		if err := b.seal(ctx, session, &loc, end); err != nil {
			return t, staleIfGone(err)
		}
		stream, err := b.streamEnd(ctx, loc.stream)
		if err != nil {
			return t, staleIfGone(err)
		}
		loc.last = max(stream.last, loc.entry.Last)
	}
	if loc.last == 0 && !lost {
		return t, noHistory(session)
	}
	if end != nil && *end != loc.last {
		return t, &events.ConflictError{Session: session, Expected: *end, Last: loc.last}
	}
	entry := archiveEntry{Last: loc.last, Stream: loc.stream, Erased: t, Revision: loc.entry.Revision}
	entry.Erased.Last = loc.last
	if sign != nil {
		if entry.Erased.Note, err = sign(ctx, entry.Erased); err != nil {
			return t, staleIfGone(err)
		}
	}
	if entry.Stream == "" {
		entry.Stream = loc.entry.Stream
	}
	for _, r := range loc.entry.Runs {
		if !r.Blob.IsZero() {
			entry.Runs = append(entry.Runs, r)
		}
	}
	return entry.Erased, b.putEntry(ctx, session, &entry)
}

// staleIfGone is [ErrStale] where another process archived the stream, or erased the session, since it was located.
func staleIfGone(err error) error {
	if errors.Is(err, events.ErrNoSession) {
		return ErrStale
	}
	return err
}

// Purge removes the data of an erased session: its streams, archives, timer, wakes, dead letter, deltas and rows,
// without the directory's row. It may be repeated, by any process. Blobs that its history refers to stay, as other
// sessions may share them; the sweep of unreferenced blobs removes them. Errors: [events.ErrInvalid] where the
// session has no tombstone.
func (b *Bus) Purge(ctx context.Context, session events.SessionID) error {
	if err := b.purge(ctx, session); err != nil {
		return fmt.Errorf("erase session %s: %w", session, err)
	}
	return nil
}

func (b *Bus) purge(ctx context.Context, session events.SessionID) error {
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return err
	}
	if entry.Erased.IsZero() {
		return fmt.Errorf("%w: session %s has no tombstone", events.ErrInvalid, session)
	}
	if err := b.publishRemoval(session, removedAll); err != nil {
		return err
	}
	for _, name := range []string{entry.Stream, b.names.firstStream(session)} { // may be the same stream
		if name == "" {
			continue
		}
		if err := b.deleteStream(ctx, name); err != nil {
			return err
		}
	}
	if err := b.purgeParts(ctx, session); err != nil {
		return err
	}
	for _, r := range entry.Runs {
		anyContent := func(string) bool { return true }
		if err := b.dropBlob(ctx, r.Blob.Digest, anyContent); err != nil { // the file has the session's id, so no other session refers to it
			return err
		}
	}
	if len(entry.Runs) > 0 {
		entry.Runs = nil
		if err := b.putEntry(ctx, session, &entry); err != nil && !errors.Is(err, ErrStale) {
			return err
		}
	}
	if err = b.retry(ctx, "mark session erased", b.publishOnce(b.names.archiveStream(), &nats.Msg{Subject: b.names.erased(session)})); err != nil {
		return err
	}
	return b.purgeIndexRow(ctx, session)
}

// purgeParts removes what [Bus.sessionParts] lists.
func (b *Bus) purgeParts(ctx context.Context, session events.SessionID) error {
	for _, part := range b.sessionParts(session) {
		if err := b.purgeSubject(ctx, part.stream, part.subjects); err != nil {
			return err
		}
	}
	return nil
}

// purgeIndexRow removes the session's row of the index, and the packs that may have it. It comes last and its time is bounded, because a server does
// not answer a node whose permissions are older than the index.
func (b *Bus) purgeIndexRow(ctx context.Context, session events.SessionID) error {
	bounded, cancel := context.WithTimeout(ctx, b.cfg.Timeout)
	defer cancel()
	bucket := b.names.index()
	err := b.purgeSubject(bounded, b.names.rowStream(bucket), b.names.row(bucket, session))
	if err == nil {
		err = b.RemovePacksOf(bounded, session)
	}
	if err != nil {
		return fmt.Errorf("row of the index, the other data is gone: %w", err)
	}
	return nil
}

// assetPart is a part of a stream's messages.
type assetPart struct{ stream, subjects string }

// sessionParts are a session's messages in the shared streams, without the archive entry, the directory's row and the
// row of the index.
func (b *Bus) sessionParts(session events.SessionID) []assetPart {
	parts := []assetPart{
		{b.names.timerStream(), b.names.timerSession(session)},
		{b.names.workStream(), b.names.taskWakes(session)},
		{b.names.deadStream(), b.names.dead(session)},
		{b.names.deadStream(), b.names.trialsOf(session)},
		{b.names.dirtyStream(), b.names.dirty(session)},
		{b.names.deltaStream(), b.names.deltaSession(session)},
	}
	for _, class := range TurnClasses() {
		parts = append(parts, assetPart{b.names.workStream(), b.names.work(WakeKey{Class: class, Session: session})})
	}
	for _, rows := range b.Projections() {
		if bucket := rows.kv.Bucket(); bucket != b.names.index() {
			parts = append(parts, assetPart{b.names.rowStream(bucket), b.names.row(bucket, session)})
		}
	}
	return parts
}

// purgeSubject removes every message of a subject from a stream, unless an option says up to which. A missing stream is no error.
func (b *Bus) purgeSubject(ctx context.Context, name, subject string, upTo ...jetstream.StreamPurgeOpt) error {
	return b.retry(ctx, "purge "+subject, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, name)
		if isNoAsset(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return stream.Purge(ctx, append(upTo, jetstream.WithPurgeSubject(subject))...)
	})
}
