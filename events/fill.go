package events

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// filler decodes one value of the type it was made for. It is the counterpart
// of layout: same tags, same types.
type filler func(c *cursor, v reflect.Value)

// fillers caches the filler of each type. Types are few and never change.
//
//nolint:gochecknoglobals // a cache has to be shared to be one
var fillers sync.Map // reflect.Type to filler

func fillerOf(t reflect.Type) filler {
	if f, ok := fillers.Load(t); ok {
		return f.(filler)
	}
	f := make(structs).filler(t)
	fillers.Store(t, f)
	return f
}

// structs holds the struct types met while a filler is made, so that a type may contain itself.
type structs map[reflect.Type]*fields

func (s structs) filler(t reflect.Type) filler {
	switch t.Kind() {
	case reflect.String:
		return func(c *cursor, v reflect.Value) { v.SetString(c.str()) }
	case reflect.Bool:
		return func(c *cursor, v reflect.Value) { v.SetBool(c.bool()) }
	case reflect.Int, reflect.Int64:
		return fillInt
	case reflect.Uint64:
		return func(c *cursor, v reflect.Value) { v.SetUint(c.want(formUint)) }
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
	return func(c *cursor, _ reflect.Value) { c.fail("type %s is not part of this format", t) }
}

// isTexts reports whether t is a map of texts by text, the only maps of the format.
func isTexts(t reflect.Type) bool {
	return t.Key() == reflect.TypeFor[string]() && t.Elem() == reflect.TypeFor[string]()
}

func fillInt(c *cursor, v reflect.Value) {
	n := c.int()
	if v.OverflowInt(n) {
		c.fail("%d does not fit %s", n, v.Kind())
		return
	}
	v.SetInt(n)
}

func fillFloat(c *cursor, v reflect.Value) { v.SetFloat(math.Float64frombits(c.want(formFloat))) }

func fillBytes(c *cursor, v reflect.Value) {
	n, isNil := c.wantOrNil(formBytes)
	if isNil {
		v.SetZero()
		return
	}
	v.SetBytes(append(make([]byte, 0, n), c.take(n)...))
}

func (s structs) slice(t reflect.Type) filler {
	elem := s.filler(t.Elem())
	return func(c *cursor, v reflect.Value) {
		n, isNil := c.wantOrNil(formArray)
		if isNil {
			v.SetZero()
			return
		}
		v.Set(reflect.MakeSlice(t, int(n), int(n)))
		for i := 0; i < int(n) && c.err == nil; i++ {
			elem(c, v.Index(i))
		}
	}
}

func fillTexts(c *cursor, v reflect.Value) {
	n, isNil := c.wantOrNil(formMap)
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

func (s structs) pointer(t reflect.Type) filler {
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

// fields is how a struct decodes: by tag, whatever the order, unknown tags skipped.
type fields struct {
	list  []field
	made  bool
	nests bool // contains itself: how deep is up to what is decoded
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

func (s structs) structure(t reflect.Type) *fields {
	if fs, ok := s[t]; ok {
		fs.nests = fs.nests || !fs.made
		return fs
	}
	fs := &fields{}
	s[t] = fs
	s.collect(fs, t, nil)
	fs.made = true
	return fs
}

// collect adds the fields of t, which stands at an index of the struct that fs is of.
func (s structs) collect(fs *fields, t reflect.Type, at []int) {
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clip(at), i)
		tag, _, _ := strings.Cut(f.Tag.Get("msgpack"), ",")
		switch {
		case tag == "-" || !f.IsExported():
			continue
		case tag == "" && f.Anonymous && f.Type.Kind() == reflect.Struct:
			s.collect(fs, f.Type, index) // an embedded struct's fields are written among the others
			continue
		case tag == "":
			tag = f.Name
		}
		fs.list = append(fs.list, field{tag: tag, index: index, fill: s.filler(f.Type)})
	}
}

func (fs *fields) fill(c *cursor, v reflect.Value) {
	if fs.nests {
		if c.depth++; c.depth > maxNesting {
			c.fail("a value nests deeper than %d levels", maxNesting)
			return
		}
		defer func() { c.depth-- }()
	}
	next := 0 // writers keep the order of the fields, so the next one is the likely one
	for n := c.want(formMap); n > 0 && c.err == nil; n-- {
		tag := c.text()
		at := fs.find(tag, next)
		if at < 0 {
			c.raw()
			continue
		}
		f := &fs.list[at]
		f.fill(c, f.in(v))
		next = at + 1
	}
}

// find looks for tag in the list, from next on and then from the start. -1: not there.
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
