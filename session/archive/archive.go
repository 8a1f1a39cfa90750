package archive

import (
	"context"
	"fmt"
	"io"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/blob"
)

// Contents counts what an archive has.
type Contents struct {
	First, Last events.Seq
	Commits     int64
	Events      int64
	Blobs       int64
	BlobBytes   int64
	Redacted    int64 // events without payload
	Remains     Remains
	Locked      int64 // events whose key is not here: bodies that they refer to are not in the archive
	Unknown     int64 // events of kinds unknown to this program: bodies that they refer to are not in the archive
}

// Write writes a session as an archive: the commits from the beginning to
// what is last now, and every body that their events refer to, each once. What is stored encrypted is so in the archive; the
// bodies too, where the reader has keys as [bus.Bus] has. The archive has the records of redactions.
// Errors: those of [events.Log.Read], of the reader, and of w.
func Write(ctx context.Context, log events.Log, blobs blob.Reader, id events.SessionID, w io.Writer, redactions ...events.RedactionRecord) (Contents, error) {
	x := &exporter{blobs: blobs, w: w, redactions: redactions, seen: make(map[string]bool)}
	for entry, err := range log.Read(ctx, id, 1) {
		if err == nil {
			err = x.commit(ctx, entry)
		}
		if err != nil {
			return x.done, fmt.Errorf("export %s: %w", id, err)
		}
	}
	if x.archive == nil {
		return x.done, fmt.Errorf("export %s: %w: the history is empty", id, events.ErrNoSession)
	}
	if err := x.archive.Close(); err != nil {
		return x.done, fmt.Errorf("export %s: %w", id, err)
	}
	return x.done, nil
}

type exporter struct {
	blobs   blob.Reader
	w       io.Writer
	archive *events.ArchiveWriter // from the first commit on
	seen    map[string]bool       // digests written
	done    Contents

	redactions []events.RedactionRecord
}

func (x *exporter) commit(ctx context.Context, e events.Entry) error {
	if x.archive == nil {
		var err error
		if x.archive, err = events.NewArchiveWriter(x.w, e.Commit.Session, e.Seq, x.redactions...); err != nil {
			return err
		}
		x.done.First = e.Seq
	}
	if err := x.archive.Commit(e); err != nil {
		return err
	}
	x.done.Last, x.done.Commits = e.Seq, x.done.Commits+1
	x.done.Remains.add(e.Commit)
	for i := range e.Commit.Events {
		x.done.Events++
		if e.Commit.Events[i].Redacted != nil {
			x.done.Redacted++
			continue
		}
		if e.Commit.Events[i].Locked() != 0 {
			x.done.Locked++
			continue
		}
		if e.Commit.Events[i].Payload == nil {
			x.done.Unknown++
			continue
		}
		if err := x.bodies(ctx, &e.Commit.Events[i]); err != nil {
			return fmt.Errorf("sequence %d, %s: %w", e.Seq, e.Commit.Events[i].Kind, err)
		}
	}
	return nil
}

// bodies writes the bodies of an event, encrypted where its payload is.
func (x *exporter) bodies(ctx context.Context, ev *events.Event) error {
	return blob.Visit(ctx, x.blobs, ev.Payload, func(ref events.BlobRef, read func() ([]byte, error)) error {
		if x.seen[ref.Digest] {
			return nil
		}
		body, err := read()
		if err == nil {
			body, err = stored(x.blobs, ev, body)
		}
		if err == nil {
			err = x.archive.Blob(body)
		}
		if err != nil {
			return err
		}
		x.seen[ref.Digest] = true
		x.done.Blobs, x.done.BlobBytes = x.done.Blobs+1, x.done.BlobBytes+int64(len(body))
		return nil
	})
}
