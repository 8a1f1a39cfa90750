package events

import (
	"fmt"
	"reflect"
	"strings"
	"sync"
	"unsafe"
)

// layout describes the memory of a type's values and their encoding. It is the counterpart of filler, with the fields of
// [fieldsOf]. It is built once per type. Values are read through their addresses, without reflection: the offsets
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
	list, err := fieldsOf(t)
	for i := 0; i < len(list) && err == nil; i++ {
		err = s.add(l, &list[i])
	}
	return l, err
}

func (s layoutTypes) add(l *layout, f *structField) error {
	of, err := s.layout(f.t)
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	field := layoutField{layout: of, key: string(appendText(nil, f.tag)), offset: f.offset, optional: f.optional}
	if f.optional && f.t.Implements(reflect.TypeFor[zeroer]()) {
		if field.zeroTest, err = newZeroTest(f.t); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	field.vanishes = f.optional && field.zeroTest == nil && of.kind == reflect.Struct
	l.fields = append(l.fields, field)
	return nil
}
