package sandbox

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// stateVersion is the version of the encoding. A state of another version is rejected.
const stateVersion = 1

// Saved state is one JSON object:
//
//	{"v":1,"vars":{"name":VALUE,...},"heap":[NODE,...]}
//
// VALUE is null, true, false, an integer of any size, a string, or an object:
// {"f":"0.5"} float, {"b":base64} bytes, {"u":base64} text that is no UTF-8,
// {"range":[start,stop,step]}, {"__handle__":"task","id":..,"tool":..},
// {"t":[]} the empty tuple, and {"r":3} node 3 of the heap.
// NODE is {"list":[VALUE..]}, {"tuple":..}, {"set":..}, {"dict":[[K,V],..]},
// {"str":text} for long texts, {"outcome":[ok,value,error]} and {"fn":..}.
// Variables are sorted, nodes are numbered in the order in which the variables
// reach them, so equal graphs of values give equal bytes.
type wireState struct {
	Version int                  `json:"v"`
	Vars    map[string]wireValue `json:"vars"`
	Heap    []wireNode           `json:"heap"`
}

type wireValue = json.RawMessage

type wireNode struct {
	List    *[]wireValue    `json:"list"`
	Tuple   *[]wireValue    `json:"tuple"`
	Set     *[]wireValue    `json:"set"`
	Dict    *[][2]wireValue `json:"dict"`
	Str     *string         `json:"str"`
	Outcome *[3]wireValue   `json:"outcome"`
	Fn      *wireFunction   `json:"fn"`
}

// wireFunction is a function as its source, with the values of its defaults and of the variables of its closure. It
// reads globals by name.
type wireFunction struct {
	Name     string        `json:"name"`
	Source   string        `json:"src"`
	Indent   string        `json:"indent,omitempty"` // of the first line
	Lambda   bool          `json:"lambda,omitempty"`
	Defaults []wireBinding `json:"defaults,omitempty"`
	Free     []wireBinding `json:"free,omitempty"`
}

type wireBinding struct {
	Name  string    `json:"name"`
	Value wireValue `json:"value"`
}

type wireSpecial struct {
	Float  *string      `json:"f"`
	Bytes  *[]byte      `json:"b"`
	Raw    *[]byte      `json:"u"`
	Range  *[3]int      `json:"range"`
	Handle *string      `json:"__handle__"`
	ID     string       `json:"id"`
	Tool   string       `json:"tool"`
	Empty  *[]wireValue `json:"t"`
	Ref    *int         `json:"r"`
}

const longText = 64 // bytes from which on a text is shared

var errTooLarge = errors.New("too large")

// encoder builds the heap. add adds a variable with all values that it reaches, or nothing.
type encoder struct {
	limit  int64
	size   int64
	source func(fn *starlark.Function) (wireFunction, bool)
	index  map[any]int
	keys   []any // in the order of index
	nodes  [][]byte
	open   map[int]bool // functions whose node is being built
}

// elements identifies the elements of a tuple: tuples have no identity.
type elements struct {
	first *starlark.Value
	n     int
}

func newEncoder(limit int64, source func(*starlark.Function) (wireFunction, bool)) *encoder {
	return &encoder{limit: limit, source: source, index: make(map[any]int), open: make(map[int]bool)}
}

func (e *encoder) add(v starlark.Value) ([]byte, error) {
	nodes, size := len(e.nodes), e.size
	b, err := e.value(v, 0)
	if err == nil && e.size+int64(len(b)) > e.limit {
		err = errTooLarge
	}
	if err != nil {
		for _, key := range e.keys[nodes:] {
			delete(e.index, key)
		}
		e.keys, e.nodes, e.size = e.keys[:nodes], e.nodes[:nodes], size
		clear(e.open)
		return nil, err
	}
	e.size += int64(len(b))
	return b, nil
}

