package events

import (
	"math"
	"reflect"
	"sync"
	"unsafe"
)

// filler decodes one value of a fixed type.
type filler func(c *cursor, v reflect.Value)

// coded is how values of a type are decoded, and whether the type is part of the format.
type coded struct {
	fill filler
	err  error // [ErrInvalid]
}

// codedTypes has the types met before. Their number is small and fixed.
//
//nolint:gochecknoglobals // a cache has to be shared to be one
var codedTypes sync.Map // reflect.Type to coded

func codedOf(t reflect.Type) coded {
	if c, ok := codedTypes.Load(t); ok {
		return c.(coded)
	}
	s := structs{types: make(map[reflect.Type]*fields)}
	c := coded{fill: s.filler(t)}
	c.err = s.err
	codedTypes.Store(t, c)
	return c
}

// structs are the struct types met during the construction of a filler. They make recursive types possible.
type structs struct {
	types map[reflect.Type]*fields
	err   error // the first type or field that is not part of the format
}

func (s *structs) filler(t reflect.Type) filler {
	if encodesItself(t) {
		return s.refuse(unsupported(t))
	}
	switch t.Kind() {
	case reflect.String:
		return func(c *cursor, v reflect.Value) { v.SetString(c.str()) }
	case reflect.Bool:
		return func(c *cursor, v reflect.Value) { v.SetBool(c.bool()) }
	case reflect.Int, reflect.Int64:
		return fillInt
	case reflect.Uint64:
		return func(c *cursor, v reflect.Value) { v.SetUint(c.want(typeUint)) }
	case reflect.Float64:
		return fillFloat
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return fillBytes
		}
		return s.slice(t)
	case reflect.Pointer:
		return s.pointer(t)
	case reflect.Struct:
		return s.structure(t).fill
	case reflect.Map:
		if isTexts(t) {
			return fillTexts
		}
	default:
	}
	return s.refuse(unsupported(t))
}

func (s *structs) refuse(err error) filler {
	if s.err == nil {
		s.err = err
	}
	return func(c *cursor, _ reflect.Value) { c.stop(err) }
}

func fillInt(c *cursor, v reflect.Value) {
	n := c.int()
	if v.OverflowInt(n) {
		c.fail("%d does not fit %s", n, v.Kind())
		return
	}
	v.SetInt(n)
}

func fillFloat(c *cursor, v reflect.Value) { v.SetFloat(math.Float64frombits(c.want(typeFloat))) }

func fillBytes(c *cursor, v reflect.Value) {
	n, isNil := c.wantOrNil(typeBytes)
	if isNil {
		v.SetZero()
		return
	}
	b := c.bytes(n)
	if c.shareBytes && len(b) > 0 {
		v.SetBytes(unsafe.Slice(unsafe.StringData(b), len(b)))
		return
	}
	v.SetBytes(append(make([]byte, 0, n), b...))
}

func (s *structs) slice(t reflect.Type) filler {
	elem := s.filler(t.Elem())
	return func(c *cursor, v reflect.Value) {
		n, isNil := c.wantOrNil(typeArray)
		if isNil {
			v.SetZero()
			return
		}
		if v.SetZero(); n == 0 {
			v.Set(reflect.MakeSlice(t, 0, 0)) // not nil
			return
		}
		v.Grow(int(n)) // in place: MakeSlice allocates the slice's header too
		v.SetLen(int(n))
		v.SetCap(int(n))
		for i := 0; i < int(n) && c.err == nil; i++ {
			elem(c, v.Index(i))
		}
	}
}

func fillTexts(c *cursor, v reflect.Value) {
	n, isNil := c.wantOrNil(typeMap)
	if isNil {
		v.SetZero()
		return
	}
	m := make(map[string]string, n)
	for ; n > 0 && c.err == nil; n-- {
		k := c.str()
		m[k] = c.str()
	}
	v.Set(reflect.ValueOf(m).Convert(v.Type()))
}

func (s *structs) pointer(t reflect.Type) filler {
	elem := s.filler(t.Elem())
	return func(c *cursor, v reflect.Value) {
		if c.left() > 0 && c.data[c.at] == 0xc0 {
			c.at++
			v.SetZero()
			return
		}
		v.Set(reflect.New(t.Elem()))
		elem(c, v.Elem())
	}
}

// fields decodes a struct by tags, in any order. Unknown tags are skipped.
type fields struct {
	list  []field
	made  bool
	nests bool // a recursive type: the input determines the depth
}

type field struct {
	tag   string
	index []int // in the struct, through embedded ones
	fill  filler
}

func (f *field) in(v reflect.Value) reflect.Value {
	for _, i := range f.index {
		v = v.Field(i)
	}
	return v
}

func (s *structs) structure(t reflect.Type) *fields {
	if fs, ok := s.types[t]; ok {
		fs.nests = fs.nests || !fs.made
		return fs
	}
	fs := &fields{}
	s.types[t] = fs
	list, err := fieldsOf(t)
	if err != nil {
		s.refuse(err)
	}
	for _, f := range list {
		fs.list = append(fs.list, field{tag: f.tag, index: f.index, fill: s.filler(f.t)})
	}
	fs.made = true
	return fs
}

func (fs *fields) fill(c *cursor, v reflect.Value) {
	if fs.nests {
		if c.depth++; c.depth > maxNesting {
			c.fail("a value nests deeper than %d levels", maxNesting)
			return
		}
		defer func() { c.depth-- }()
	}
	next := 0 // encoders write the fields in order, so the next field is the likely one
	for n := c.want(typeMap); n > 0 && c.err == nil; n-- {
		tag := c.text()
		at := fs.find(tag, next)
		if at < 0 {
			c.skipped(tag, fs)
			c.raw()
			continue
		}
		f := &fs.list[at]
		f.fill(c, f.in(v))
		next = at + 1
	}
}

// find searches for tag in the list, starting at next. It returns -1 for an unknown tag.
func (fs *fields) find(tag string, next int) int {
	for i := next; i < len(fs.list); i++ {
		if tag == fs.list[i].tag {
			return i
		}
	}
	for i := range min(next, len(fs.list)) {
		if tag == fs.list[i].tag {
			return i
		}
	}
	return -1
}
