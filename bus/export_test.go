package bus

import (
	"context"
	"iter"
	"time"

	"github.com/lash-go/lash/events"
)

// PausedReopen reads a cold session's entry now, and reopens the session when open is called.
func (b *Bus) PausedReopen(ctx context.Context, session events.SessionID) (open func() error, err error) {
	entry, err := b.readEntry(ctx, session)
	return func() error { return b.reopen(ctx, session, entry) }, err
}

// PausedOpening makes the next stream of a session, as a process does that then dies or pauses. name puts its name
// into the entry.
func (b *Bus) PausedOpening(ctx context.Context, session events.SessionID) (name func() error, err error) {
	if err := events.CheckToken("session", session); err != nil {
		return nil, err
	}
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return nil, err
	}
	cfg := b.openingConfig(session, entry, "nonce")
	entry.Next = cfg.Name
	return func() error { return b.putEntry(ctx, session, &entry) }, b.makeStream(ctx, cfg)
}

// PausedPutEntry reads a session's entry now, and puts it when it is called, on another bus.
func (b *Bus) PausedPutEntry(ctx context.Context, session events.SessionID) (put func(*Bus) error, err error) {
	entry, err := b.readEntry(ctx, session)
	return func(later *Bus) error { return later.putEntry(ctx, session, &entry) }, err
}

// PausedCreate creates a session without its first commit, which publish publishes.
func (b *Bus) PausedCreate(ctx context.Context, c *events.Commit) (publish func() (events.Seq, error), err error) {
	data, err := events.Encode(c)
	if err == nil {
		err = b.Log().create(ctx, c.Session)
	}
	return func() (events.Seq, error) { return b.Log().appendFirst(ctx, c, data) }, err
}

// MakeFirstStream makes a session's first stream, as a creator does that found no session.
func (b *Bus) MakeFirstStream(ctx context.Context, session events.SessionID) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	return b.makeStream(ctx, b.sessionConfig(session, b.names.firstStream(session)))
}

// MakeFirstStreamWith makes that stream with a commit in it, as a server may that is deleting an earlier stream of
// the name.
func (b *Bus) MakeFirstStreamWith(ctx context.Context, c *events.Commit) error {
	data, err := events.Encode(c)
	if err == nil {
		err = b.MakeFirstStream(ctx, c.Session)
	}
	if err == nil {
		_, err = b.Log().publish(ctx, c, data, 0)
	}
	return err
}

// RemoveEmpty removes a session's first stream if it has no commit, at any age.
func (b *Bus) RemoveEmpty(ctx context.Context, session events.SessionID) error {
	return b.removeEmpty(ctx, session)
}

// ExpectLateReplicas makes the bus read as from streams of three replicas, one of which may be that late.
func (b *Bus) ExpectLateReplicas(lag time.Duration) { b.replicas, b.replicaLag = 3, lag }

// PausedLocate locates the stream of a session that has an entry, and compares it with the session's row when check is called, which
// returns the end.
func (b *Bus) PausedLocate(ctx context.Context, session events.SessionID) (check func() (events.Seq, error), err error) {
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return nil, err
	}
	end, err := b.streamEnd(ctx, entry.Next)
	loc := location{stream: entry.Next, first: entry.Last + 1, last: max(entry.Last, end.last), entry: entry}
	return func() (events.Seq, error) {
		err := b.checkWhole(ctx, session, &loc)
		return loc.last, err
	}, err
}

// IsOpening reports whether the stream in which a session continues takes no appends yet.
func (b *Bus) IsOpening(ctx context.Context, session events.SessionID) (bool, error) {
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return false, err
	}
	end, err := b.streamEnd(ctx, entry.Next)
	return end.opening, err
}

// Switched is since when the store's bodies are encrypted, as this bus knows it.
func (b *Bus) Switched() time.Time { return events.Millis(b.bodies.since.Load()).Time() }

// SwitchedAt has this bus take another time for it.
func (b *Bus) SwitchedAt(at time.Time) { b.bodies.since.Store(at.UnixMilli()) }

// SetLinkRetry replaces the time between attempts to make a further connection. It must be called before the first large read and
// the first use of a plugin.
func (b *Bus) SetLinkRetry(d time.Duration) { b.linkRetry = d }

// CloseSecondary closes the second connection for good, as servers do that refuse the credentials again.
func (b *Bus) CloseSecondary() { b.secondary.made.Load().nc.Close() }

// ForgetStoreKey makes a bus without keys one that has not read that the store has some.
func (b *Bus) ForgetStoreKey() { b.bodies.store.Store(0) }

// PutEmptyEntry puts the archive entry of a session that never had a commit, and deletes its first stream.
func (b *Bus) PutEmptyEntry(ctx context.Context, session events.SessionID) error {
	if err := events.CheckToken("session", session); err != nil {
		return err
	}
	entry := archiveEntry{Stream: b.names.firstStream(session)}
	if err := b.putEntry(ctx, session, &entry); err != nil {
		return err
	}
	return b.deleteStream(ctx, entry.Stream)
}

// ForgetStored makes the bus look for a body that it has stored lately.
func (b *Bus) ForgetStored(ref events.BlobRef) { b.lately.forget(ref.Digest) }

// SecondaryIsConnected reports whether the second connection is up.
func (b *Bus) SecondaryIsConnected() bool { return b.secondary.made.Load().nc.IsConnected() }

// ReadCounted reads a session to a sequence that a leader has counted.
func (l Log) ReadCounted(ctx context.Context, session events.SessionID, last events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		loc, err := l.b.locate(ctx, session)
		if err == nil {
			r := rangeReader{l: l, session: session, loc: loc, next: 1, last: last}
			err = r.read(ctx, yield)
		}
		if err != nil {
			yield(events.Entry{}, err)
		}
	}
}
