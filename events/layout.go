package events

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unsafe"
)

// layout is how the values of one type lie in memory and what is written of
// them. It is the counterpart of filler: same tags, same types. It is made
// once for a type and never changes. Values are read through their addresses,
// without reflection: a layout's offsets are those of the type it was made for.
type layout struct {
	kind   reflect.Kind
	size   uintptr       // of slices: bytes from one element to the next
	elem   *layout       // of slices and pointers; nil: a slice of bytes
	fields []layoutField // of structs, in the order of their declaration
}

// layouts caches the layout of each type. Types are few and never change.
//
//nolint:gochecknoglobals // a cache has to be shared to be one
var layouts sync.Map // reflect.Type to *layout

// layoutOf errs with [ErrInvalid] where a type in t is not part of the format.
func layoutOf(t reflect.Type) (*layout, error) {
	if l, ok := layouts.Load(t); ok {
		return l.(*layout), nil
	}
	l, err := make(layoutTypes).layout(t)
	if err != nil {
		return nil, err
	}
	layouts.Store(t, l)
	return l, nil
}

// layoutField is a field of a struct that is written.
type layoutField struct {
	*layout
	key      string // its tag, encoded
	offset   uintptr
	optional bool       // left out where it is empty
	vanishes bool       // optional, and a struct without IsZero: left out where all of its own fields are
	zero     *zeroCheck // of optional structs and pointers whose type has IsZero
}

// absent reports whether an optional field is left out: where its IsZero says
// so or, where its type has none, it is zero or has no elements. A struct
// without IsZero is left out where nothing of it is written, which shows only
// when it is written.
func (f *layoutField) absent(at unsafe.Pointer) bool {
	switch f.kind {
	case reflect.String:
		return *(*string)(at) == ""
	case reflect.Int64, reflect.Uint64:
		return *(*int64)(at) == 0
	case reflect.Slice:
		return len(*(*[]byte)(at)) == 0
	case reflect.Bool:
		return !*(*bool)(at)
	case reflect.Map:
		return len(*(*map[string]string)(at)) == 0
	case reflect.Struct:
		return f.zero != nil && f.zero.of(at)
	case reflect.Pointer:
		to := *(*unsafe.Pointer)(at)
		return to == nil || f.zero != nil && f.zero.of(to)
	case reflect.Float64:
		return *(*float64)(at) == 0
	default: // int
		return *(*int)(at) == 0
	}
}

// zeroer is a type that decides itself which of its values an optional field leaves out.
type zeroer interface{ IsZero() bool }

// zeroCheck calls a struct's IsZero.
type zeroCheck struct {
	t      reflect.Type
	memory string // of the zero value, where IsZero is true of it: equal memory is the same value. Empty: IsZero is false of it
}

// newZeroCheck is for a struct or a pointer to one, and errs with [ErrInvalid] for other types.
func newZeroCheck(t reflect.Type) (*zeroCheck, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: IsZero of %s, which is no struct, is not part of this format", ErrInvalid, t)
	}
	z := &zeroCheck{t: t}
	if reflect.New(t).Interface().(zeroer).IsZero() {
		z.memory = strings.Repeat("\x00", int(t.Size()))
	}
	return z, nil
}

func (z *zeroCheck) of(at unsafe.Pointer) bool {
	if z.memory != "" && unsafe.String((*byte)(at), len(z.memory)) == z.memory {
		return true
	}
	return reflect.NewAt(z.t, at).Interface().(zeroer).IsZero()
}

// layoutTypes holds the struct types met while a layout is made, so that a type may contain itself.
type layoutTypes map[reflect.Type]*layout

func (s layoutTypes) layout(t reflect.Type) (*layout, error) {
	if encodesItself(t) {
		return nil, unsupported(t)
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64, reflect.Float64:
		return &layout{kind: t.Kind()}, nil
	case reflect.Slice, reflect.Pointer:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return &layout{kind: reflect.Slice}, nil
		}
		elem, err := s.layout(t.Elem())
		return &layout{kind: t.Kind(), size: t.Elem().Size(), elem: elem}, err
	case reflect.Map:
		if isTexts(t) {
			return &layout{kind: reflect.Map}, nil
		}
	case reflect.Struct:
		return s.structure(t)
	default:
	}
	return nil, unsupported(t)
}

func (s layoutTypes) structure(t reflect.Type) (*layout, error) {
	if l, ok := s[t]; ok {
		return l, nil
	}
	l := &layout{kind: reflect.Struct}
	s[t] = l
	return l, s.collect(l, t, 0)
}

// collect adds the fields of t, which stands at an offset in the struct that l is of.
func (s layoutTypes) collect(l *layout, t reflect.Type, at uintptr) error {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, option, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		var err error
		switch {
		case option != "" && option != "omitempty":
			err = fmt.Errorf("%w: option %q is not part of this format", ErrInvalid, option)
		case tag == "-" || !f.IsExported() && !f.Anonymous:
		case !f.Anonymous:
			err = s.add(l, f, cmp.Or(tag, f.Name), at+f.Offset, option != "")
		case tag == "" && option == "" && f.IsExported() && f.Type.Kind() == reflect.Struct && !encodesItself(f.Type):
			err = s.collect(l, f.Type, at+f.Offset) // an embedded struct's fields are written among the others
		default:
			err = unsupported(f.Type)
		}
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t, f.Name, err)
		}
	}
	return nil
}

func (s layoutTypes) add(l *layout, f reflect.StructField, tag string, at uintptr, optional bool) error {
	of, err := s.layout(f.Type)
	if err != nil {
		return err
	}
	field := layoutField{layout: of, key: string(appendText(nil, tag)), offset: at, optional: optional}
	if slices.ContainsFunc(l.fields, func(other layoutField) bool { return other.key == field.key }) {
		return fmt.Errorf("%w: a second field %q is not part of this format", ErrInvalid, tag)
	}
	if optional && f.Type.Implements(reflect.TypeFor[zeroer]()) {
		if field.zero, err = newZeroCheck(f.Type); err != nil {
			return err
		}
	}
	field.vanishes = optional && field.zero == nil && of.kind == reflect.Struct
	l.fields = append(l.fields, field)
	return nil
}

// encodesItself reports whether t encodes its values itself, as [time.Time]
// does: its fields are not what is to be written.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]())
}

func unsupported(t reflect.Type) error {
	return fmt.Errorf("%w: type %s is not part of this format", ErrInvalid, t)
}
