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

// archived is a session's entry in the stream of archives: the runs of its
// history that no stream holds any more. It is the truth about them, so it is
// read from the leader and replaced by revision only.
type archived struct {
	Last     events.Seq `msgpack:"q"`
	Stream   string     `msgpack:"s"`           // that was archived last; it is sealed, or deleted
	Next     string     `msgpack:"n,omitempty"` // stream that goes on after Last, from 1 on where Last is 0; empty: the session is cold
	Runs     []run      `msgpack:"r"`           // in order, without holes, from sequence 1 on
	Erased   Tombstone  `msgpack:"x,omitempty"` // of an erased session, whose runs are to be removed
	Revision uint64     `msgpack:"-"`           // 0: the session has no entry
	Put      time.Time  `msgpack:"-"`           // when the server took the entry
}

// run is one archive file (package events): in the entry where it is small, else in a blob.
type run struct {
	First events.Seq     `msgpack:"f"`
	Last  events.Seq     `msgpack:"l"`
	File  []byte         `msgpack:"d,omitempty"`
	Blob  events.BlobRef `msgpack:"b,omitempty"`
}

const (
	// maxInline is how large the files within an entry are together at most:
	// most sessions cost one message when they are cold.
	maxInline = 512 << 10
	// maxRun is how much of commits one file takes.
	maxRun = 32 << 20
)

func (b *Bus) archived(ctx context.Context, session events.SessionID) (row archived, err error) {
	if b.archives == nil {
		return archived{}, nil
	}
	err = b.retry(ctx, "look into archives", func(ctx context.Context) error {
		msg, err := b.archives.GetLastMsgForSubject(ctx, b.names.archive(session))
		if err != nil {
			return err
		}
		row = archived{}
		if err := events.DecodePayload(msg.Data, &row); err != nil {
			return fmt.Errorf("archives of session %s: %w", session, err)
		}
		row.Revision, row.Put = msg.Sequence, msg.Time
		return nil
	})
	switch {
	case errors.Is(err, ErrNotFound):
		return archived{}, nil
	case isNoAsset(err): // what is cold may still be somewhere
		err = fmt.Errorf("%w: the server lacks the stream of archives; a node that starts makes it", events.ErrOutcomeUnknown)
	}
	return row, err
}

// putArchived replaces the entry, and moves its revision on. [ErrStale]: somebody was first.
func (b *Bus) putArchived(ctx context.Context, session events.SessionID, row *archived) error {
	data, err := events.EncodePayload(row)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: b.names.archive(session), Data: data, Header: nats.Header{
		jetstream.ExpectedLastSubjSeqHeader: {strconv.FormatUint(row.Revision, 10)},
	}}
	for try := 1; ; try++ {
		var ack *jetstream.PubAck
		err := b.once(ctx, func(ctx context.Context) (err error) {
			ack, err = b.js.PublishMsg(ctx, msg, jetstream.WithRetryAttempts(0))
			return err
		})
		switch {
		case err == nil:
			row.Revision = ack.Sequence
			return nil
		case errors.Is(err, events.ErrMoved):
			return ErrStale // also where an earlier try landed: looking again finds it
		case !isUnknown(err):
			return err
		}
		if pause(ctx, try) != nil {
			return err
		}
	}
}

// Archive seals a hot session's stream and writes it to archive files; then
// [Bus.Discard] is due. It may be repeated, and by any
// number at once; what one that died left undone is done. A session that moved
// past at is not sealed: [events.ConflictError]. A sealed one is archived wherever it ends.
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
	p, err := b.locate(ctx, session)
	if err != nil || p.stream == "" {
		return err
	}
	err = b.seal(ctx, session, &p, &at)
	if errors.Is(err, events.ErrNoSession) {
		return ErrStale // somebody else archived it
	}
	if err != nil {
		return err
	}
	row, err := b.archived(ctx, session)
	if err != nil {
		return err
	}
	switch p, err = b.locate(ctx, session); {
	case err != nil:
		return err
	case p.stream == "" || p.stream == row.Stream:
		return nil
	case !p.sealed, p.last < at: // somebody else archived it, and it is hot again; or who answers is behind
		return ErrStale
	}
	if p.last > row.Last {
		fresh, err := b.writeRuns(ctx, session, &row, p)
		if err != nil {
			return err
		}
		row.Runs, row.Last = append(row.Runs, fresh...), p.last
		if err := b.fitEntry(ctx, row.Runs); err != nil {
			return err
		}
	}
	row.Stream, row.Next = p.stream, ""
	return b.putArchived(ctx, session, &row)
}

// Discard makes a session cold that was archived: what is kept is read back and
// compared with its stream, which is then deleted. Where they differ that stays, with an error.
func (b *Bus) Discard(ctx context.Context, session events.SessionID) error {
	row, err := b.archived(ctx, session)
	if err == nil && row.Revision != 0 {
		err = b.clear(ctx, session, row)
	}
	if err != nil {
		return fmt.Errorf("discard stream of %s: %w", session, err)
	}
	return nil
}