func (e *encoder) value(v starlark.Value, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nests deeper than %d levels", maxNesting)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return []byte("null"), nil
	case starlark.Bool:
		return strconv.AppendBool(nil, bool(v)), nil
	case starlark.Int:
		if intBits(v) > maxIntBits {
			return nil, errors.New("holds an integer that is too large")
		}
		return []byte(v.String()), nil
	case starlark.Float:
		return fmt.Appendf(nil, `{"f":%q}`, strconv.FormatFloat(float64(v), 'g', -1, 64)), nil
	case starlark.Bytes:
		if int64(len(v)) > e.limit {
			return nil, errTooLarge
		}
		return fmt.Appendf(nil, `{"b":%q}`, base64.StdEncoding.EncodeToString([]byte(v))), nil
	case starlark.String:
		switch s := string(v); {
		case int64(len(s)) > e.limit:
			return nil, errTooLarge
		case !utf8.ValidString(s):
			return fmt.Appendf(nil, `{"u":%q}`, base64.StdEncoding.EncodeToString([]byte(s))), nil
		case len(s) < longText:
			return appendText(nil, s)
		default:
			return e.node(s, func() ([]byte, error) {
				b, err := appendText([]byte(`{"str":`), s)
				return append(b, '}'), err
			})
		}
	case handle:
		return v.MarshalJSON()
	case starlark.Tuple:
		if len(v) == 0 {
			return []byte(`{"t":[]}`), nil
		}
		return e.node(elements{&v[0], len(v)}, func() ([]byte, error) { return e.list("tuple", v, depth) })
	case *starlark.List:
		return e.node(v, func() ([]byte, error) { return e.list("list", v, depth) })
	case *starlark.Set:
		return e.node(v, func() ([]byte, error) { return e.list("set", v, depth) })
	case *starlark.Dict:
		return e.node(v, func() ([]byte, error) {
			b := []byte(`{"dict":[`)
			for key, value := range v.Entries() {
				if len(b) > len(`{"dict":[`) {
					b = append(b, ',')
				}
				k, err := e.value(key, depth+1)
				if err != nil {
					return nil, err
				}
				if holdsFunction(key, 0) {
					return nil, errors.New("holds a function as a key")
				}
				x, err := e.value(value, depth+1)
				if err != nil {
					return nil, err
				}
				b = append(append(append(append(append(b, '['), k...), ','), x...), ']')
				if e.size+int64(len(b)) > e.limit {
					return nil, errTooLarge
				}
			}
			return append(b, "]}"...), nil
		})
	case *outcome:
		return e.node(v, func() ([]byte, error) {
			b := strconv.AppendBool([]byte(`{"outcome":[`), v.ok)
			x, err := e.value(v.value, depth+1)
			if err != nil {
				return nil, err
			}
			message, err := appendText(nil, v.message)
			return append(append(append(append(append(b, ','), x...), ','), message...), "]}"...), err
		})
	case *starlark.Function:
		return e.node(v, func() ([]byte, error) { return e.function(v, depth) })
	}
	if v.Type() == "range" {
		return encodeRange(v)
	}
	switch v.Type() {
	case "builtin_function_or_method":
		return nil, errors.New("holds a function that is always there; use its name")
	case "module":
		return nil, errors.New("holds a module; use its name")
	}
	return nil, fmt.Errorf("holds a %s", v.Type())
}

// node returns the reference of a shared value. The first call builds its node.
func (e *encoder) node(key any, build func() ([]byte, error)) ([]byte, error) {
	i, known := e.index[key]
	if !known {
		i = len(e.nodes)
		e.index[key] = i
		e.keys = append(e.keys, key)
		e.nodes = append(e.nodes, nil)
		b, err := build()
		if err != nil {
			return nil, err
		}
		e.nodes[i] = b
		if e.size += int64(len(b)) + 1; e.size > e.limit {
			return nil, errTooLarge
		}
	} else if e.open[i] {
		return nil, errors.New("holds a function that closes over itself")
	}
	return fmt.Appendf(nil, `{"r":%d}`, i), nil
}

