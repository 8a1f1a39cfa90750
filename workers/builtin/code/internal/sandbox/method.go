package sandbox

import (
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

func stringCheck(name string) check {
	return func(m *meter, receiver starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
		s := string(receiver.(starlark.String))
		if err := m.spend(int64(len(s) / 64)); err != nil {
			return err
		}
		pieces := func(n int) error {
			if err := m.spend(int64(n)); err != nil {
				return err
			}
			return m.alloc(times(int64(n), 3*machineWordBytes))
		}
		switch name {
		case "strip", "lstrip", "rstrip":
			return m.trim(s, text(args, 0))
		case "startswith", "endswith":
			return m.affixes(s, args)
		case "capitalize", "lower", "title", "upper":
			return m.alloc(2 * int64(len(s)))
		case "elems", "elem_ords", "codepoints", "codepoint_ords":
			return nil // copied when it is iterated
		case "split", "rsplit":
			if sep := text(args, 0); sep != "" {
				return pieces(strings.Count(s, sep) + 1)
			}
			spaces := 1
			for i := range len(s) {
				if s[i] <= ' ' || s[i] >= 0x80 {
					spaces++
				}
			}
			return pieces(spaces)
		case "splitlines":
			return pieces(strings.Count(s, "\n") + strings.Count(s, "\r") + 1)
		case "replace":
			old := text(args, 0)
			n := int64(strings.Count(s, old))
			if len(args) > 2 {
				if limit, err := starlark.AsInt32(args[2]); err == nil && limit >= 0 {
					n = min(n, int64(limit))
				}
			}
			return m.alloc(plus(int64(len(s)), times(n, int64(len(text(args, 1))))))
		case "join":
			if len(args) != 1 {
				return nil
			}
			iter := starlark.Iterate(args[0])
			if iter == nil {
				return nil
			}
			defer iter.Done()
			var n, bytes int64
			var elem starlark.Value
			for iter.Next(&elem) {
				if err := m.spend(1); err != nil {
					return err
				}
				part, _ := starlark.AsString(elem)
				n, bytes = n+1, plus(bytes, int64(len(part)))
			}
			return m.alloc(plus(bytes, times(n, int64(len(s)))))
		case "format":
			all := slices.Clone(args)
			for _, kw := range kwargs {
				all = append(all, kw[1])
			}
			if err := m.format(s, '{', all); err != nil {
				return err
			}
			return written(m, nil, all, nil)
		}
		return nil
	}
}

func jsonCheck(name string) check {
	switch name {
	case "encode", "encode_indent":
		return func(m *meter, _ starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
			if len(args) == 0 {
				return nil
			}
			w, err := m.weigh(args[0])
			if err != nil {
				return err
			}
			if name == "encode" {
				return m.alloc(times(w.bytes, 2))
			}
			return m.alloc(plus(times(w.bytes, 2), times(w.nodes, indentation(args[1:], kwargs, maxNesting))))
		}
	case "decode":
		return func(m *meter, _ starlark.Value, args starlark.Tuple, _ []starlark.Tuple) error {
			s := text(args, 0)
			depth, nodes := jsonShape(s)
			if depth > maxNesting {
				return fmt.Errorf("the JSON nests deeper than %d levels", maxNesting)
			}
			if longest := longestNumber(s); longest > maxIntDigits {
				return errInt()
			}
			if err := m.spend(nodes); err != nil {
				return err
			}
			if err := m.table(jsonKeys(s)); err != nil {
				return err
			}
			return m.alloc(plus(int64(len(s)), times(nodes, 100)))
		}
	case "indent":
		return func(m *meter, _ starlark.Value, args starlark.Tuple, kwargs []starlark.Tuple) error {
			s := text(args, 0)
			depth, nodes := jsonShape(s)
			if depth > maxNesting {
				return fmt.Errorf("the JSON nests deeper than %d levels", maxNesting)
			}
			return m.alloc(plus(int64(len(s)), times(nodes, indentation(args[min(1, len(args)):], kwargs, depth))))
		}
	}
	return nil
}

// indentation is an upper bound of the text before a line.
func indentation(args starlark.Tuple, kwargs []starlark.Tuple, depth int64) int64 {
	longest := 1
	for i := range args {
		longest = max(longest, len(text(args, i)))
	}
	for _, kw := range kwargs {
		longest = max(longest, len(text(kw, 1)))
	}
	return times(int64(longest), depth+2)
}

// jsonShape is an upper bound of the levels and the values of a JSON text.
func jsonShape(s string) (depth, nodes int64) {
	var open int64
	nodes = 1
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"':
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			open++
			depth, nodes = max(depth, open), nodes+2
		case ']', '}':
			open--
			nodes++
		case ',', ':':
			nodes++
		}
	}
	return depth, nodes
}

// jsonKeys are the texts in a JSON text that may be keys: those before a colon.
func jsonKeys(s string) iter.Seq[starlark.Value] {
	return func(yield func(starlark.Value) bool) {
		for i := 0; i < len(s); i++ {
			if s[i] != '"' {
				continue
			}
			from := i
			for i++; i < len(s) && s[i] != '"'; i++ {
				if s[i] == '\\' {
					i++
				}
			}
			if i >= len(s) {
				return
			}
			var key string
			if rest := strings.TrimLeft(s[i+1:], " \t\r\n"); !strings.HasPrefix(rest, ":") || json.Unmarshal([]byte(s[from:i+1]), &key) != nil {
				continue
			}
			if !yield(starlark.String(key)) {
				return
			}
		}
	}
}

func longestNumber(s string) int {
	longest, n := 0, 0
	for i := range len(s) {
		if s[i] >= '0' && s[i] <= '9' {
			n++
			longest = max(longest, n)
		} else {
			n = 0
		}
	}
	return longest
}
