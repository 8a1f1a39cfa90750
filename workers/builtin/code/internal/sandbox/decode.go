package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"go.starlark.net/starlark"
)

// decoder restores a state in three steps: it creates the containers, then the functions, which may refer to
// containers, and then fills the
// containers, which may have functions as elements.
type decoder struct {
	wire wireState
	heap []starlark.Value // nil for a function that does not exist yet
}

func decodeState(data []byte) (*decoder, error) {
	d := new(decoder)
	if len(data) == 0 {
		return d, nil
	}
	if err := json.Unmarshal(data, &d.wire); err != nil {
		return nil, err
	}
	if d.wire.Version != stateVersion {
		return nil, fmt.Errorf("version %d is not known", d.wire.Version)
	}
	d.heap = make([]starlark.Value, len(d.wire.Heap))
	for i, node := range d.wire.Heap {
		switch {
		case node.List != nil:
			d.heap[i] = starlark.NewList(nil)
		case node.Tuple != nil:
			if len(*node.Tuple) == 0 {
				return nil, fmt.Errorf("node %d: an empty tuple", i)
			}
			d.heap[i] = make(starlark.Tuple, len(*node.Tuple))
		case node.Set != nil:
			d.heap[i] = new(starlark.Set)
		case node.Dict != nil:
			d.heap[i] = new(starlark.Dict)
		case node.Str != nil:
			d.heap[i] = starlark.String(*node.Str)
		case node.Outcome != nil:
			d.heap[i] = new(outcome)
		case node.Fn == nil:
			return nil, fmt.Errorf("node %d: of no known kind", i)
		}
	}
	return d, nil
}

func (d *decoder) names() []string {
	return slices.Sorted(maps.Keys(d.wire.Vars))
}

// value decodes one value. It returns nil for a function that does not exist yet.
func (d *decoder) value(data wireValue) (starlark.Value, error) {
	if len(data) == 0 {
		return nil, errors.New("a value is missing")
	}
	switch c := data[0]; {
	case c == '{':
		return d.special(data)
	case c == '"':
		var s string
		err := json.Unmarshal(data, &s)
		return starlark.String(s), err
	case c == '-' || c >= '0' && c <= '9':
		if len(data) > maxIntDigits {
			return nil, errors.New("an integer is too large")
		}
		i, ok := new(big.Int).SetString(string(data), 10)
		if !ok {
			return nil, fmt.Errorf("%.20s is no integer", data)
		}
		return starlark.MakeBigInt(i), nil
	}
	switch string(data) {
	case "null":
		return starlark.None, nil
	case "true":
		return starlark.True, nil
	case "false":
		return starlark.False, nil
	}
	return nil, fmt.Errorf("%.20s is no value", data)
}

func (d *decoder) special(data wireValue) (starlark.Value, error) {
	var s wireSpecial
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, err
	}
	switch {
	case s.Ref != nil:
		if *s.Ref < 0 || *s.Ref >= len(d.heap) {
			return nil, fmt.Errorf("node %d does not exist", *s.Ref)
		}
		return d.heap[*s.Ref], nil
	case s.Float != nil:
		f, err := strconv.ParseFloat(*s.Float, 64)
		return starlark.Float(f), err
	case s.Bytes != nil:
		return starlark.Bytes(*s.Bytes), nil
	case s.Raw != nil:
		return starlark.String(*s.Raw), nil
	case s.Handle != nil:
		return handle{id: s.ID, tool: s.Tool}, nil
	case s.Empty != nil:
		return starlark.Tuple{}, nil
	case s.Range != nil:
		for _, n := range s.Range {
			if n > maxRange || n < -maxRange {
				return nil, errors.New("a range is too large")
			}
		}
		args := starlark.Tuple{starlark.MakeInt(s.Range[0]), starlark.MakeInt(s.Range[1]), starlark.MakeInt(s.Range[2])}
		return starlark.Call(new(starlark.Thread), starlark.Universe["range"], args, nil)
	}
	return nil, fmt.Errorf("%.40s is no value", data)
}

// fill fills the containers after all functions exist. Tuples are first, because they may be keys.
func (d *decoder) fill(m *meter) error {
	need := func(data wireValue) (starlark.Value, error) {
		v, err := d.value(data)
		if err == nil && v == nil {
			err = errors.New("a function is missing")
		}
		return v, err
	}
	for i, node := range d.wire.Heap {
		switch v := d.heap[i].(type) {
		case starlark.Tuple:
			for j, data := range *node.Tuple {
				elem, err := need(data)
				if err != nil {
					return err
				}
				v[j] = elem
			}
		case *starlark.List:
			for _, data := range *node.List {
				elem, err := need(data)
				if err != nil {
					return err
				}
				if err := v.Append(elem); err != nil {
					return err
				}
			}
		case *outcome:
			value, err := need(node.Outcome[1])
			if err != nil {
				return err
			}
			v.ok, v.value = string(node.Outcome[0]) == "true", value
			if err := json.Unmarshal(node.Outcome[2], &v.message); err != nil {
				return err
			}
		}
	}
	for i, node := range d.wire.Heap {
		switch v := d.heap[i].(type) {
		case *starlark.Set:
			for _, data := range *node.Set {
				elem, err := need(data)
				if err != nil {
					return err
				}
				if err := m.key(elem); err != nil {
					return err
				}
				if err := v.Insert(elem); err != nil {
					return err
				}
			}
		case *starlark.Dict:
			for _, pair := range *node.Dict {
				key, err := need(pair[0])
				if err != nil {
					return err
				}
				value, err := need(pair[1])
				if err != nil {
					return err
				}
				if err := m.key(key); err != nil {
					return err
				}
				if err := v.SetKey(key, value); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// Names lists the variables of a state, sorted. The error is that of a state that cannot be decoded.
func Names(state []byte) ([]string, error) {
	d, err := decodeState(state)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	return d.names(), nil
}

// Handles lists the ids of the started tools in a state, sorted and unique. The error is that of a state that cannot
// be decoded.
func Handles(state []byte) ([]string, error) {
	d, err := decodeState(state)
	if err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	var ids []string
	visit := func(values ...wireValue) {
		for _, data := range values {
			var s wireSpecial
			if len(data) > 0 && data[0] == '{' && json.Unmarshal(data, &s) == nil && s.Handle != nil {
				ids = append(ids, s.ID)
			}
		}
	}
	for _, data := range d.wire.Vars {
		visit(data)
	}
	for _, node := range d.wire.Heap {
		for _, list := range []*[]wireValue{node.List, node.Tuple, node.Set} {
			if list != nil {
				visit(*list...)
			}
		}
		if node.Dict != nil {
			for _, pair := range *node.Dict {
				visit(pair[:]...)
			}
		}
		if node.Outcome != nil {
			visit(node.Outcome[1])
		}
		if node.Fn != nil {
			for _, b := range node.Fn.Defaults {
				visit(b.Value)
			}
			for _, b := range node.Fn.Free {
				visit(b.Value)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
