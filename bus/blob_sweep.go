package bus

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// blobFresh is the age up to which a stored blob is not stored again. An older one is stored again when it is put. So
// the sweep, which removes unreferenced blobs that are older, does not remove one that is just being referred to.
const blobFresh = time.Hour

// StoredBlob is one storage of a blob: the same body stored again is another one.
type StoredBlob struct {
	Digest  string // empty: chunks without a description
	name    string // under which it is stored
	content string // names its chunks
	stored  int64  // by the server's clock, Unix nanoseconds; 0 for chunks
}

// StoredAt is when the server stored the blob's description.
func (b StoredBlob) StoredAt() time.Time { return time.Unix(0, b.stored) }

// ID identifies this storage of the blob, also in other processes and after restarts.
func (b StoredBlob) ID() StorageID {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d", b.Digest, b.name, b.content, b.stored))
	return StorageID(sum[:])
}

// StorageID is the begin of a SHA-256 of what describes one storage of a blob.
type StorageID [16]byte

// Blobs lists every stored blob, without those whose key is not here.
func (b *Bus) Blobs(ctx context.Context) ([]StoredBlob, error) {
	chunks, err := b.contents(ctx) // first: a blob gets its chunks before its description
	described, unlisted := b.subjects(ctx, b.names.blobStream(), b.names.blobMeta("")+">")
	if err = errors.Join(err, unlisted); err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	var list []StoredBlob
	add := func(subject string, seq uint64, at time.Time, data []byte) error {
		delete(described, subject)
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(data, &info); err != nil {
			return fmt.Errorf("description at %d: %w: %w", seq, events.ErrMalformed, err)
		}
		if info.Deleted {
			return nil
		}
		if digest, ok := b.blobDigest(info.Name); ok {
			list = append(list, StoredBlob{digest, info.Name, info.NUID, at.UnixNano()})
		}
		delete(chunks, info.NUID)
		return nil
	}
	// Not a listing of the client's: it waits for a last message that may be removed meanwhile.
	for msg, err := range b.messages(ctx, true, b.names.blobStream(), b.names.blobMeta("")+">", 1, 0) {
		if err == nil {
			err = add(msg.Subject, msg.Sequence, msg.Time, msg.Data)
		}
		if err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
	}
	for subject := range described { // a mirror that leaves it out has answered, or it was removed
		msg, err := b.atLeader(ctx, b.names.blobStream(), leaderQuery{Last: subject})
		if err == nil {
			err = add(subject, msg.Seq, msg.Time, msg.Data)
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
	}
	for content := range chunks {
		list = append(list, StoredBlob{content: content})
	}
	return list, nil
}

func (b *Bus) contents(ctx context.Context) (map[string]bool, error) {
	subjects, err := b.subjects(ctx, b.names.blobStream(), b.names.blobChunks("*"))
	found := make(map[string]bool, len(subjects))
	for subject := range subjects {
		found[strings.TrimPrefix(subject, b.names.blobChunks(""))] = true
	}
	return found, err
}

// DropBlob removes a blob, unless it was stored again.
func (b *Bus) DropBlob(ctx context.Context, blob StoredBlob) error {
	if blob.Digest == "" {
		return b.purgeSubject(ctx, b.names.blobStream(), b.names.blobChunks(blob.content))
	}
	if err := events.CheckDigest("digest", blob.Digest); err != nil {
		return err
	}
	return b.dropBlob(ctx, blob.name, func(content string) bool { return content == blob.content })
}

// dropBlob removes the blob of a name if its content is wanted. A process that dies half way leaves chunks without
// a description.
func (b *Bus) dropBlob(ctx context.Context, name string, wanted func(content string) bool) error {
	defer b.lately.forget(name)
	return b.retry(ctx, "remove blob "+name, func(ctx context.Context) error {
		stream, err := b.js.Stream(ctx, b.names.blobStream())
		var meta leaderMessage
		if err == nil {
			meta, err = b.atLeader(ctx, b.names.blobStream(), leaderQuery{Last: b.names.blobMeta(name)})
		}
		if isNoAsset(err) || isMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		var info jetstream.ObjectInfo
		if err := json.Unmarshal(meta.Data, &info); err != nil {
			return fmt.Errorf("%w: %w", events.ErrMalformed, err)
		}
		if !wanted(info.NUID) {
			return nil
		}
		// By sequence: the description of a body that is stored again has another one.
		if err := stream.DeleteMsg(ctx, meta.Seq); err != nil {
			if _, now := b.atLeader(ctx, b.names.blobStream(), leaderQuery{Seq: meta.Seq}); !isMissing(now) { // the error of the library does not say whether it is gone
				return err
			}
		}
		return stream.Purge(ctx, jetstream.WithPurgeSubject(b.names.blobChunks(info.NUID)))
	})
}

// BlobMentions yields everything except rows that may refer to a blob: the digests in archive entries, and the stored
// commits of histories with their decrypted payloads. Of a session that cannot be read it yields an [Unread] in place of the rest.
func (b *Bus) BlobMentions(ctx context.Context) iter.Seq2[Mention, error] {
	return func(yield func(Mention, error) bool) {
		for id, err := range b.Sessions(ctx) {
			if err != nil {
				yield(Mention{}, err)
				return
			}
			if !b.mentionsIn(ctx, id, yield) {
				return
			}
		}
	}
}

func (b *Bus) mentionsIn(ctx context.Context, id events.SessionID, yield func(Mention, error) bool) bool {
	row, err := b.readEntry(ctx, id)
	if err != nil && !isUnreadable(err) {
		yield(Mention{}, err)
		return false
	}
	if err != nil {
		return yield(Mention{Unread: &Unread{Session: id, Err: err}}, nil)
	}
	for _, r := range row.Runs {
		if !yield(Mention{Data: [][]byte{[]byte(r.Blob.Digest)}}, nil) {
			return false
		}
	}
	next := events.Seq(1)
	for entry, err := range b.readArchivedToo(ctx, id, row) {
		var m Mention
		if err == nil {
			m, err = b.mentions(entry)
		}
		switch {
		case errors.Is(err, events.ErrNoSession):
			return true // erased or not created yet
		case isUnreadable(err):
			return yield(Mention{Unread: b.unread(ctx, id, row, next, err)}, nil)
		case err != nil:
			yield(Mention{}, err)
			return false
		}
		next = entry.Seq + 1
		if !yield(m, nil) {
			return false
		}
	}
	return true
}

// readArchivedToo yields a history. Where commits after its archive are lost, it yields the archive first.
func (b *Bus) readArchivedToo(ctx context.Context, id events.SessionID, entry archiveEntry) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		for e, err := range b.Log().Read(ctx, id, 0) {
			if errors.As(err, new(*CutOffError)) {
				for e, err := range b.Log().readAt(ctx, id, location{entry: entry}, 1, entry.Last) {
					if !yield(e, err) || err != nil {
						return
					}
				}
			}
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// isUnreadable reports whether a later try to read a session fails too, until its operator acts.
func isUnreadable(err error) bool {
	return errors.As(err, new(*CutOffError)) || errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrFutureVersion) ||
		errors.Is(err, events.ErrInvalid) || errors.Is(err, events.ErrTooLarge) || errors.Is(err, ErrNotFound)
}

// Unread is a session whose commits from some sequence on cannot be read, so that they may refer to any body.
type Unread struct {
	Session events.SessionID
	Since   time.Time // the server stored those commits later; zero: not known. Bodies that they refer to may be older by [ReferWithin]
	Err     error
}

// ReferWithin is how long before the commit that refers to it a body was stored at most: an older one is stored again before it is
// referred to, and a slow node takes its time.
const ReferWithin = 2 * blobFresh

// unread finds since when a session's commits from a sequence on may have been stored. Of the first commit the time says nothing: that
// of a fork refers to bodies of any age, those of its original.
func (b *Bus) unread(ctx context.Context, id events.SessionID, entry archiveEntry, from events.Seq, reason error) *Unread {
	u := &Unread{Session: id, Err: reason}
	if from <= 1 {
		return u
	}
	if errors.As(reason, new(*CutOffError)) {
		if entry.LastPut != 0 && from > entry.Last {
			u.Since = entry.LastPut.Time()
		}
		return u
	}
	loc, err := b.locate(ctx, id)
	if err != nil || loc.stream == "" || from < loc.first {
		return u
	}
	if info, err := b.streamInfo(ctx, loc.stream); err == nil {
		u.Since = oldest(info)
	}
	return u
}

// oldest is a time before which a stream stored nothing. A stream that was restored is new, and has the messages of the old one.
func oldest(info *jetstream.StreamInfo) time.Time {
	if first := info.State.FirstTime; !first.IsZero() && first.Before(info.Created) {
		return first
	}
	return info.Created
}

// Mention is text that may name blobs by their digests.
type Mention struct {
	Data   [][]byte
	Commit *events.Commit // nil for an archive entry
	Unread *Unread        // nil: the mention is of what was read
}

// mentions are the stored commit, and what of it is encrypted.
func (b *Bus) mentions(e events.Entry) (Mention, error) {
	m := Mention{Data: [][]byte{e.Data}, Commit: e.Commit}
	if id := e.Commit.Locked(); id != 0 {
		return m, fmt.Errorf("sequence %d of %s: %w", e.Seq, e.Commit.Session, &events.KeyError{ID: id})
	}
	for i := range e.Commit.Events {
		ev := &e.Commit.Events[i]
		if ev.Encrypted == nil {
			continue
		}
		body := ev.Raw
		if ev.Payload != nil {
			var err error
			if body, err = events.EncodePayload(ev.Payload); err != nil {
				return m, err
			}
		}
		m.Data = append(m.Data, body)
	}
	return m, nil
}

// Erased lists the erased sessions, in no order.
func (b *Bus) Erased(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		for subject, err := range b.archiveSubjects(ctx, b.names.erasedAll()) {
			if id, ok := b.names.parseErased(subject); (ok || err != nil) && !yield(id, err) {
				return
			}
		}
	}
}
