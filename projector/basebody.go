package projector

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// BaseBody is one body of a base: the base itself, a page or a segment.
type BaseBody struct {
	Ref    events.BlobRef
	Body   []byte
	Frames []Frame // of the base itself
	Nodes  []Node  // as stored
}

// WalkBase reads a base and all its bodies, each before the bodies that it lists. If read returns nil for a body,
// that body and those that it lists are skipped. Errors: those of read and visit, malformed bodies, and a body
// that is listed twice.
func WalkBase(ref events.BlobRef, read func(events.BlobRef) ([]byte, error), visit func(BaseBody) error) error {
	body, err := read(ref)
	if err != nil || body == nil {
		return err
	}
	b, err := decodeBase(body)
	if err == nil {
		err = visit(BaseBody{Ref: ref, Body: body, Frames: b.Frames, Nodes: b.Tail})
	}
	if err != nil {
		return err
	}
	seen := make(map[events.BlobRef]bool)
	once := func(ref events.BlobRef) ([]byte, error) {
		if seen[ref] {
			return nil, errTwice(ref)
		}
		seen[ref] = true
		return read(ref)
	}
	return walkListed(b.Pages, b.Segments, once, visit)
}

// SnapshotPages lists the pages of a snapshot's head. Errors: those of [Restore].
func SnapshotPages(head []byte) ([]events.BlobRef, error) {
	s, err := Restore(head)
	if err != nil {
		return nil, err
	}
	return s.body.pages, nil
}

func walkListed(pages, segments []events.BlobRef, read func(events.BlobRef) ([]byte, error), visit func(BaseBody) error) error {
	for _, ref := range pages {
		var d pageData
		body, err := decodeListed(ref, read, &d)
		if err == nil && body != nil {
			if err = visit(BaseBody{Ref: ref, Body: body}); err == nil {
				err = walkListed(nil, d.Segments, read, visit)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, ref := range segments {
		var d segmentData
		body, err := decodeListed(ref, read, &d)
		if err == nil && body != nil {
			err = visit(BaseBody{Ref: ref, Body: body, Nodes: d.Nodes})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeListed(ref events.BlobRef, read func(events.BlobRef) ([]byte, error), v interface{ check() error }) ([]byte, error) {
	body, err := read(ref)
	if err == nil && body != nil {
		if err = decodeBody(body, v); err != nil {
			err = fmt.Errorf("body %s of a base: %w", ref.Digest, err)
		}
	}
	return body, err
}
