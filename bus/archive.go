package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lash-go/lash/events"
)

// archiveEntry is a session's entry in the stream of archives: the part of its history that is in no stream any more.
// It is read from the leader, and replaced by revision only.
type archiveEntry struct {
	Last   events.Seq   `msgpack:"q"`
	Stream string       `msgpack:"s"`           // archived last; it is sealed or deleted
	Next   string       `msgpack:"n,omitempty"` // stream that continues after Last, from 1 on where Last is 0; empty: the session is cold
	Runs   []archiveRun `msgpack:"r"`           // in order, without holes, from sequence 1 on
	Erased Tombstone    `msgpack:"x,omitempty"` // of an erased session, whose runs are to be removed

	Redactions []events.RedactionRecord `msgpack:"d,omitempty"` // in order; the session stays cold from the first one on
	Replaced   []string                 `msgpack:"o,omitempty"` // digests of files that a redaction replaced, which are to be removed
	StoredAt   events.Millis            `msgpack:"a,omitempty"` // when the entry was stored before its first redaction; 0 without one

	// LastPut is when the server stored the entry before it made the stream of Next again, in Unix milliseconds: commits that are lost with
	// that stream are later. 0: it made none, or before entries had this field.
	LastPut events.Millis `msgpack:"p,omitempty"`

	Revision uint64    `msgpack:"-"` // 0: the session has no entry
	PutAt    time.Time `msgpack:"-"` // when the server stored the entry
}

// archiveRun is one archive file (package events). A small file is in the entry, a larger one in a blob.
type archiveRun struct {
	First events.Seq     `msgpack:"f"`
	Last  events.Seq     `msgpack:"l"`
	File  []byte         `msgpack:"d,omitempty"`
	Blob  events.BlobRef `msgpack:"b,omitempty"`
}

const (
	// maxInline bounds the files of one entry together, in bytes: most cold sessions cost one message.
	maxInline = 512 << 10
	// maxRun is the size of the commits, in bytes, at which a file ends.
	maxRun = 32 << 20
)

// readEntry reads a session's entry from the leader. A session without one has the zero entry.
func (b *Bus) readEntry(ctx context.Context, session events.SessionID) (entry archiveEntry, err error) {
	if b.archives == nil {
		return archiveEntry{}, nil
	}
	err = b.retry(ctx, "look into archives", func(ctx context.Context) error {
		msg, err := b.archives.GetLastMsgForSubject(ctx, b.names.archive(session))
		if err != nil {
			return err
		}
		entry = archiveEntry{}
		if err := events.DecodePayload(msg.Data, &entry); err != nil {
			return fmt.Errorf("archives of session %s: %w", session, err)
		}
		entry.Revision, entry.PutAt = msg.Sequence, msg.Time
		return nil
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return archiveEntry{}, nil
	case isNoAsset(err): // cold sessions may still exist
		err = fmt.Errorf("%w: the server lacks the stream of archives; a node that starts makes it", events.ErrOutcomeUnknown)
	}
	return entry, err
}

// putEntry replaces the entry, and updates its revision. [ErrStale]: another process replaced it first.
func (b *Bus) putEntry(ctx context.Context, session events.SessionID, entry *archiveEntry) error {
	data, err := events.EncodePayload(entry)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: b.names.archive(session), Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(entry.Revision, 10)},
	}}
	for try := 1; ; try++ {
		var ack *jetstream.PubAck
		err := b.storing(ctx, b.names.archiveStream(), len(msg.Data), b.cfg.Timeout, func(ctx context.Context) (err error) {
			ack, err = b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
			return err
		})
		switch {
		case err == nil:
			entry.Revision = ack.Sequence
			return nil
		case errors.Is(err, events.ErrMoved):
			return ErrStale // also where an earlier try was stored: the caller reads the entry again
		case !isUnknown(err):
			return err
		}
		if pause(ctx, try) != nil {
			return err
		}
	}
}

// Archive seals a hot session's stream and writes it to archive files. [Bus.Discard] is the next step. Calls may be
// repeated and may overlap; a call completes the steps of one that died. A session that does not end at `at` is not
// sealed: [events.ConflictError]. A sealed session is archived at any end. A bus without the keys of the store archives no
// commits: [events.KeyError]. It cannot judge the plain ones, which have no time any more in an archive.
func (b *Bus) Archive(ctx context.Context, session events.SessionID, at events.Seq) error {
	for try := 1; ; try++ {
		err := b.archive(ctx, session, at)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, ErrStale):
			return fmt.Errorf("archive session %s: %w", session, err)
		}
		if err := pause(ctx, try); err != nil {
			return fmt.Errorf("archive session %s: %w", session, err)
		}
	}
}

