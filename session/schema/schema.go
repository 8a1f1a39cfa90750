// Package schema accepts JSON schemas from anywhere: clients, plugins, tools of
// other programs. A schema is a program: one that refers to itself without end
// takes the process with it, and a small one can ask for years of work. So a
// schema is checked when it is accepted, and what is accepted is cheap to apply.
package schema

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
)

// Limits of a schema.
const (
	MaxBytes = 256 << 10 // of its JSON
	MaxDepth = 64        // of schemas within each other
	MaxNodes = 5000      // schemas in it
	// MaxVisits is how many schemas may be applied to one place of a value, however deep.
	MaxVisits = 1000
)

// Parse reads a schema. It checks it before: each schema within another is read as
// often as there are schemas around it. Errors are those of [Compile].
func Parse(field string, data []byte) (*jsonschema.Schema, error) {
	if err := check(field, data); err != nil {
		return nil, err
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(data, s); err != nil {
		return nil, invalid(field, err.Error())
	}
	return s, nil
}

// Compile checks a schema and makes it ready to validate. Errors: [*events.FieldError]
// that is [events.ErrInvalid] or [events.ErrTooLarge], of the given field.
func Compile(field string, s *jsonschema.Schema) (*jsonschema.Resolved, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, invalid(field, err.Error())
	}
	if err := check(field, data); err != nil {
		return nil, err
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		return nil, invalid(field, err.Error())
	}
	return resolved, nil
}

// check finds what makes a schema dear, without reading it as one.
func check(field string, data []byte) error {
	if len(data) > MaxBytes {
		return tooLarge(field, len(data))
	}
	if err := events.CheckJSON(field, data); err != nil {
		return err
	}
	var root any
	if err := json.Unmarshal(data, &root); err != nil {
		return invalid(field, err.Error())
	}
	g := graph{nodes: make(map[string]*node)}
	if err := g.add("#", root, 1); err != nil {
		return invalid(field, err.Error())
	}
	if err := g.check(); err != nil {
		return invalid(field, err.Error())
	}
	return nil
}

func tooLarge(field string, size int) error {
	return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", size, MaxBytes), Err: events.ErrTooLarge}
}

func invalid(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}

// node is a schema at a place, which a JSON pointer names.
type node struct {
	here  []string            // schemas that are applied to the same value: allOf, $ref and the like
	below map[string][]string // schemas that are applied to what the value holds, by the member's name; "*": any
}

// graph is a schema with all that it holds.
type graph struct{ nodes map[string]*node }

// add takes in the schema at a place, and all within it.
func (g *graph) add(at string, v any, depth int) error {
	n := &node{below: make(map[string][]string)}
	g.nodes[at] = n
	switch {
	case depth > MaxDepth:
		return fmt.Errorf("%s: schemas within each other: more than %d", clip(at), MaxDepth)
	case len(g.nodes) > MaxNodes:
		return fmt.Errorf("has more than %d schemas", MaxNodes)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil // true, false
	}
	for _, key := range []string{"$dynamicRef", "$dynamicAnchor", "$anchor", "$recursiveRef"} {
		if _, ok := m[key]; ok {
			return fmt.Errorf("%s: %s is not supported: use $ref with #/$defs", clip(at), key)
		}
	}
	if _, ok := m["$id"]; ok && at != "#" {
		return fmt.Errorf("%s: $id is for the whole schema only", clip(at))
	}
	if ref, ok := m["$ref"].(string); ok {
		if ref != "#" && !strings.HasPrefix(ref, "#/") {
			return fmt.Errorf("%s: $ref %q: want one that begins with #", clip(at), clip(ref))
		}
		n.here = append(n.here, ref)
	}
	return g.addHeld(n, at, m, depth)
}

// addHeld takes in the schemas within one, by the keywords that hold them. What is
// behind another keyword is never applied.
func (g *graph) addHeld(n *node, at string, m map[string]any, depth int) error {
	var err error
	hold := func(place string, v any, into func(place string)) {
		if err == nil {
			err = g.add(place, v, depth+1)
			into(place)
		}
	}
	here := func(place string) { n.here = append(n.here, place) }
	below := func(member string) func(string) {
		return func(place string) { n.below[member] = append(n.below[member], place) }
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		if v, ok := m[key]; ok {
			hold(at+"/"+key, v, here)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		for i, v := range list(m[key]) {
			hold(at+"/"+key+"/"+strconv.Itoa(i), v, here)
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		for _, name := range names(m[key]) {
			if v := m[key].(map[string]any)[name]; list(v) == nil { // else it lists names
				hold(at+"/"+key+"/"+escape(name), v, here)
			}
		}
	}
	for _, key := range []string{
		"items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "contentSchema",
	} {
		if v, ok := m[key]; ok && list(v) == nil {
			hold(at+"/"+key, v, below("*"))
		}
	}
	for _, key := range []string{"prefixItems", "items"} {
		for i, v := range list(m[key]) {
			hold(at+"/"+key+"/"+strconv.Itoa(i), v, below("["+strconv.Itoa(i)))
		}
	}
	for _, name := range names(m["properties"]) {
		hold(at+"/properties/"+escape(name), m["properties"].(map[string]any)[name], below("."+name))
	}
	for _, name := range names(m["patternProperties"]) {
		hold(at+"/patternProperties/"+escape(name), m["patternProperties"].(map[string]any)[name], below("*"))
	}
	for _, key := range []string{"$defs", "definitions"} {
		for _, name := range names(m[key]) {
			hold(at+"/"+key+"/"+escape(name), m[key].(map[string]any)[name], func(string) {})
		}
	}
	return err
}

func list(v any) []any { l, _ := v.([]any); return l }

func names(v any) []string {
	m, _ := v.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// escape is a member's name as a step of a JSON pointer.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func clip(s string) string { return s[:min(len(s), 100)] }
