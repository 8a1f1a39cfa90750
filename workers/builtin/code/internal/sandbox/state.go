package sandbox

import (
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
// {"range":[..]} the arguments of range, {"__handle__":"task","id":..,"tool":..},
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
	List    *[]wireValue    `json:"list,omitempty"`
	Tuple   *[]wireValue    `json:"tuple,omitempty"`
	Set     *[]wireValue    `json:"set,omitempty"`
	Dict    *[][2]wireValue `json:"dict,omitempty"`
	Str     *string         `json:"str,omitempty"`
	Outcome *[3]wireValue   `json:"outcome,omitempty"`
	Fn      *wireFunction   `json:"fn,omitempty"`
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
	Float  *string      `json:"f,omitempty"`
	Bytes  *[]byte      `json:"b,omitempty"`
	Raw    *[]byte      `json:"u,omitempty"`
	Range  *[]int64     `json:"range,omitempty"`
	Handle *string      `json:"__handle__,omitempty"`
	ID     string       `json:"id,omitempty"`
	Tool   string       `json:"tool,omitempty"`
	Empty  *[]wireValue `json:"t,omitempty"`
	Ref    *int         `json:"r,omitempty"`
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
	vars   map[string]wireValue
	nodes  []wireNode
	open   map[int]bool // functions whose node is being built
}

// elements identifies the elements of a tuple: tuples have no identity.
type elements struct {
	first *starlark.Value
	n     int
}

func newEncoder(limit int64, source func(*starlark.Function) (wireFunction, bool)) *encoder {
	return &encoder{limit: limit - 64, source: source, index: make(map[any]int), vars: make(map[string]wireValue), open: make(map[int]bool)}
}

func (e *encoder) add(name string, v starlark.Value) error {
	nodes, size := len(e.nodes), int64(0)
	encoded, err := e.value(v, 0)
	if err == nil {
		var added []byte
		added, err = json.Marshal(e.nodes[nodes:])
		if size = int64(len(name) + 4 + len(encoded) + len(added)); size > e.limit-e.size {
			err = errTooLarge
		}
	}
	if err != nil {
		for _, key := range e.keys[nodes:] {
			delete(e.index, key)
		}
		e.keys, e.nodes = e.keys[:nodes], e.nodes[:nodes]
		clear(e.open)
		return err
	}
	e.vars[name] = encoded
	e.size += size
	return nil
}

func (e *encoder) value(v starlark.Value, depth int) (wireValue, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("nests deeper than %d levels", maxNesting)
	}
	switch v := v.(type) {
	case starlark.NoneType:
		return wireValue("null"), nil
	case starlark.Bool:
		return json.Marshal(bool(v))
	case starlark.Int:
		return wireValue(v.String()), nil
	case starlark.Float:
		text := strconv.FormatFloat(float64(v), 'g', -1, 64)
		return json.Marshal(wireSpecial{Float: &text})
	case starlark.Bytes:
		data := []byte(v)
		return json.Marshal(wireSpecial{Bytes: &data})
	case starlark.String:
		text := strings.ReplaceAll(string(v), mark, "") // in what str gives for a restored function
		if !utf8.ValidString(text) {
			data := []byte(text)
			return json.Marshal(wireSpecial{Raw: &data})
		}
		if len(text) < longText {
			return json.Marshal(text)
		}
		return e.node(text, func(n *wireNode) error { n.Str = &text; return nil })
	case handle:
		return v.MarshalJSON()
	case starlark.Tuple:
		if len(v) == 0 {
			return wireValue(`{"t":[]}`), nil
		}
		return e.node(elements{&v[0], len(v)}, func(n *wireNode) error { return e.list(&n.Tuple, v, depth) })
	case *starlark.List:
		return e.node(v, func(n *wireNode) error { return e.list(&n.List, v, depth) })
	case *starlark.Set:
		return e.node(v, func(n *wireNode) error {
			if slices.ContainsFunc(slices.Collect(v.Elements()), func(elem starlark.Value) bool { return holdsFunction(elem, depth) }) {
				return errors.New("holds a function as a key")
			}
			return e.list(&n.Set, v, depth)
		})
	case *starlark.Dict:
		return e.node(v, func(n *wireNode) error { return e.dict(n, v, depth) })
	case *outcome:
		return e.node(v, func(n *wireNode) error {
			var list *[]wireValue
			err := e.list(&list, starlark.Tuple{starlark.Bool(v.ok), v.value, starlark.None}, depth)
			if err != nil {
				return err
			}
			n.Outcome = (*[3]wireValue)(*list)
			n.Outcome[2], err = json.Marshal(v.message)
			return err
		})
	case *starlark.Function:
		return e.node(v, func(n *wireNode) error { return e.function(n, v, depth) })
	}
	switch v.Type() {
	case "range":
		args := strings.TrimSuffix(strings.TrimPrefix(v.String(), "range("), ")")
		return wireValue(`{"range":[` + strings.ReplaceAll(args, " ", "") + `]}`), nil
	case "builtin_function_or_method":
		return nil, errors.New("holds a function that is always there; use its name")
	case "module":
		return nil, errors.New("holds a module; use its name")
	}
	return nil, fmt.Errorf("holds a %s", v.Type())
}

// node returns the reference of a shared value. The first call builds its node.
func (e *encoder) node(key any, build func(n *wireNode) error) (wireValue, error) {
	i, known := e.index[key]
	switch {
	case !known:
		i = len(e.nodes)
		e.index[key] = i
		e.keys = append(e.keys, key)
		e.nodes = append(e.nodes, wireNode{})
		var n wireNode
		if err := build(&n); err != nil {
			return nil, err
		}
		e.nodes[i] = n
	case e.open[i]:
		return nil, errors.New("holds a function that closes over itself")
	}
	return json.Marshal(wireSpecial{Ref: &i})
}

func (e *encoder) list(to **[]wireValue, seq starlark.Iterable, depth int) error {
	list := []wireValue{}
	for elem := range starlark.Elements(seq) {
		x, err := e.value(elem, depth+1)
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	*to = &list
	return nil
}

func (e *encoder) dict(n *wireNode, v *starlark.Dict, depth int) error {
	pairs := [][2]wireValue{}
	for key, value := range v.Entries() {
		if holdsFunction(key, depth) {
			return errors.New("holds a function as a key")
		}
		var pair *[]wireValue
		if err := e.list(&pair, starlark.Tuple{key, value}, depth); err != nil {
			return err
		}
		pairs = append(pairs, [2]wireValue(*pair))
	}
	n.Dict = &pairs
	return nil
}

// holdsFunction reports whether a key has a function in it.
func holdsFunction(v starlark.Value, depth int) bool {
	if t, ok := v.(starlark.Tuple); ok {
		return depth <= maxNesting && slices.ContainsFunc(t, func(elem starlark.Value) bool { return holdsFunction(elem, depth+1) })
	}
	_, ok := v.(*starlark.Function)
	return ok
}

func (e *encoder) function(n *wireNode, fn *starlark.Function, depth int) error {
	wire, ok := e.source(fn)
	if !ok {
		return fmt.Errorf("holds the function %s, whose source is unknown", fn.Name())
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
				return err
			}
		}
	}
	for i := range fn.NumFreeVars() {
		binding, v := fn.FreeVar(i)
		if err := bind(&wire.Free, binding.Name, v); err != nil {
			return err
		}
	}
	n.Fn = &wire
	return nil
}

// finish encodes the state.
func (e *encoder) finish() ([]byte, error) {
	return json.Marshal(wireState{Version: stateVersion, Vars: e.vars, Heap: append([]wireNode{}, e.nodes...)})
}