func (b *Bus) archive(ctx context.Context, session events.SessionID, at events.Seq) error {
	loc, err := b.locate(ctx, session)
	if err == nil && loc.last > 0 {
		err = b.Writable()
	}
	if err != nil || loc.stream == "" {
		return err
	}
	err = b.seal(ctx, session, &loc, &at)
	if errors.Is(err, events.ErrNoSession) {
		return ErrStale
	}
	if err != nil {
		return err
	}
	entry, err := b.readEntry(ctx, session)
	if err != nil {
		return err
	}
	switch loc, err = b.locate(ctx, session); {
	case err != nil:
		return err
	case loc.stream == "" || loc.stream == entry.Stream:
		return nil
	case !loc.sealed, loc.last < at: // another process archived it, and it is hot again; or the server that answered is behind
		return ErrStale
	}
	if loc.last > entry.Last {
		fresh, err := b.writeRuns(ctx, session, &entry, loc)
		if err != nil {
			return err
		}
		entry.Runs, entry.Last = append(entry.Runs, fresh...), loc.last
		if err := b.fitEntry(ctx, entry.Runs); err != nil {
			return err
		}
	}
	entry.Stream, entry.Next, entry.LastPut = loc.stream, "", 0
	return b.putEntry(ctx, session, &entry)
}

// Discard makes an archived session cold. Of an erased session it leaves everything to the erasure. It reads the archive back, compares it with the stream, and deletes the
// stream. Where they differ, the stream stays: [events.ErrMalformed].
func (b *Bus) Discard(ctx context.Context, session events.SessionID) error {
	entry, err := b.readEntry(ctx, session)
	if err == nil && entry.Revision != 0 {
		err = b.removeArchivedStreams(ctx, session, entry)
	}
	if err != nil && !errors.As(err, new(*events.ErasedError)) {
		return fmt.Errorf("discard stream of %s: %w", session, err)
	}
	return nil
}

// seal stops appends to the stream of a hot session, if the stream ends at end or end is nil. The entry names the
// stream first: see [Bus.recreateStream].
func (b *Bus) seal(ctx context.Context, session events.SessionID, loc *location, end *events.Seq) error {
	info, err := b.streamInfo(ctx, loc.stream)
	if err != nil {
		return err
	}
	if info.Config.Sealed {
		return nil
	}
	if last := events.Seq(info.State.LastSeq); end != nil && *end != last {
		return &events.ConflictError{Session: session, Expected: *end, Last: last}
	}
	loc.entry, err = b.readEntry(ctx, session)
	switch {
	case err == nil && loc.entry.Revision == 0:
		loc.entry.Next = loc.stream
		err = b.putEntry(ctx, session, &loc.entry)
	case err == nil && !loc.entry.Erased.IsZero(): // erased meanwhile: the tombstone stays
		err = ErrStale
	}
	if err != nil {
		return err
	}
	cfg := info.Config
	cfg.Sealed = true
	err = b.retry(ctx, "seal stream "+loc.stream, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, cfg)
		return err
	})
	if errors.Is(err, events.ErrSealed) {
		return nil
	}
	return err
}

// writeRuns writes the stream to archive files. The last file of the entry is written again with it, while that file
// is small.
func (b *Bus) writeRuns(ctx context.Context, session events.SessionID, entry *archiveEntry, loc location) ([]archiveRun, error) {
	from := loc.first
	if n := len(entry.Runs); n > 0 && entry.Runs[n-1].Blob.IsZero() {
		from = entry.Runs[n-1].First
		entry.Runs = entry.Runs[:n-1]
	}
	var list []archiveRun
	for from <= loc.last {
		r, err := b.writeRun(ctx, b.Log(), session, from, loc.last)
		if err != nil {
			return nil, err
		}
		list, from = append(list, r), r.Last+1
	}
	return list, nil
}

// writeRun writes one file of the commits of a log from `from` to `last` at most.
func (b *Bus) writeRun(ctx context.Context, log events.Log, session events.SessionID, from, last events.Seq) (archiveRun, error) {
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, session, from)
	if err != nil {
		return archiveRun{}, err
	}
	r, size := archiveRun{First: from}, 0
	for logEntry, err := range log.Read(ctx, session, from) {
		if err == nil {
			err = w.Commit(logEntry)
		}
		if err != nil {
			return archiveRun{}, err
		}
		r.Last = logEntry.Seq
		if size += len(logEntry.Data); size >= maxRun || r.Last == last {
			break
		}
	}
	if r.Last < last && size < maxRun {
		return archiveRun{}, fmt.Errorf("%w: history ends at sequence %d, want %d", events.ErrMalformed, r.Last, last)
	}
	if err := w.Close(); err != nil {
		return archiveRun{}, err
	}
	r.File = file.Bytes()
	if len(r.File) > maxInline {
		err = b.moveToBlob(ctx, &r)
	}
	return r, err
}

