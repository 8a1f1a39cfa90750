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
// containers, and then fills the containers, which may have functions as elements.
type decoder struct {
	wire   wireState
	heap   []starlark.Value // nil for a function that does not exist yet
	broken error            // found while the program ran
}

var errFunction = errors.New("a function is missing")

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
		case node.Tuple != nil && len(*node.Tuple) > 0:
			d.heap[i] = make(starlark.Tuple, len(*node.Tuple))
		case node.Set != nil:
			d.heap[i] = new(starlark.Set)
		case node.Dict != nil:
			d.heap[i] = new(starlark.Dict)
		case node.Str != nil:
			d.heap[i] = starlark.String(*node.Str)
		case node.Outcome != nil:
			d.heap[i] = &outcome{value: starlark.None}
		case node.Fn == nil:
			return nil, fmt.Errorf("node %d: of no known kind", i)
		}
	}
	return d, nil
}

func (d *decoder) names() []string {
	return slices.Sorted(maps.Keys(d.wire.Vars))
}

// value decodes one value. The error is errFunction for a function that does not exist yet, whose node is ref.
func (d *decoder) value(data wireValue) (v starlark.Value, ref int, err error) {
	if i, ok := new(big.Int).SetString(string(data), 10); ok {
		return starlark.MakeBigInt(i), 0, nil
	}
	var plain any
	if err := json.Unmarshal(data, &plain); err != nil {
		return nil, 0, err
	}
	switch x := plain.(type) {
	case nil:
		return starlark.None, 0, nil
	case bool:
		return starlark.Bool(x), 0, nil
	case string:
		return starlark.String(x), 0, nil
	}
	var s wireSpecial
	if err := json.Unmarshal(data, &s); err != nil {
		return nil, 0, err
	}
	switch {
	case s.Ref != nil && *s.Ref >= 0 && *s.Ref < len(d.heap):
		if v = d.heap[*s.Ref]; v == nil {
			err = errFunction
		}
		return v, *s.Ref, err
	case s.Float != nil:
		f, err := strconv.ParseFloat(*s.Float, 64)
		return starlark.Float(f), 0, err
	case s.Bytes != nil:
		return starlark.Bytes(*s.Bytes), 0, nil
	case s.Raw != nil:
		return starlark.String(*s.Raw), 0, nil
	case s.Handle != nil:
		return handle{id: s.ID, tool: s.Tool}, 0, nil
	case s.Empty != nil:
		return starlark.Tuple{}, 0, nil
	case s.Range != nil:
		var args starlark.Tuple
		for _, n := range *s.Range {
			args = append(args, starlark.MakeInt64(n))
		}
		v, err = starlark.Call(new(starlark.Thread), starlark.Universe["range"], args, nil)
		return v, 0, err
	}
	return nil, 0, fmt.Errorf("%.40s is no value", data)
}

func (d *decoder) list(in []wireValue) ([]starlark.Value, error) {
	list := make([]starlark.Value, len(in))
	for i, data := range in {
		var err error
		if list[i], _, err = d.value(data); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// fill fills the containers after all functions exist. Tuples are first, because they may be keys.
func (d *decoder) fill() error {
	inner := make(map[int][]int) // tuples in tuples
	for i, node := range d.wire.Heap {
		v, ok := d.heap[i].(starlark.Tuple)
		if !ok {
			continue
		}
		for j, data := range *node.Tuple {
			elem, ref, err := d.value(data)
			if err != nil {
				return err
			}
			if t, ok := elem.(starlark.Tuple); ok && len(t) > 0 {
				inner[i] = append(inner[i], ref)
			}
			v[j] = elem
		}
	}
	if isCyclic(inner) {
		return errors.New("a tuple is in itself")
	}
	for i, node := range d.wire.Heap {
		var err error
		switch v := d.heap[i].(type) {
		case *starlark.List:
			var list []starlark.Value
			list, err = d.list(*node.List)
			for _, elem := range list {
				err = errors.Join(err, v.Append(elem))
			}
		case *starlark.Set:
			var list []starlark.Value
			list, err = d.list(*node.Set)
			for _, elem := range list {
				err = errors.Join(err, v.Insert(elem))
			}
		case *starlark.Dict:
			for _, pair := range *node.Dict {
				list, listErr := d.list(pair[:])
				if listErr != nil {
					return listErr
				}
				err = errors.Join(err, v.SetKey(list[0], list[1]))
			}
		case *outcome:
			v.ok = string(node.Outcome[0]) == "true"
			v.value, _, err = d.value(node.Outcome[1])
			err = errors.Join(err, json.Unmarshal(node.Outcome[2], &v.message))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// isCyclic reports whether following the edges of a graph has no end.
func isCyclic(edges map[int][]int) bool {
	const under, done = 1, 2
	state := make(map[int]int, len(edges))
	var visit func(int) bool
	visit = func(i int) bool {
		if state[i] != 0 {
			return state[i] == under
		}
		state[i] = under
		if slices.ContainsFunc(edges[i], visit) {
			return true
		}
		state[i] = done
		return false
	}
	for i := range edges {
		if visit(i) {
			return true
		}
	}
	return false
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
	if len(state) == 0 {
		return nil, nil
	}
	var all any
	if err := json.Unmarshal(state, &all); err != nil {
		return nil, fmt.Errorf("read state: %w", err)
	}
	var ids []string
	var visit func(v any)
	visit = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, elem := range v {
				visit(elem)
			}
		case map[string]any:
			if id, ok := v["id"].(string); ok && v["__handle__"] != nil {
				ids = append(ids, id)
			}
			for _, elem := range v {
				visit(elem)
			}
		}
	}
	visit(all)
	slices.Sort(ids)
	return slices.Compact(ids), nil
}
