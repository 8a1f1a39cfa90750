package projector

import (
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
)

// TestSamePart changes every field, so that a new field must be compared too.
func TestSamePart(t *testing.T) {
	t.Parallel()
	for i := range reflect.TypeFor[events.Part]().NumField() {
		var a, b events.Part
		field := reflect.ValueOf(&b).Elem().Field(i)
		switch field.Kind() {
		case reflect.String:
			field.SetString("x")
		case reflect.Slice:
			field.SetBytes([]byte("x"))
		default:
			field.Set(reflect.ValueOf(events.BlobRef{Digest: "x", Size: 1}))
		}
		if samePart(a, b) || !samePart(b, b) {
			t.Errorf("field %s is not compared", reflect.TypeFor[events.Part]().Field(i).Name)
		}
	}
	for i := range reflect.TypeFor[events.Message]().NumField() {
		var a, b events.Message
		field := reflect.ValueOf(&b).Elem().Field(i)
		if field.Kind() == reflect.String {
			field.SetString("x")
		} else {
			field.Set(reflect.ValueOf([]events.Part{{Text: "x"}}))
		}
		if sameMessage(&a, &b) || !sameMessage(&b, &b) {
			t.Errorf("field %s is not compared", reflect.TypeFor[events.Message]().Field(i).Name)
		}
	}
}