func (b *Bus) moveToBlob(ctx context.Context, r *archiveRun) (err error) {
	r.Blob, err = b.putStored(ctx, r.File)
	r.File = nil
	return err
}

// fitEntry moves the largest files to blobs until the others fit the entry together. The stream is sealed by then,
// and would stay sealed if the entry did not fit.
func (b *Bus) fitEntry(ctx context.Context, runs []archiveRun) error {
	for {
		largest, total := 0, 0
		for i := range runs {
			if total += len(runs[i].File); len(runs[i].File) > len(runs[largest].File) {
				largest = i
			}
		}
		if total <= maxInline {
			return nil
		}
		if err := b.moveToBlob(ctx, &runs[largest]); err != nil {
			return err
		}
	}
}

// verifyArchive compares a session's archive with the stream that it was made from, before that stream is deleted. It
// reports whether the stream exists. [ErrStale]: the stream goes on after the archive, as where the server lost a
// seal; the entry then names the stream again. [events.ErrMalformed]: they differ.
func (b *Bus) verifyArchive(ctx context.Context, session events.SessionID, entry archiveEntry) (there bool, err error) {
	info, err := b.streamInfo(ctx, entry.Stream)
	if errors.Is(err, events.ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if events.Seq(info.State.LastSeq) > entry.Last && entry.Next == "" {
		entry.Stream, entry.Next = "", entry.Stream
		return true, errors.Join(ErrStale, b.putEntry(ctx, session, &entry))
	}
	if info.State.Msgs == 0 {
		return true, nil
	}
	first, last := events.Seq(info.State.FirstSeq), min(entry.Last, events.Seq(info.State.LastSeq))
	next, stop := iter.Pull2(b.Log().readAt(ctx, session, location{entry: entry}, first, last))
	defer stop()
	for logEntry, err := range b.Log().readAt(ctx, session, location{stream: entry.Stream}, first, last) {
		if errors.Is(err, events.ErrNoSession) {
			return false, nil // another process deleted it
		}
		if err != nil {
			return true, err
		}
		switch kept, err, ok := next(); {
		case err != nil:
			return true, err
		case !ok || !bytes.Equal(kept.Data, logEntry.Data) && (len(entry.Redactions) == 0 || events.CommitHash(kept.Data) != events.CommitHash(logEntry.Data)):
			return true, fmt.Errorf("%w: archive of %s differs from its stream at sequence %d", events.ErrMalformed, session, logEntry.Seq)
		}
	}
	return true, nil
}

// readRun yields the commits of a file from a sequence on.
func (b *Bus) readRun(ctx context.Context, session events.SessionID, r archiveRun, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		file, err := r.File, error(nil)
		if !r.Blob.IsZero() {
			file, err = b.bodyUnder(ctx, []string{r.Blob.Digest}, r.Blob)
		}
		var archive *events.Archive
		if err == nil {
			archive, err = events.ReadArchive(bytes.NewReader(file), 2*maxRun)
		}
		if err == nil && (archive.Session != session || archive.First != r.First) {
			err = fmt.Errorf("%w: the archive is of %s from %d", events.ErrMalformed, archive.Session, archive.First)
		}
		if err != nil {
			yield(events.Entry{}, fmt.Errorf("read archive of %s from %d: %w", session, r.First, err))
			return
		}
		for entry, err := range archive.Log.Read(ctx, session, max(from, r.First)) {
			if err == nil {
				err = b.decrypt(&entry)
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// Archived lists the sessions that are or were cold, in no order, without the erased ones.
func (b *Bus) Archived(ctx context.Context) iter.Seq2[events.SessionID, error] {
	return func(yield func(events.SessionID, error) bool) {
		erased := make(map[events.SessionID]bool)
		for id, err := range b.Erased(ctx) {
			if err != nil {
				yield("", err)
				return
			}
			erased[id] = true
		}
		for subject, err := range b.archiveSubjects(ctx, b.names.archiveAll()) {
			id, ok := b.names.parseArchive(subject)
			if (ok && !erased[id] || err != nil) && !yield(id, err) {
				return
			}
		}
	}
}

func (b *Bus) archiveSubjects(ctx context.Context, filter string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		if b.archives == nil {
			return
		}
		subjects, err := b.subjects(ctx, b.names.archiveStream(), filter)
		if err != nil {
			yield("", fmt.Errorf("list archives: %w", err))
			return
		}
		for subject := range subjects {
			if !yield(subject, nil) {
				return
			}
		}
	}
}
