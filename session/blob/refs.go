package blob

import (
	"context"
	"reflect"

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
		return each(Refs(p))
	}
	withoutBase := *opened
	withoutBase.Base = events.BlobRef{}
	if err := each(Refs(&withoutBase)); err != nil {
		return err
	}
	read := func(ref events.BlobRef) ([]byte, error) { return blobs.Blob(ctx, ref) }
	return projector.WalkBase(opened.Base, read, func(piece projector.BaseBody) error {
		if err := visit(piece.Ref, func() ([]byte, error) { return piece.Body, nil }); err != nil {
			return err
		}
		return each(RefsIn(piece.Frames, piece.Nodes))
	})
}

// Refs lists the references of an event in the order of its
// fields. It goes by the types of the fields, so it finds them in new kinds of events too.
func Refs(p events.Payload) []events.BlobRef {
	if p == nil {
		return nil
	}
	return blobRefs(nil, reflect.ValueOf(p))
}

// RefsIn lists the references in structs and in slices of structs.
func RefsIn(values ...any) (list []events.BlobRef) {
	for _, v := range values {
		list = blobRefs(list, reflect.ValueOf(v))
	}
	return list
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
