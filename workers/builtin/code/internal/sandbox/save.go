package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// save encodes the variables of the program. It drops variables without an encoding, and names them in the output.
// Variables that are too
// large together, or too many, are an error.
func (r *run) save(globals starlark.StringDict, before []byte) ([]byte, error) {
	const maxLines = 20
	dropped := 0
	drop := func(name, format string, args ...any) {
		if dropped++; dropped <= maxLines {
			r.out.line("not kept: " + name + ": " + clean(fmt.Sprintf(format, args...)))
		}
	}
	enc := newEncoder(r.limits.StateBytes-64, r.program.source)
	var kept saved
	for _, name := range globals.Keys() {
		if strings.Contains(name, mark) {
			continue
		}
		if r.reserved.Has(name) {
			drop(name, "it is the name of a function that is always there; use another name")
			continue
		}
		if len(kept.names) >= maxVariables {
			return nil, fmt.Errorf("there are more than %d variables%s", maxVariables, asBefore)
		}
		size := enc.size
		enc.size += int64(len(name)) + 4
		b, err := enc.add(globals[name])
		switch {
		case errors.Is(err, errTooLarge):
			return nil, fmt.Errorf("with %s the variables take more than %d bytes%s%s", name, r.limits.StateBytes, kept.largest(), asBefore)
		case err != nil:
			enc.size = size
			drop(name, "%v", err)
		default:
			kept.add(name, b, enc.size-size)
		}
	}
	if dropped > maxLines {
		r.out.line(fmt.Sprintf("not kept: %d more", dropped-maxLines))
	}
	if len(kept.names) == 0 && len(before) == 0 {
		return before, nil
	}
	return enc.finish(kept.names, kept.values), nil
}

// asBefore is the end of the errors about variables that cannot be kept.
const asBefore = "; all variables are as before this program; keep less, set what you no longer need to None, or store it with a tool"

// saved is the variables that are encoded so far.
type saved struct {
	names  []string
	values [][]byte
	sizes  []int64 // without the parts that an earlier variable shares
}

func (s *saved) add(name string, value []byte, size int64) {
	s.names, s.values, s.sizes = append(s.names, name), append(s.values, value), append(s.sizes, size)
}

// largest names the three largest variables, in a sentence.
func (s *saved) largest() string {
	order := make([]int, len(s.names))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(s.sizes[b], s.sizes[a]) })
	var list []string
	for _, i := range order[:min(3, len(order))] {
		list = append(list, fmt.Sprintf("%s has %d", s.names[i], s.sizes[i]))
	}
	if len(list) == 0 {
		return ""
	}
	return " (" + strings.Join(list, ", ") + ")"
}