// seal lets the stream of a hot session take no more appends, if it ends at end
// or end is nil. The session has an entry before that names the stream: see [Bus.remake].
func (b *Bus) seal(ctx context.Context, session events.SessionID, p *place, end *events.Seq) error {
	info, err := b.streamInfo(ctx, p.stream)
	if err != nil {
		return err
	}
	if info.Config.Sealed {
		return nil
	}
	if last := events.Seq(info.State.LastSeq); end != nil && *end != last {
		return &events.ConflictError{Session: session, Expected: *end, Last: last}
	}
	p.cold, err = b.archived(ctx, session)
	switch {
	case err == nil && p.cold.Revision == 0:
		p.cold.Next = p.stream
		err = b.putArchived(ctx, session, &p.cold)
	case err == nil && !p.cold.Erased.IsZero(): // meanwhile: it keeps its tombstone
		err = ErrStale
	}
	if err != nil {
		return err
	}
	cfg := info.Config
	cfg.Sealed = true
	err = b.retry(ctx, "seal stream "+p.stream, func(ctx context.Context) error {
		_, err := b.js.UpdateStream(ctx, cfg)
		return err
	})
	if errors.Is(err, events.ErrSealed) {
		return nil
	}
	return err
}

// writeRuns writes what the stream holds, together with what the last entry
// kept inline while that stays small.
func (b *Bus) writeRuns(ctx context.Context, session events.SessionID, row *archived, p place) ([]run, error) {
	from := p.first
	if n := len(row.Runs); n > 0 && row.Runs[n-1].Blob.IsZero() {
		from = row.Runs[n-1].First
		row.Runs = row.Runs[:n-1]
	}
	var list []run
	for from <= p.last {
		r, err := b.writeRun(ctx, session, from, p.last)
		if err != nil {
			return nil, err
		}
		list, from = append(list, r), r.Last+1
	}
	return list, nil
}

// writeRun writes the file of the commits from a sequence on, to last at most.
func (b *Bus) writeRun(ctx context.Context, session events.SessionID, from, last events.Seq) (run, error) {
	var file bytes.Buffer
	w, err := events.NewArchiveWriter(&file, session, from)
	if err != nil {
		return run{}, err
	}
	r, size := run{First: from}, 0
	for entry, err := range b.Log().Read(ctx, session, from) {
		if err == nil {
			err = w.Commit(entry)
		}
		if err != nil {
			return run{}, err
		}
		r.Last = entry.Seq
		if size += len(entry.Data); size >= maxRun || r.Last == last {
			break
		}
	}
	if r.Last < last && size < maxRun {
		return run{}, fmt.Errorf("%w: history ends at sequence %d, want %d", events.ErrMalformed, r.Last, last)
	}
	if err := w.Close(); err != nil {
		return run{}, err
	}
	r.File = file.Bytes()
	if len(r.File) > maxInline {
		err = b.moveToBlob(ctx, &r)
	}
	return r, err
}

func (b *Bus) moveToBlob(ctx context.Context, r *run) (err error) {
	r.Blob, err = b.PutBlob(ctx, r.File)
	r.File = nil
	return err
}

// fitEntry moves the largest files to blobs until the others fit the entry
// together: the stream is sealed by then, and stays so while the entry does not fit.
func (b *Bus) fitEntry(ctx context.Context, runs []run) error {
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

// compare holds what is kept of a session against the stream that it was
// archived from: the last look before that is deleted. [ErrStale]: the stream
// goes on after what is kept, as where the server lost a seal that an archiver
// saw; the entry says so now. It reports whether the stream is there.
func (b *Bus) compare(ctx context.Context, session events.SessionID, row archived) (there bool, err error) {
	info, err := b.streamInfo(ctx, row.Stream)
	if errors.Is(err, events.ErrNoSession) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if events.Seq(info.State.LastSeq) > row.Last && row.Next == "" {
		row.Stream, row.Next = "", row.Stream
		return true, errors.Join(ErrStale, b.putArchived(ctx, session, &row))
	}
	if info.State.Msgs == 0 { // its creator died before the first commit
		return true, nil
	}
	first, last := events.Seq(info.State.FirstSeq), min(row.Last, events.Seq(info.State.LastSeq))
	next, stop := iter.Pull2(b.Log().readHere(ctx, session, place{cold: row}, first, last))
	defer stop()
	for entry, err := range b.Log().readHere(ctx, session, place{stream: row.Stream}, first, last) {
		if errors.Is(err, events.ErrNoSession) {
			return false, nil // somebody else compared them
		}
		if err != nil {
			return true, err
		}
		switch kept, err, ok := next(); {
		case err != nil:
			return true, err
		case !ok || !bytes.Equal(kept.Data, entry.Data):
			return true, fmt.Errorf("%w: archive of %s differs from its stream at sequence %d", events.ErrMalformed, session, entry.Seq)
		}
	}
	return true, nil
}

// readRun yields the commits of a file from a sequence on.
func (b *Bus) readRun(ctx context.Context, session events.SessionID, r run, from events.Seq) iter.Seq2[events.Entry, error] {
	return func(yield func(events.Entry, error) bool) {
		file, err := r.File, error(nil)
		if !r.Blob.IsZero() {
			file, err = b.Blob(ctx, r.Blob)
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
		archive.Log.Read(ctx, session, max(from, r.First))(yield)
	}
}

// cold lists the sessions of which something is archived, in no order.
func (b *Bus) cold(ctx context.Context) iter.Seq2[events.SessionID, error] {
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
			id := b.names.archivedSession(subject)
			if !erased[id] && !yield(id, err) {
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