func (e *encoder) list(kind string, seq starlark.Iterable, depth int) ([]byte, error) {
	b := fmt.Appendf(nil, `{%q:[`, kind)
	empty := len(b)
	for elem := range starlark.Elements(seq) {
		if len(b) > empty {
			b = append(b, ',')
		}
		x, err := e.value(elem, depth+1)
		if err != nil {
			return nil, err
		}
		if kind == "set" && holdsFunction(elem, 0) {
			return nil, errors.New("holds a function as a key")
		}
		if b = append(b, x...); e.size+int64(len(b)) > e.limit {
			return nil, errTooLarge
		}
	}
	return append(b, "]}"...), nil
}

// holdsFunction reports whether a key has a function in it. The encoder has accepted the key.
func holdsFunction(v starlark.Value, depth int) bool {
	switch v := v.(type) {
	case *starlark.Function:
		return true
	case starlark.Tuple:
		return depth > maxNesting || slices.ContainsFunc(v, func(elem starlark.Value) bool { return holdsFunction(elem, depth+1) })
	}
	return false
}

func (e *encoder) function(fn *starlark.Function, depth int) ([]byte, error) {
	wire, ok := e.source(fn)
	if !ok {
		return nil, fmt.Errorf("holds the function %s, whose source is unknown", fn.Name())
	}
	at := e.index[fn]
	e.open[at] = true
	defer delete(e.open, at)
	// A list may hold the function that it belongs to: lists are filled last.
	// What the function has directly must be there before it is.
	bind := func(list *[]wireBinding, name string, v starlark.Value) error {
		open := e.open
		if _, direct := v.(*starlark.Function); !direct && v != nil {
			e.open = make(map[int]bool)
		}
		defer func() { e.open = open }()
		if v == nil {
			return errors.New("holds a function that closes over a variable without value")
		}
		x, err := e.value(v, depth+1)
		*list = append(*list, wireBinding{Name: name, Value: x})
		return err
	}
	for i := range fn.NumParams() {
		if v := fn.ParamDefault(i); v != nil {
			name, _ := fn.Param(i)
			if err := bind(&wire.Defaults, name, v); err != nil {
				return nil, err
			}
		}
	}
	for i := range fn.NumFreeVars() {
		binding, v := fn.FreeVar(i)
		if err := bind(&wire.Free, binding.Name, v); err != nil {
			return nil, err
		}
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(wire); err != nil {
		return nil, err
	}
	return []byte(`{"fn":` + strings.TrimSpace(b.String()) + `}`), nil
}

// maxRange limits the ends of a saved range, to avoid overflow.
const maxRange = 1 << 60

func encodeRange(v starlark.Value) ([]byte, error) {
	r := v.(starlark.Indexable)
	n := int64(r.Len())
	at := func(i int64) int64 {
		x, _ := r.Index(int(i)).(starlark.Int).Int64()
		return x
	}
	var start, stop, step int64 = 0, 0, 1
	switch {
	case n == 1:
		start, stop = at(0), at(0)+1
	case n > 1:
		start, step = at(0), at(1)-at(0)
		stop = at(n-1) + max(min(step, 1), -1)
		if n > maxRange || (stop-start)/step > n || (stop-start > 0) != (step > 0) {
			return nil, errors.New("holds a range that is too large")
		}
	}
	for _, x := range []int64{start, stop, step} {
		if x > maxRange || x < -maxRange {
			return nil, errors.New("holds a range that is too large")
		}
	}
	return fmt.Appendf(nil, `{"range":[%d,%d,%d]}`, start, stop, step), nil
}

// finish encodes the state. names are sorted.
func (e *encoder) finish(names []string, values [][]byte) []byte {
	b := fmt.Appendf(nil, `{"v":%d,"vars":{`, stateVersion)
	for i, name := range names {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = appendText(b, name) // an identifier
		b = append(append(b, ':'), values[i]...)
	}
	b = append(b, `},"heap":[`...)
	for i, node := range e.nodes {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, node...)
	}
	return append(b, "]}"...)
}
