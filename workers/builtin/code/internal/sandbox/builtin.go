package sandbox

import (
	"fmt"
	"math/bits"
	"slices"
	"strings"

	starlarkjson "go.starlark.net/lib/json"
	starlarkmath "go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// check guards one call of a library function: it charges the cost of the call, and rejects a call that could not be
// interrupted.
type check func(m *meter, receiver starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error

// library is the interpreter's own functions, json and math, with guards.
func (m *meter) library() starlark.StringDict {
	env := make(starlark.StringDict)
	for name, v := range starlark.Universe {
		if b, ok := v.(*starlark.Builtin); ok {
			env[name] = m.guarded(b, functionCheck(name))
			continue
		}
		env[name] = v
	}
	env["getattr"] = starlark.NewBuiltin("getattr", m.getattr)
	env["math"] = starlarkmath.Module
	members := make(starlark.StringDict)
	for name, v := range starlarkjson.Module.Members {
		members[name] = m.guarded(v.(*starlark.Builtin), jsonCheck(name))
	}
	env["json"] = &starlarkstruct.Module{Name: "json", Members: members}
	return env
}

func (m *meter) guarded(b *starlark.Builtin, guard check) *starlark.Builtin {
	if guard == nil {
		return b
	}
	wrapped := starlark.NewBuiltin(b.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		if err := guard(m, b.Receiver(), args, kwargs); err != nil {
			return nil, err
		}
		return b.CallInternal(thread, args, m.guardedKeys(kwargs))
	})
	if b.Receiver() != nil {
		return wrapped.BindReceiver(b.Receiver())
	}
	return wrapped
}

// guardedKeys limits the comparisons of the results of a key function: max, min and sorted compare them without a
// guard.
func (m *meter) guardedKeys(kwargs []starlark.Tuple) []starlark.Tuple {
	i := slices.IndexFunc(kwargs, func(kw starlark.Tuple) bool { return kw[0] == starlark.String("key") })
	if i < 0 {
		return kwargs
	}
	key, ok := kwargs[i][1].(starlark.Callable)
	if !ok {
		return kwargs
	}
	kwargs = slices.Clone(kwargs)
	kwargs[i] = starlark.Tuple{kwargs[i][0], starlark.NewBuiltin(key.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(thread, key, args, nil)
		if err != nil {
			return nil, err
		}
		if scalar(v) {
			return v, m.spend(times(bytesOf(v)/64, 24))
		}
		w, err := m.weigh(v)
		if err == nil {
			err = m.spend(times(w.nodes, 24))
		}
		return v, err
	})}
	return kwargs
}

// attr is x.name. Methods have guards.
func (m *meter) attr(x starlark.Value, name string) (starlark.Value, error) {
	has, ok := x.(starlark.HasAttrs)
	if !ok {
		return nil, fmt.Errorf("%s has no .%s", x.Type(), name)
	}
	v, err := has.Attr(name)
	if err != nil {
		return nil, err
	}
	if v == nil {
		if _, dict := x.(*starlark.Dict); dict {
			return nil, fmt.Errorf("dict has no .%s; for a key write [%q]", name, name)
		}
		return nil, fmt.Errorf("%s has no .%s; it has %s", x.Type(), name, strings.Join(has.AttrNames(), ", "))
	}
	if b, ok := v.(*starlark.Builtin); ok && b.Receiver() != nil {
		return m.guarded(b, methodCheck(b.Receiver(), name)), nil
	}
	return v, nil
}

func (m *meter) getattr(_ *starlark.Thread, b *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var object, def starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs(b.Name(), args, kwargs, 2, &object, &name, &def); err != nil {
		return nil, err
	}
	v, err := m.attr(object, name)
	if err != nil && def != nil {
		return def, nil
	}
	return v, err
}

// each charges one step and size bytes per element of every argument.
func each(size int64) check {
	return func(m *meter, _ starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
		for _, arg := range args {
			if err := m.spreadOf(arg, size); err != nil {
				return err
			}
		}
		for _, kw := range kwargs {
			if err := m.spreadOf(kw[1], size); err != nil {
				return err
			}
		}
		return nil
	}
}

func (m *meter) spreadOf(v starlark.Value, size int64) error {
	if _, ok := v.(starlark.Iterable); !ok {
		return nil // the function itself reports the error
	}
	return m.spread(v, size)
}

