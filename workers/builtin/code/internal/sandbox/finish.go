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

func (r *run) render(v starlark.Value) (string, error) {
	if err := written(r.meter, nil, starlark.Tuple{v}, nil); err != nil {
		return "", err
	}
	if s, ok := starlark.AsString(v); ok {
		return s, nil
	}
	return v.String(), nil
}

func (r *run) finish(value starlark.Value) error {
	if !r.accept {
		s, err := r.render(value)
		if err != nil {
			return err
		}
		r.out.line(clean(s))
		r.ended = true
		return errFinished
	}
	data, err := r.meter.toJSON(value)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	if r.schema != nil {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
		if err := r.schema.Validate(v); err != nil {
			return fmt.Errorf("finish: the value is not what was asked for: %s; call finish again with a value that is", cutText(err.Error(), 1000))
		}
	}
	r.ended, r.finished, r.value = true, true, data
	return errFinished
}

// continueAs ends the program; the next program has the seed's entries as its variables.
func (r *run) continueAs(task string, seed *starlark.Dict) error {
	if !r.accept {
		return errors.New("continue_as cannot be used here")
	}
	if strings.TrimSpace(task) == "" {
		return errors.New("continue_as: say in the task what is left to do")
	}
	if len(task) > maxTask {
		return fmt.Errorf("continue_as: the task is too long: %d bytes (limit %d); pass the details as variables", len(task), maxTask)
	}
	values := make(map[string]starlark.Value)
	for key, v := range seed.Entries() {
		name, _ := starlark.AsString(key)
		if !isIdentifier(name) || r.reserved.Has(name) {
			return fmt.Errorf("continue_as: seed: %s cannot be the name of a variable", describe(key))
		}
		values[name] = v
	}
	names := slices.Sorted(maps.Keys(values))
	encoded := make([][]byte, len(names))
	enc := newEncoder(r.limits.StateBytes-64, r.program.source)
	for i, name := range names {
		enc.size += int64(len(name)) + 4
		b, err := enc.add(values[name])
		switch {
		case errors.Is(err, errTooLarge):
			return fmt.Errorf("continue_as: the seed takes more than %d bytes with %s; store it with a tool, and say in the task where", r.limits.StateBytes, name)
		case err != nil:
			return fmt.Errorf("continue_as: seed: %s: %w", name, err)
		}
		encoded[i] = b
	}
	r.ended, r.continuation = true, &Continuation{Task: clean(task), Names: names, State: enc.finish(names, encoded)}
	return errFinished
}

// clean removes the marks of restored names.
func clean(s string) string { return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), mark, "") }

func isLetter(c rune) bool { return unicode.IsLetter(c) }

// reserved reports whether a name is a keyword of the language.
func reserved(s string) bool {
	switch s {
	case "and", "break", "continue", "def", "elif", "else", "for", "if", "in", "lambda", "load", "not", "or", "pass", "return", "while",
		"as", "assert", "async", "await", "class", "del", "except", "finally", "from", "global", "import", "is", "nonlocal", "raise", "try", "with", "yield":
		return true
	}
	return false
}
