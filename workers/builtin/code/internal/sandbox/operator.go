package sandbox

import (
	"fmt"
	"math"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// guards are the predeclared functions that rewritten code calls. Guards of operators are called with their operands
// only.
func (m *meter) guards() starlark.StringDict {
	env := make(starlark.StringDict)
	add := func(name string, fn func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error)) {
		env[name] = starlark.NewBuiltin(name, func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
			return fn(thread, args)
		})
	}
	for _, op := range []syntax.Token{
		syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT, syntax.AMP, syntax.PIPE,
		syntax.CIRCUMFLEX, syntax.LTLT, syntax.GTGT, syntax.IN, syntax.NOT_IN,
	} {
		add(op.String(), func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
			return m.binary(op, args[0], args[1])
		})
	}
	for _, op := range []syntax.Token{syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE} {
		add(op.String(), func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
			return m.compare(op, args[0], args[1])
		})
	}
	for op := syntax.PLUS_EQ; op <= syntax.GTGT_EQ; op++ {
		add(op.String(), func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
			return m.augment(thread, op, args[0], args[1])
		})
	}
	add(guardAttr, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return m.attr(args[0], string(args[1].(starlark.String)))
	})
	add(guardKey, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.key(args[0])
	})
	add(guardSlice, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.made(args[0], false)
	})
	add(guardStride, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.made(args[0], true)
	})
	add(guardDict, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.alloc(500 + times(100, int64(max(starlark.Len(args[0]), 0))))
	})
	add(guardArgs, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.spread(args[0], 2*machineWordBytes)
	})
	add(guardKwargs, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		return args[0], m.spread(args[0], 200)
	})
	add(guardRef, func(_ *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		if err := m.key(args[1]); err != nil {
			return nil, err
		}
		old, err := index(args[0], args[1])
		return &element{in: args[0], at: args[1], old: old}, err
	})
	add(guardSet, func(thread *starlark.Thread, args starlark.Tuple) (starlark.Value, error) {
		ref := args[0].(*element)
		op := syntax.PLUS_EQ
		for op.String() != string(args[1].(starlark.String)) {
			op++
		}
		value, err := m.augment(thread, op, ref.old, args[2])
		if err != nil {
			return nil, err
		}
		return starlark.None, setIndex(ref.in, ref.at, value)
	})
	return env
}

// element is x[i] during x[i] += y. The code never sees it.
type element struct {
	starlark.NoneType
	in, at, old starlark.Value
}

func (m *meter) spread(v starlark.Value, each int64) error {
	n, err := m.count(v)
	if err != nil {
		return err
	}
	if err := m.spend(n); err != nil {
		return err
	}
	return m.alloc(times(n, each))
}

// made charges for a copy that is at most as large as its original.
func (m *meter) made(v starlark.Value, text bool) error {
	var n int64
	switch v := v.(type) {
	case *starlark.List:
		n = machineWordBytes*int64(v.Len()) + 48
	case starlark.Tuple:
		n = machineWordBytes*int64(len(v)) + 24
	case starlark.String:
		if text {
			n = int64(len(v))
		}
	case starlark.Bytes:
		if text {
			n = int64(len(v))
		}
	}
	if err := m.spend(n / 256); err != nil {
		return err
	}
	return m.alloc(n)
}

func index(x, y starlark.Value) (starlark.Value, error) {
	switch x := x.(type) {
	case starlark.Mapping:
		v, found, err := x.Get(y)
		if err == nil && !found {
			err = fmt.Errorf("key %v not in %s", y, x.Type())
		}
		return v, err
	case starlark.Indexable:
		i, err := position(x.Type(), x.Len(), y)
		if err != nil {
			return nil, err
		}
		return x.Index(i), nil
	}
	return nil, fmt.Errorf("unhandled index operation %s[%s]", x.Type(), y.Type())
}

func setIndex(x, y, z starlark.Value) error {
	switch x := x.(type) {
	case starlark.HasSetKey:
		return x.SetKey(y, z)
	case starlark.HasSetIndex:
		i, err := position(x.Type(), x.Len(), y)
		if err != nil {
			return err
		}
		return x.SetIndex(i, z)
	}
	return fmt.Errorf("%s value does not support item assignment", x.Type())
}

func position(kind string, n int, y starlark.Value) (int, error) {
	i, err := starlark.AsInt32(y)
	if err != nil {
		return 0, fmt.Errorf("%s index: %w", kind, err)
	}
	at := i
	if at < 0 {
		at += n
	}
	if at < 0 || at >= n {
		return 0, fmt.Errorf("%s index %d out of range: it has %d elements", kind, i, n)
	}
	return at, nil
}

