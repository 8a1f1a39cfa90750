package session

import (
	"context"
	"fmt"
	"io"
	"reflect"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/projector/follow"
)

// BlobReader gives bodies kept outside the log, checked against their reference.
type BlobReader = follow.BlobReader

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
	return Bodies(ctx, x.blobs, p, func(ref events.BlobRef, read func() ([]byte, error)) error {
		if x.seen[ref.Digest] {
			return nil
		}
		body, err := read()
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

// Bodies visits all that an event refers to outside the log: of the opening of a copy, its base with all that this
// refers to. What is visited need not be read. Errors are those of the reader, of a base that does not decode, and of visit.
func Bodies(ctx context.Context, blobs BlobReader, p events.Payload, visit func(ref events.BlobRef, read func() ([]byte, error)) error) error {
	outside := func(list []events.BlobRef) error {
		for _, ref := range list {
			if err := visit(ref, func() ([]byte, error) { return blobs.Blob(ctx, ref) }); err != nil {
				return err
			}
		}
		return nil
	}
	opened, ok := p.(*events.SessionOpened)
	if !ok || opened.Base.IsZero() {
		return outside(BlobRefs(p))
	}
	beside := *opened
	beside.Base = events.BlobRef{}
	if err := outside(BlobRefs(&beside)); err != nil {
		return err
	}
	read := func(ref events.BlobRef) ([]byte, error) { return blobs.Blob(ctx, ref) }
	return projector.WalkBase(opened.Base, read, func(piece projector.Piece) error {
		if err := visit(piece.Ref, func() ([]byte, error) { return piece.Body, nil }); err != nil {
			return err
		}
		return outside(blobRefs(blobRefs(nil, reflect.ValueOf(piece.Frames)), reflect.ValueOf(piece.Nodes)))
	})
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
