package events

import (
	"reflect"
	"sync"
)

// Refs lists the references to bodies in an event, in the order of its fields. It goes by the types of the fields, so it finds them in new
// kinds of events too.
func Refs(p Payload) []BlobRef {
	if p == nil {
		return nil
	}
	return appendRefs(nil, reflect.ValueOf(p))
}

// RefsIn lists the references in structs and in slices of structs.
func RefsIn(values ...any) (list []BlobRef) {
	for _, v := range values {
		list = appendRefs(list, reflect.ValueOf(v))
	}
	return list
}

func appendRefs(list []BlobRef, v reflect.Value) []BlobRef {
	if !v.IsValid() || !mayHaveRefs(v.Type()) {
		return list
	}
	switch v.Kind() { //nolint:exhaustive // the others have none
	case reflect.Pointer:
		if !v.IsNil() {
			return appendRefs(list, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			list = appendRefs(list, v.Index(i))
		}
	case reflect.Struct:
		if ref, ok := reflect.TypeAssert[BlobRef](v); ok {
			if !ref.IsZero() {
				list = append(list, ref)
			}
			return list
		}
		for i := range v.NumField() {
			list = appendRefs(list, v.Field(i))
		}
	}
	return list
}

// withRefs tells of types whether values may have a reference. A fold asks for each event.
var withRefs sync.Map //nolint:gochecknoglobals // a cache of what does not change

func mayHaveRefs(t reflect.Type) bool {
	if known, ok := withRefs.Load(t); ok {
		return known.(bool) //nolint:forcetypeassert // it has no other values
	}
	has := false
	switch t.Kind() { //nolint:exhaustive // the others have none
	case reflect.Pointer, reflect.Slice:
		withRefs.Store(t, true) // while a type that has itself is looked through
		has = mayHaveRefs(t.Elem())
	case reflect.Struct:
		has = t == reflect.TypeFor[BlobRef]()
		for i := 0; i < t.NumField() && !has; i++ {
			has = mayHaveRefs(t.Field(i).Type)
		}
	}
	withRefs.Store(t, has)
	return has
}
