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

// layout describes the memory of a type's values and their encoding. It is the counterpart of filler, with the same
// tags and types. It is built once per type. Values are read through their addresses, without reflection: the offsets
// are those of the type.
type layout struct {
	kind   reflect.Kind
	size   uintptr       // of slices: distance of elements in bytes
	elem   *layout       // of slices and pointers; nil for a slice of bytes
	fields []layoutField // of structs, in the order of declaration
}

// layouts caches the layout of each type. The number of types is small and fixed.
//
//nolint:gochecknoglobals // a cache has to be shared to be one
var layouts sync.Map // reflect.Type to *layout

// layoutOf fails with [ErrInvalid] if a type in t is not part of the format.
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

// layoutField is an encoded field of a struct.
type layoutField struct {
	*layout
	key      string // its tag, encoded
	offset   uintptr
	optional bool      // omitted if empty
	vanishes bool      // optional, and a struct without IsZero: omitted if all its own fields are
	zeroTest *zeroTest // of optional structs and pointers whose type has IsZero
}

// absent reports whether an optional field is omitted: if IsZero is true, or, without IsZero, if it is zero or has no
// elements. A struct without IsZero is omitted if all its fields are, which shows only after encoding.
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
		return f.zeroTest != nil && f.zeroTest.isZero(at)
	case reflect.Pointer:
		to := *(*unsafe.Pointer)(at)
		return to == nil || f.zeroTest != nil && f.zeroTest.isZero(to)
	case reflect.Float64:
		return *(*float64)(at) == 0
	default: // int
		return *(*int)(at) == 0
	}
}

// zeroer decides which values an optional field omits.
type zeroer interface{ IsZero() bool }

// zeroTest calls a struct's IsZero.
type zeroTest struct {
	t      reflect.Type
	memory string // memory of the zero value if its IsZero is true: equal memory is the same value. Otherwise empty
}

// newZeroTest accepts a struct or a pointer to one. Other types fail with [ErrInvalid].
func newZeroTest(t reflect.Type) (*zeroTest, error) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("%w: IsZero of %s, which is no struct, is not part of this format", ErrInvalid, t)
	}
	z := &zeroTest{t: t}
	if reflect.New(t).Interface().(zeroer).IsZero() {
		z.memory = strings.Repeat("\x00", int(t.Size()))
	}
	return z, nil
}

func (z *zeroTest) isZero(at unsafe.Pointer) bool {
	if z.memory != "" && unsafe.String((*byte)(at), len(z.memory)) == z.memory {
		return true
	}
	return reflect.NewAt(z.t, at).Interface().(zeroer).IsZero()
}

// layoutTypes are the struct types met during the construction of a layout. They make recursive types possible.
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

// collect adds the fields of t, which is embedded in the struct of l at an offset.
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
			err = s.collect(l, f.Type, at+f.Offset) // fields of an embedded struct are encoded with the others
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
		if field.zeroTest, err = newZeroTest(f.Type); err != nil {
			return err
		}
	}
	field.vanishes = optional && field.zeroTest == nil && of.kind == reflect.Struct
	l.fields = append(l.fields, field)
	return nil
}

// encodesItself reports whether t has its own encoding, as [time.Time] has. Then its fields are not its value.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[encoding.TextMarshaler]()) || p.Implements(reflect.TypeFor[encoding.BinaryMarshaler]())
}

func unsupported(t reflect.Type) error {
	return fmt.Errorf("%w: type %s is not part of this format", ErrInvalid, t)
}
