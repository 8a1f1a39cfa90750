package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// maxOriginal limits the bytes of a schema that a weaker one quotes.
const maxOriginal = 4 << 10

// Weaken returns the schema of a tool's arguments, as of another program, in a form that can be checked here: the same
// where that is possible, else without keywords that say nothing in any dialect, and then without those that cannot be checked, else that of any
// object. The program itself checks what the form cannot. The descriptions quote what is left out.
func Weaken(field string, data []byte) json.RawMessage {
	var root any
	known := json.Unmarshal(data, &root) == nil
	if known && leaveOut(root, false, senseless) {
		data, _ = json.Marshal(root) // it was JSON
	}
	if acceptable(field, data) == nil {
		return data
	}
	if known {
		leaveOut(root, false, unreadable)
		g := graph{nodes: make(map[string]*node)}
		_ = g.add("#", root, 1) // with an error some places are not known
		leaveOut(root, false, func(key string, value any) bool {
			ref, _ := value.(string)
			_, there := g.place(ref)
			return key == "$ref" && !there
		})
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

// leaveOut removes keywords from a schema and those within it, and quotes them in the descriptions. It reports whether there were some. names says
// that the keys of v are names of properties or schemas.
func leaveOut(v any, names bool, bad func(key string, value any) bool) (changed bool) {
	list, _ := v.([]any)
	for _, one := range list {
		changed = leaveOut(one, false, bad) || changed
	}
	m, _ := v.(map[string]any)
	var quoted []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if names || !slices.Contains(values, key) {
			changed = leaveOut(m[key], !names && slices.Contains(named, key), bad) || changed
		}
		switch text, _ := json.Marshal(m[key]); {
		case names && m[key] == nil:
			m[key] = true
		case names || !bad(key, m[key]):
			continue
		case m[key] != nil && len(text) <= maxOriginal:
			said, ok := m[key].(string)
			if !ok {
				said = string(text)
			}
			quoted = append(quoted, key+": "+said)
			fallthrough
		default:
			delete(m, key)
		}
		changed = true
	}
	if quoted != nil {
		text, _ := m["description"].(string)
		m["description"] = strings.TrimSpace(fmt.Sprintf("%s (%s)", text, strings.Join(quoted, ", ")))
	}
	return changed
}

// senseless reports whether a keyword says nothing in any dialect, or that no value is right: types that there are not, limits below zero, null.
func senseless(key string, value any) bool {
	unknown := func(name any) bool { text, ok := name.(string); return !ok || !slices.Contains(types, text) }
	switch value := value.(type) {
	case nil:
		return !slices.Contains(values, key)
	case string:
		return key == "type" && unknown(value)
	case []any:
		return len(value) == 0 && slices.Contains(choices, key) || key == "type" && slices.ContainsFunc(value, unknown)
	case float64:
		return value < 0 && slices.Contains(sizes, key) || value <= 0 && key == "multipleOf"
	}
	return false
}

// unreadable reports whether a keyword cannot be checked, or would refuse more where others are left out.
func unreadable(key string, value any) bool {
	text, _ := value.(string)
	if slices.Contains(strict, key) || value == false && key == "additionalProperties" || key == "$ref" && text != "#" && !strings.HasPrefix(text, "#/") {
		return true
	}
	one := map[string]any{key: shallow(value, slices.Contains(named, key))}
	data, err := json.Marshal(one)
	return err != nil || json.Unmarshal(data, new(jsonschema.Schema)) != nil || new(graph).addPatterns(new(node), key, one) != nil
}

// shallow is a value without what is in the schemas in it.
func shallow(v any, names bool) any {
	m, _ := v.(map[string]any)
	list, _ := v.([]any)
	switch {
	case names && m != nil:
		m = maps.Clone(m)
		for name := range m {
			m[name] = shallow(m[name], false)
		}
		return m
	case m != nil:
		return map[string]any{}
	case list != nil:
		list = slices.Clone(list)
		for i := range list {
			list[i] = shallow(list[i], false)
		}
		return list
	}
	return v
}

//nolint:gochecknoglobals // tables of the dialects
var (
	types   = []string{"array", "boolean", "integer", "null", "number", "object", "string"}
	named   = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies", "dependentRequired"}
	values  = []string{"enum", "const", "default", "examples"}
	choices = []string{"type", "enum", "anyOf", "oneOf", "allOf"}
	sizes   = []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
	strict  = []string{
		"$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveRef", "not", "if", "then", "else", "oneOf", "maxContains", "unevaluatedProperties", "unevaluatedItems",
	}
)