// written charges for the texts of all arguments.
func written(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	var bytes int64
	for _, arg := range args {
		switch arg := arg.(type) {
		case starlark.String:
			bytes += int64(len(arg))
		case starlark.Bytes:
			bytes += 3 * int64(len(arg))
		default:
			w, err := m.weigh(arg)
			if err != nil {
				return err
			}
			bytes = plus(bytes, w.bytes)
		}
	}
	return m.alloc(bytes)
}

// ordered charges for comparing elements with each other.
func ordered(sorted bool) check {
	return func(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
		var of starlark.Value = args
		if len(args) == 0 {
			return nil
		}
		if len(args) == 1 || sorted {
			of = args[0]
		}
		n, err := m.count(of)
		if err != nil {
			return err
		}
		work := int64(1)
		if sorted {
			work = int64(bits.Len64(uint64(n)))
			if err := m.alloc(times(n, 2*machineWordBytes)); err != nil {
				return err
			}
		}
		if err := m.spend(times(n, work)); err != nil {
			return err
		}
		iter := starlark.Iterate(of)
		if iter == nil {
			return nil
		}
		defer iter.Done()
		var elem starlark.Value
		for iter.Next(&elem) {
			if scalar(elem) {
				if err := m.spend(times(bytesOf(elem)/64, work)); err != nil {
					return err
				}
				continue
			}
			w, err := m.weigh(elem)
			if err != nil {
				return err
			}
			if err := m.spend(times(w.nodes, work)); err != nil {
				return err
			}
		}
		return nil
	}
}

func functionCheck(name string) check {
	switch name {
	case "any", "all":
		return each(0)
	case "max", "min":
		return ordered(false)
	case "sorted":
		return ordered(true)
	case "list", "tuple", "reversed", "bytes":
		return each(3 * machineWordBytes)
	case "enumerate":
		return each(5 * machineWordBytes)
	case "zip":
		return func(m *meter, receiver starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
			rows := int64(-1)
			for _, arg := range args {
				n, err := m.count(arg)
				if err != nil {
					return err
				}
				if rows < 0 || n < rows {
					rows = n
				}
			}
			cells := times(max(rows, 0), int64(len(args))+3)
			if err := m.spend(cells); err != nil {
				return err
			}
			return m.alloc(times(cells, 3*machineWordBytes))
		}
	case "set", "dict":
		return hashed
	case "str", "repr", "print", "fail":
		return written
	case "int":
		return func(_ *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
			if len(args) > 0 {
				if s, ok := args[0].(starlark.String); ok && len(s) > maxIntDigits {
					return errInt()
				}
			}
			return nil
		}
	case "hash", "float":
		return func(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
			if len(args) == 1 {
				return m.spend(flat(args[0]) / 64)
			}
			return nil
		}
	}
	return nil // abs, bool, chr, dir, hasattr, len, ord, range, type
}

func methodCheck(receiver starlark.Value, name string) check {
	switch receiver.(type) {
	case starlark.String:
		return stringCheck(name)
	case *starlark.List:
		switch name {
		case "extend":
			return each(3 * machineWordBytes)
		case "index", "remove":
			return func(m *meter, receiver starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
				if len(args) == 0 {
					return nil
				}
				return m.contains(args[0], receiver)
			}
		case "insert", "pop":
			return func(m *meter, receiver starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
				return m.spend(int64(starlark.Len(receiver)) / 64)
			}
		}
	case *starlark.Dict:
		switch name {
		case "items", "keys", "values":
			return func(m *meter, receiver starlark.Value, _ starlark.Tuple, _ []starlark.Tuple) error {
				return m.spread(receiver, 5*machineWordBytes)
			}
		case "update":
			return func(m *meter, receiver starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
				for _, arg := range args {
					if err := m.pairs(receiver, arg); err != nil {
						return err
					}
				}
				return hashed(m, nil, args, kwargs)
			}
		case "get", "pop", "setdefault":
			return firstKey
		}
	case *starlark.Set:
		switch name {
		case "add", "discard", "remove":
			return firstKey
		case "clear", "pop":
			return nil
		}
		return hashed
	}
	return nil
}

func firstKey(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	return m.key(args[0])
}

// text is the i-th argument if it is a text, else "".
func text(args starlark.Tuple, i int) string {
	if i >= len(args) {
		return ""
	}
	s, _ := starlark.AsString(args[i])
	return s
}
