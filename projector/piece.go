package projector

import (
	"fmt"

	"github.com/lash-go/lash/events"
)

// Piece is one body of a base: the base itself, a page or a segment.
type Piece struct {
	Ref    events.BlobRef
	Body   []byte
	Frames []Frame // of the base itself
	Nodes  []Node  // as stored
}

// WalkBase reads a base and all its pieces, each before the pieces that it lists. If read returns nil for a piece,
// the piece and the pieces that it lists are skipped. Errors: those of read and visit, malformed pieces, and a piece
// that is listed twice.
func WalkBase(ref events.BlobRef, read func(events.BlobRef) ([]byte, error), visit func(Piece) error) error {
	body, err := read(ref)
	if err != nil || body == nil {
		return err
	}
	b, err := decodeBase(body)
	if err == nil {
		err = visit(Piece{Ref: ref, Body: body, Frames: b.Frames, Nodes: b.Tail})
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
	return walkPieces(b.Pages, b.Segments, once, visit)
}

// SnapshotPages lists the pages of a snapshot's head. Errors: those of [Restore].
func SnapshotPages(head []byte) ([]events.BlobRef, error) {
	s, err := Restore(head)
	if err != nil {
		return nil, err
	}
	return s.body.pages, nil
}

func walkPieces(pages, segments []events.BlobRef, read func(events.BlobRef) ([]byte, error), visit func(Piece) error) error {
	for _, ref := range pages {
		var d pageData
		body, err := decodePiece(ref, read, pageSteps, &d)
		if err == nil && body != nil {
			if err = visit(Piece{Ref: ref, Body: body}); err == nil {
				err = walkPieces(nil, d.Segments, read, visit)
			}
		}
		if err != nil {
			return err
		}
	}
	for _, ref := range segments {
		var d segmentData
		body, err := decodePiece(ref, read, segmentSteps, &d)
		if err == nil && body != nil {
			err = visit(Piece{Ref: ref, Body: body, Nodes: d.Nodes})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodePiece(ref events.BlobRef, read func(events.BlobRef) ([]byte, error), steps upcasters, v interface{ check() error }) ([]byte, error) {
	body, err := read(ref)
	if err == nil && body != nil {
		if err = steps.decode(body, v); err != nil {
			err = fmt.Errorf("piece %s of a base: %w", ref.Digest, err)
		}
	}
	return body, err
}
