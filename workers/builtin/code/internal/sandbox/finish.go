package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"go.starlark.net/starlark"
)

func (r *run) finish(value starlark.Value) error {
	if !r.AcceptFinish {
		r.print(rendered(value))
		r.ended = true
		return errFinished
	}
	data, err := toJSON(value)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if r.schema != nil {
		var v any
		_ = json.Unmarshal(data, &v) // it is JSON
		if err := r.schema.Validate(v); err != nil {
			return fmt.Errorf("finish: the value is not what was asked for: %s; call finish again with a value that is", cutText(err.Error(), 1000))
		}
	}
	r.ended, r.finished, r.value = true, true, data
	return errFinished
}

// continueAs ends the program; the next program has the seed's entries as its variables.
func (r *run) continueAs(task string, seed *starlark.Dict) error {
	switch {
	case !r.AcceptFinish:
		return errors.New("continue_as cannot be used here")
	case strings.TrimSpace(task) == "":
		return errors.New("continue_as: say in the task what is left to do")
	case len(task) > maxTask:
		return fmt.Errorf("continue_as: the task is too long: %d bytes (limit %d); pass the details as variables", len(task), maxTask)
	}
	values := make(starlark.StringDict)
	for key, v := range seed.Entries() {
		name, _ := starlark.AsString(key)
		if !isIdentifier(name) || r.reserved.Has(name) {
			return fmt.Errorf("continue_as: seed: %s cannot be the name of a variable", describe(key))
		}
		values[name] = v
	}
	enc := newEncoder(r.Limits.StateBytes, r.program.source)
	for _, name := range values.Keys() {
		switch err := enc.add(name, values[name]); {
		case errors.Is(err, errTooLarge):
			return fmt.Errorf("continue_as: the seed takes more than %d bytes with %s; store it with a tool, and say in the task where", r.Limits.StateBytes, name)
		case err != nil:
			return fmt.Errorf("continue_as: seed: %s: %w", name, err)
		}
	}
	state, err := enc.finish()
	if err != nil {
		return err
	}
	r.ended, r.continuation = true, &Continuation{Task: clean(task), Names: slices.Sorted(maps.Keys(values)), State: state}
	return errFinished
}

// mark is in names that the code cannot write.
const mark = "\x00saved"

// clean removes the marks of restored names.
func clean(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), mark, "") }

func isIdentifier(s string) bool {
	for i, c := range s {
		if c != '_' && !unicode.IsLetter(c) && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != "" && !slices.Contains(strings.Fields(keywords), s)
}

const keywords = "and break continue def elif else for if in lambda load not or pass return while " +
	"as assert async await class del except finally from global import is nonlocal raise try with yield"