// augment is x op= y; lists and dicts change in place.
func (m *meter) augment(thread *starlark.Thread, op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	var method string
	switch x := x.(type) {
	case *starlark.List:
		if _, iterable := y.(starlark.Iterable); op == syntax.PLUS_EQ && iterable {
			method = "extend"
		}
	case *starlark.Dict:
		if _, dict := y.(*starlark.Dict); op == syntax.PIPE_EQ && dict {
			method = "update"
		}
	default:
		return m.binary(op-syntax.PLUS_EQ+syntax.PLUS, x, y)
	}
	if method == "" {
		return m.binary(op-syntax.PLUS_EQ+syntax.PLUS, x, y)
	}
	fn, err := m.attr(x, method)
	if err != nil {
		return nil, err
	}
	if _, err := starlark.Call(thread, fn, starlark.Tuple{y}, nil); err != nil {
		return nil, err
	}
	return x, nil
}

func (m *meter) binary(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	var err error
	switch op {
	case syntax.PLUS:
		err = m.alloc(plus(flat(x), flat(y)))
	case syntax.STAR:
		err = m.product(x, y)
	case syntax.PERCENT:
		if s, ok := x.(starlark.String); ok {
			var v starlark.Value
			args, many := y.(starlark.Tuple)
			if !many {
				args = starlark.Tuple{y}
			}
			if err = m.format(string(s), '%', args); err == nil {
				if v, err = starlark.Binary(op, x, y); err == nil {
					err = m.alloc(flat(v))
				}
			}
			return v, err
		}
	case syntax.LTLT:
		if i, ok := x.(starlark.Int); ok && intBits(i) > maxIntBits {
			err = errInt()
		}
	case syntax.IN, syntax.NOT_IN:
		err = m.contains(x, y)
	case syntax.MINUS, syntax.PIPE, syntax.AMP, syntax.CIRCUMFLEX: // sets and dicts are copied
		if n := table(x) + table(y); n > 0 {
			if err = m.spend(n); err == nil {
				err = m.alloc(times(n, 130))
			}
			if err == nil {
				err = m.table(elementsOf(x, y))
			}
		}
	default: // numbers only
	}
	if err != nil {
		return nil, err
	}
	return starlark.Binary(op, x, y)
}

func errInt() error { return fmt.Errorf("the integer is too large (limit %d bits)", maxIntBits) }

func table(v starlark.Value) int64 {
	switch v := v.(type) {
	case *starlark.Dict:
		return int64(v.Len()) + 4
	case *starlark.Set:
		return int64(v.Len()) + 4
	}
	return 0
}

// flat is the bytes that + copies of a value.
func flat(v starlark.Value) int64 {
	switch v := v.(type) {
	case starlark.String:
		return int64(len(v))
	case starlark.Bytes:
		return int64(len(v))
	case *starlark.List:
		return machineWordBytes * int64(v.Len())
	case starlark.Tuple:
		return machineWordBytes * int64(len(v))
	case starlark.Int:
		return intBits(v)/8 - 8
	}
	return 0
}

func (m *meter) product(x, y starlark.Value) error {
	xi, xInt := x.(starlark.Int)
	yi, yInt := y.(starlark.Int)
	switch {
	case xInt && yInt:
		if a, b := intBits(xi), intBits(yi); (a > 64 || b > 64) && a+b > maxIntBits {
			return errInt()
		}
		return nil
	case xInt:
		x, yi = y, xi
	case !yInt:
		return nil
	}
	n, ok := yi.Int64()
	if !ok {
		n = math.MaxInt64
	}
	size := times(flat(x), max(n, 0))
	if err := m.spend(size / 256); err != nil {
		return err
	}
	return m.alloc(size)
}

// scalar reports whether the size of a value limits the time of its comparison.
func scalar(v starlark.Value) bool {
	switch v.(type) {
	case *starlark.List, starlark.Tuple, *starlark.Dict, *starlark.Set, *outcome:
		return false
	}
	return true
}

func (m *meter) compare(op syntax.Token, x, y starlark.Value) (starlark.Value, error) {
	if !scalar(x) && !scalar(y) {
		if _, err := m.weigh(x); err != nil {
			return nil, err
		}
		if _, err := m.weigh(y); err != nil {
			return nil, err
		}
	}
	ok, err := starlark.Compare(op, x, y)
	return starlark.Bool(ok), err
}

// contains guards x in y.
func (m *meter) contains(x, y starlark.Value) error {
	switch y := y.(type) {
	case *starlark.Dict, *starlark.Set:
		return m.key(x)
	case starlark.String:
		return m.spend(int64(len(y) / 64))
	case *starlark.List, starlark.Tuple:
		if scalar(x) {
			return m.search(x, y)
		}
		_, err := m.weigh(y)
		return err
	}
	return nil
}

// format guards texts with placeholders, each of which may insert the largest argument.
func (m *meter) format(text string, placeholder byte, args starlark.Tuple) error {
	var largest int64
	for _, arg := range args {
		w, err := m.weigh(arg)
		if err != nil {
			return err
		}
		largest = max(largest, w.bytes)
	}
	n := int64(strings.Count(text, string(placeholder)))
	return m.fits(plus(int64(len(text)), times(n, plus(largest, 32))))
}
