package session

import (
	"context"
	"fmt"
	"io"
	"reflect"

	"github.com/lash-go/lash/events"
)

// BlobReader gives bodies kept outside the log, checked against their reference.
type BlobReader interface {
	Blob(ctx context.Context, ref events.BlobRef) ([]byte, error)
}

// Exported says what an archive holds.
type Exported struct {
	First, Last events.Seq
	Commits     int64
	Events      int64
	Blobs       int64
	BlobBytes   int64
	Unknown     int64 // events of kinds unknown to this program: bodies that they refer to are not in the archive
}

// Export writes a session as an archive: the commits from the beginning to
// what is last now, and every body that their events refer to, each once.
// Errors: those of [events.Log.Read], of the reader, and of w.
func Export(ctx context.Context, log events.Log, blobs BlobReader, id events.SessionID, w io.Writer) (Exported, error) {
	x := &exporter{blobs: blobs, w: w, seen: make(map[string]bool)}
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
	blobs   BlobReader
	w       io.Writer
	archive *events.ArchiveWriter // from the first commit on
	seen    map[string]bool       // digests written
	done    Exported
}

func (x *exporter) commit(ctx context.Context, e events.Entry) error {
	if x.archive == nil {
		var err error
		if x.archive, err = events.NewArchiveWriter(x.w, e.Commit.Session, e.Seq); err != nil {
			return err
		}
		x.done.First = e.Seq
	}
	if err := x.archive.Commit(e); err != nil {
		return err
	}
	x.done.Last, x.done.Commits = e.Seq, x.done.Commits+1
	for i := range e.Commit.Events {
		x.done.Events++
		if e.Commit.Events[i].Payload == nil {
			x.done.Unknown++
			continue
		}
		if err := x.bodies(ctx, e.Commit.Events[i].Payload); err != nil {
			return fmt.Errorf("sequence %d, %s: %w", e.Seq, e.Commit.Events[i].Kind, err)
		}
	}
	return nil
}

func (x *exporter) bodies(ctx context.Context, p events.Payload) error {
	for _, ref := range BlobRefs(p) {
		if x.seen[ref.Digest] {
			continue
		}
		body, err := x.blobs.Blob(ctx, ref)
		if err != nil {
			return err
		}
		if err := x.archive.Blob(body); err != nil {
			return err
		}
		x.seen[ref.Digest] = true
		x.done.Blobs, x.done.BlobBytes = x.done.Blobs+1, x.done.BlobBytes+int64(len(body))
	}
	return nil
}

// BlobRefs lists what an event refers to outside the log, in the order of its
// fields. It looks at types, so that a new kind is not forgotten.
func BlobRefs(p events.Payload) []events.BlobRef {
	if p == nil {
		return nil
	}
	return blobRefs(nil, reflect.ValueOf(p))
}

func blobRefs(list []events.BlobRef, v reflect.Value) []events.BlobRef {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		return blobRefs(list, v.Elem())
	case kind == reflect.Slice && holdsStructs(v.Type()):
		for i := range v.Len() {
			list = blobRefs(list, v.Index(i))
		}
	case kind == reflect.Struct:
		if ref, ok := reflect.TypeAssert[events.BlobRef](v); ok {
			if !ref.IsZero() {
				list = append(list, ref)
			}
			return list
		}
		for i := range v.NumField() {
			list = blobRefs(list, v.Field(i))
		}
	}
	return list
}

func holdsStructs(slice reflect.Type) bool {
	kind := slice.Elem().Kind()
	return kind == reflect.Struct || kind == reflect.Pointer
}
