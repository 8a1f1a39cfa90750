package events

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"
)

// structField is a field of a struct that is encoded.
type structField struct {
	name  string // in Go, with its type, for errors
	t     reflect.Type
	tag   string
	index []int // in the struct, through embedded ones
}

// fieldsOf lists the encoded fields of a struct in the order of declaration, those of embedded structs with the others.
// Errors: [ErrInvalid] for a field or an option that is not part of the format.
func fieldsOf(t reflect.Type) ([]structField, error) { return appendFields(nil, t, nil) }

// appendFields appends the fields of t, which is embedded at an index.
func appendFields(list []structField, t reflect.Type, index []int) ([]structField, error) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		field := structField{
			name: t.String() + "." + f.Name, t: f.Type, tag: cmp.Or(tag, f.Name), index: append(slices.Clip(index), i),
		}
		var err error
		switch {
		case option != "" && option != "omitempty":
			err = fmt.Errorf("%w: option %q is not part of this format", ErrInvalid, option)
		case tag == "-" || !f.IsExported() && !f.Anonymous:
		case f.Anonymous && (tag != "" || option != "" || !f.IsExported() || f.Type.Kind() != reflect.Struct || encodesItself(f.Type)):
			err = unsupported(f.Type)
		case f.Anonymous:
			list, err = appendFields(list, f.Type, field.index)
		case slices.ContainsFunc(list, func(other structField) bool { return other.tag == field.tag }):
			err = fmt.Errorf("%w: a second field %q is not part of this format", ErrInvalid, field.tag)
		default:
			list = append(list, field)
		}
		if err != nil {
			return list, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	return list, nil
}

// encodesItself reports whether t has its own encoding, as [time.Time] has. Then its fields are not its value.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]()) ||
		p.Implements(reflect.TypeFor[msgpack.Marshaler]()) || p.Implements(reflect.TypeFor[msgpack.CustomEncoder]())
}

// isTexts reports whether t is a map from text to text, the only map type of the format.
func isTexts(t reflect.Type) bool {
	return t.Key() == reflect.TypeFor[string]() && t.Elem() == reflect.TypeFor[string]()
}

func unsupported(t reflect.Type) error {
	return fmt.Errorf("%w: type %s is not part of this format", ErrInvalid, t)
}
