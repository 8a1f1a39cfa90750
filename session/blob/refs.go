package blob

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Visit calls visit for every body outside the log that an event refers to. The opening of a copied session refers to its base,
// and through it to the segments of the base and their bodies. visit need not call read. Errors: those of the reader, of a
// base that does not decode, and of visit.
func Visit(ctx context.Context, blobs Reader, p events.Payload, visit func(ref events.BlobRef, read func() ([]byte, error)) error) error {
	each := func(list []events.BlobRef) error {
		for _, ref := range list {
			if err := visit(ref, func() ([]byte, error) { return blobs.Blob(ctx, ref) }); err != nil {
				return err
			}
		}
		return nil
	}
	opened, ok := p.(*events.SessionOpened)
	if !ok || opened.Base.IsZero() {
		return each(events.Refs(p))
	}
	withoutBase := *opened
	withoutBase.Base = events.BlobRef{}
	if err := each(events.Refs(&withoutBase)); err != nil {
		return err
	}
	read := func(ref events.BlobRef) ([]byte, error) { return blobs.Blob(ctx, ref) }
	return projector.WalkBase(opened.Base, read, func(piece projector.BaseBody) error {
		if err := visit(piece.Ref, func() ([]byte, error) { return piece.Body, nil }); err != nil {
			return err
		}
		return each(events.RefsIn(piece.Frames, piece.Nodes))
	})
}
