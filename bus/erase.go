package bus

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// Tombstone is what is left of an erased session, in its entry among the archives.
type Tombstone struct {
	At     events.Millis `msgpack:"t"`
	By     string        `msgpack:"b"` // who asked for it
	Reason string        `msgpack:"r"`
	Last   events.Seq    `msgpack:"q"` // of the history that was
}

// IsZero reports whether nothing was erased.
func (t Tombstone) IsZero() bool { return t.At == 0 }

func (t Tombstone) refuse(session events.SessionID) error {
	return &events.ErasedError{Session: session, At: t.At, Reason: t.Reason}
}

// Bury ends a session for good: from when the entry among the archives is its
// tombstone, it is neither read nor appended to nor created. Where end is not
// nil, the history must end at that sequence. [Bus.Purge] is due then, which may
// be repeated, by anybody. A session that was buried before keeps its tombstone,
// which is returned, whatever end is.
// Errors: [events.ErrNoSession], [events.ConflictError].
func (b *Bus) Bury(ctx context.Context, session events.SessionID, end *events.Seq, t Tombstone) (Tombstone, error) {
	for try := 1; ; try++ {
		done, err := b.bury(ctx, session, end, t)
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

func (b *Bus) bury(ctx context.Context, session events.SessionID, end *events.Seq, t Tombstone) (Tombstone, error) {
	p, err := b.locate(ctx, session)
	switch {
	case !p.cold.Erased.IsZero():
		return p.cold.Erased, nil
	case err != nil:
		return t, err
	}
	if p.stream != "" { // what is sealed moves no more, so the tombstone names the end
		if err := b.seal(ctx, session, &p, end); err != nil {
			return t, gone(err)
		}
		stream, err := b.streamEnd(ctx, p.stream)
		if err != nil {
			return t, gone(err)
		}
		p.last = max(stream.last, p.cold.Last)
	}
	if p.last == 0 {
		return t, noHistory(session)
	}
	if end != nil && *end != p.last {
		return t, &events.ConflictError{Session: session, Expected: *end, Last: p.last}
	}
	row := archived{Last: p.last, Stream: p.stream, Erased: t, Revision: p.cold.Revision}
	row.Erased.Last = p.last
	if row.Stream == "" {
		row.Stream = p.cold.Stream
	}
	for _, r := range p.cold.Runs {
		if !r.Blob.IsZero() {
			row.Runs = append(row.Runs, r)
		}
	}
	return row.Erased, b.putArchived(ctx, session, &row)
}

// gone is a stream that somebody archived since it was found.
func gone(err error) error {
	if errors.Is(err, events.ErrNoSession) {
		return ErrStale
	}
	return err
}

// Purge removes what is left of a session that was buried: its streams,
// archives, timer, wakes, dead letter, deltas and rows but the directory's. Other sessions
// may share the blobs that its history referred to, so those wait for whoever
// removes blobs that nobody refers to.
func (b *Bus) Purge(ctx context.Context, session events.SessionID) error {
	if err := b.purge(ctx, session); err != nil {
		return fmt.Errorf("erase session %s: %w", session, err)
	}
	return nil
}

func (b *Bus) purge(ctx context.Context, session events.SessionID) error {
	row, err := b.archived(ctx, session)
	if err != nil {
		return err
	}
	if row.Erased.IsZero() {
		return fmt.Errorf("%w: session %s was not buried", events.ErrInvalid, session)
	}
	for _, name := range []string{row.Stream, b.names.firstStream(session)} { // where it is both, the second finds nothing
		if name == "" {
			continue
		}
		if err := b.deleteStream(ctx, name); err != nil {
			return err
		}
	}
	for _, left := range []assetPart{
		{b.names.timerStream(), b.names.timerSession(session)},
		{b.names.workStream(), b.names.work(WakeKey{Class: ClassTurn, Session: session})},
		{b.names.workStream(), b.names.workOf(session)},
		{b.names.deadStream(), b.names.dead(session)},
		{b.names.deadStream(), b.names.trial(session)},
		{b.names.dirtyStream(), b.names.dirty(session)},
		{b.names.deltaStream(), b.names.deltaSession(session)},
		{b.names.rowStream(b.names.snapshots()), b.names.row(b.names.snapshots(), session)},
		{b.names.rowStream(b.names.catalogs()), b.names.row(b.names.catalogs(), session)},
	} {
		if err := b.purgeSubject(ctx, left.stream, left.subjects); err != nil {
			return err
		}
	}
	for _, r := range row.Runs {
		whatever := func(string) bool { return true }
		if err := b.dropBlob(ctx, r.Blob.Digest, whatever); err != nil { // no other session's: the session's id is in it
			return err
		}
	}
	if len(row.Runs) > 0 {
		row.Runs = nil
		if err := b.putArchived(ctx, session, &row); err != nil && !errors.Is(err, ErrStale) {
			return err
		}
	}
	return b.retry(ctx, "mark session erased", func(ctx context.Context) error {
		_, err := b.js.PublishMsg(ctx, &nats.Msg{Subject: b.names.erased(session)})
		return err
	})
}

// purgeSubject removes every message of a stream that has the subject. Where there is no stream there is none.
func (b *Bus) purgeSubject(ctx context.Context, name, subject string) error {
	return b.retry(ctx, "purge "+subject, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, name)
		if isNoAsset(err) {
			return nil
		}
		if err != nil {
			return err
		}
		return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
	})
}
