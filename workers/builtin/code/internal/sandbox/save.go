package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/starlark"
)

// asBefore is the end of the errors about variables that cannot be kept.
const asBefore = "; all variables are as before this program; keep less, set what you no longer need to None, or store it with a tool"

// save encodes the variables of the program. It drops variables without an encoding, and names them in the output.
// Variables that are too large together, or too many, are an error.
func (r *run) save(globals starlark.StringDict) ([]byte, error) {
	const maxLines = 20
	var dropped []string
	drop := func(name, why string) { dropped = append(dropped, "not kept: "+name+": "+why) }
	type variable struct {
		name string
		size int64 // without the parts that an earlier variable shares
	}
	var kept []variable
	enc := newEncoder(r.Limits.StateBytes, r.program.source)
	for _, name := range globals.Keys() {
		if strings.Contains(name, mark) {
			continue
		}
		if r.reserved.Has(name) {
			drop(name, "it is the name of a function that is always there; use another name")
			continue
		}
		if len(kept) >= maxVariables {
			return nil, fmt.Errorf("there are more than %d variables%s", maxVariables, asBefore)
		}
		before := enc.size
		err := enc.add(name, globals[name])
		switch {
		case errors.Is(err, errTooLarge):
			largest := ""
			if len(kept) > 0 {
				most := slices.MaxFunc(kept, func(x, y variable) int { return int(x.size - y.size) })
				largest = fmt.Sprintf(" (%s has %d)", most.name, most.size)
			}
			return nil, fmt.Errorf("with %s the variables take more than %d bytes%s%s", name, r.Limits.StateBytes, largest, asBefore)
		case err != nil:
			drop(name, err.Error())
		default:
			kept = append(kept, variable{name, enc.size - before})
		}
	}
	for _, line := range dropped[:min(len(dropped), maxLines)] {
		r.print(line)
	}
	if more := len(dropped) - maxLines; more > 0 {
		r.print(fmt.Sprintf("not kept: %d more", more))
	}
	if len(kept) == 0 && len(r.State) == 0 {
		return r.State, nil
	}
	return enc.finish()
}
