package sandbox

import (
	"iter"
	"unicode/utf8"

	"go.starlark.net/starlark"
)

// crowded is the number of keys with one place in a table that cost only their step. Keys that do not collide by
// design stay far below.
const crowded = 64

// table charges for the keys of a table that is made in one step, after key: keys with the same place are compared
// with each other. All
// numbers between zero and one, for example, have the same hash. Duplicates count once if that is cheap to find.
func (m *meter) table(keys iter.Seq[starlark.Value]) error {
	var hashes []uint32
	seen := make(map[uint32][]starlark.Value)
	for key := range keys {
		if m.stopped != nil {
			return m.stopped
		}
		hash, err := key.Hash()
		if err != nil {
			continue // the operation itself reports the error
		}
		if alike := seen[hash]; len(alike) < crowded {
			same, err := among(key, alike)
			if err != nil || same {
				continue
			}
			seen[hash] = append(alike, key)
		}
		hashes = append(hashes, hash)
	}
	return m.spend(collisions(hashes))
}

// compared charges for the lookup of each key of a table in another table with the same keys.
func (m *meter) compared(of starlark.Value) error {
	if starlark.Len(of) <= crowded {
		return nil
	}
	return m.table(elementsOf(of))
}

func among(key starlark.Value, list []starlark.Value) (bool, error) {
	for _, other := range list {
		if same, err := starlark.Equal(key, other); same || err != nil {
			return same, err
		}
	}
	return false, nil
}

// collisions is the cost in steps of inserting colliding keys, at each size of the growing table.
func collisions(hashes []uint32) (steps int64) {
	const load = 6 // keys a place before the table grows, about
	for places := 1; ; places <<= 1 {
		filled := hashes[:min(len(hashes), load*places+crowded)]
		counts := make([]int64, places)
		for _, hash := range filled {
			counts[hash&uint32(places-1)]++ //nolint:gosec // a power of two below the number of keys
		}
		for _, n := range counts {
			if n > 2*crowded {
				steps = plus(steps, n*n/16)
			}
		}
		if len(filled) == len(hashes) {
			return steps
		}
	}
}

// bytesOf is the bytes that are read when a value that does not nest is hashed or compared.
func bytesOf(v starlark.Value) int64 {
	switch v := v.(type) {
	case starlark.String:
		return int64(len(v))
	case starlark.Bytes:
		return int64(len(v))
	case starlark.Int:
		return intBits(v) / 8
	}
	return 0
}

// search charges for the comparison of a value with each element of a list.
func (m *meter) search(x, list starlark.Value) error {
	if err := m.spend(int64(starlark.Len(list))); err != nil || bytesOf(x) <= crowded {
		return err
	}
	for elem := range starlark.Elements(list.(starlark.Iterable)) {
		if err := m.spend(min(bytesOf(x), bytesOf(elem)) / 64); err != nil {
			return err
		}
	}
	return nil
}

// trim charges for the lookup of each character among others; for ASCII there is a table.
func (m *meter) trim(s, among string) error {
	for i := range len(among) {
		if among[i] >= utf8.RuneSelf {
			return m.spend(times(int64(len(s)), int64(len(among))) / 64)
		}
	}
	return nil
}

// affixes charges for the comparison of a text with possible prefixes or suffixes.
func (m *meter) affixes(s string, args starlark.Tuple) error {
	if len(args) == 0 {
		return nil
	}
	list, ok := args[0].(starlark.Tuple)
	if !ok {
		return nil
	}
	for _, affix := range list {
		if err := m.spend(1 + min(int64(len(s)), bytesOf(affix))/64); err != nil {
			return err
		}
	}
	return nil
}

// hashed is each for tables, whose elements are hashed.
func hashed(m *meter, receiver starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
	for _, arg := range args {
		if err := m.key(arg); err != nil {
			return err
		}
		if err := m.keys(arg); err != nil {
			return err
		}
		if err := m.pairs(nil, arg); err != nil {
			return err
		}
	}
	tables := make([]starlark.Value, 0, 1+len(args))
	if receiver != nil {
		tables = append(tables, receiver)
	}
	if err := m.table(elementsOf(append(tables, args...)...)); err != nil {
		return err
	}
	if receiver != nil { // set methods return a new set
		if err := m.spread(receiver, 130); err != nil {
			return err
		}
	}
	return each(130)(m, receiver, args, kwargs)
}

// elementsOf returns the elements of all iterable values.
func elementsOf(values ...starlark.Value) iter.Seq[starlark.Value] {
	return func(yield func(starlark.Value) bool) {
		for _, v := range values {
			if list, ok := v.(starlark.Iterable); ok {
				for elem := range starlark.Elements(list) {
					if !yield(elem) {
						return
					}
				}
			}
		}
	}
}

// pairs is keys for the arguments of dict and update: the first elements are the keys, which are added to those of
// the dict to, if any.
func (m *meter) pairs(to, v starlark.Value) error {
	list, ok := v.(starlark.Iterable)
	if _, dict := v.(*starlark.Dict); dict || !ok {
		return nil
	}
	var err error
	firsts := func(yield func(starlark.Value) bool) {
		for elem := range elementsOf(to) {
			if !yield(elem) {
				return
			}
		}
		for elem := range starlark.Elements(list) {
			pair, ok := elem.(starlark.Indexable)
			if !ok || pair.Len() == 0 {
				continue
			}
			first := pair.Index(0)
			if err = m.key(first); err != nil || !yield(first) {
				return
			}
		}
	}
	if tooMuch := m.table(firsts); tooMuch != nil {
		return tooMuch
	}
	return err
}
