package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp/syntax"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxOriginal limits the bytes of a schema that a weaker one quotes.
const maxOriginal = 4 << 10

// Weaken returns the schema of a tool's arguments, as of another program, in a form that can be checked here: the same
// where that is possible, else without types that no dialect knows and patterns that Go cannot compile, else that of any object. The program itself
// checks what the form cannot. The description quotes what is left out.
func Weaken(field string, data []byte) json.RawMessage {
	var root any
	known := json.Unmarshal(data, &root) == nil
	if known && withoutTypes(root, false) {
		data, _ = json.Marshal(root) // it was JSON
	}
	if acceptable(field, data) == nil {
		return data
	}
	if known {
		withoutPatterns(root)
		if less, err := json.Marshal(root); err == nil && acceptable(field, less) == nil {
			return less
		}
	}
	anything := &jsonschema.Schema{Type: typeObject}
	if json.Valid(data) && len(data) <= maxOriginal {
		anything.Description = "The arguments match this JSON schema: " + string(data)
	}
	text, err := json.Marshal(anything)
	if err != nil {
		return json.RawMessage(`{"type":"object"}`)
	}
	return text
}

// acceptable reports why a schema cannot be that of a tool's arguments.
func acceptable(field string, data []byte) error {
	parsed, err := Parse(field, data)
	if err != nil {
		return err
	}
	if _, err := Compile(field, parsed); err != nil {
		return err
	}
	_, err = Object(field, parsed)
	return err
}

// withoutTypes removes types that no dialect knows: every value would be refused. It reports whether there were some. names says that
// the keys of v are names of properties or schemas.
func withoutTypes(v any, names bool) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			changed = withoutTypes(one, false) || changed
		}
	case map[string]any:
		if name, ok := v["type"].(string); ok && !names && !slices.Contains(types, name) {
			delete(v, "type")
			changed = true
		}
		for key, inner := range v {
			if names || !slices.Contains(values, key) {
				changed = withoutTypes(inner, !names && slices.Contains(named, key)) || changed
			}
		}
	}
	return changed
}

//nolint:gochecknoglobals // tables of the dialects
var (
	types  = []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	named  = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"}
	values = []string{"enum", "const", "default", "examples"}
)

// withoutPatterns removes patterns that Go cannot compile from a schema and those within it.
func withoutPatterns(v any) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			withoutPatterns(one)
		}
	case map[string]any:
		if p, ok := v["pattern"].(string); ok && !compiles(p) {
			delete(v, "pattern")
			text, _ := v["description"].(string)
			v["description"] = fmt.Sprintf("%s (pattern: %s)", text, p)
		}
		if list, ok := v["patternProperties"].(map[string]any); ok {
			maps.DeleteFunc(list, func(p string, _ any) bool { return !compiles(p) })
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			withoutPatterns(v[key])
		}
	}
}

func compiles(pattern string) bool {
	_, err := syntax.Parse(pattern, syntax.Perl)
	return err == nil
}
