// Package schema accepts JSON schemas from clients, plugins and tools of other programs. A schema is a program: a
// recursive one can exhaust the process, and a small one can cost years of work. So a schema is checked before use,
// and an accepted schema is cheap.
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
	maxBytes = 256 << 10 // size of its JSON
	maxDepth = 64        // nesting of schemas
	maxNodes = 5000      // number of schemas in it
	// maxVisits limits the schemas that apply to one location of a value, at any depth.
	maxVisits = 1000
)

// Parse decodes a schema. It checks the schema first, because the library reads a nested schema once per enclosing
// schema. Errors are those of [Compile].
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

// Compile checks a schema and prepares it for validation, so that what is accepted here is what a value is compared with: in the
// dialect that its $schema names. A schema of a dialect that this process does not know accepts every value: what has
// the schema judges the value. Errors: an [*events.FieldError] of the field that is [events.ErrInvalid] or [events.ErrTooLarge].
func Compile(field string, s *jsonschema.Schema) (*jsonschema.Resolved, error) {
	data, err := json.Marshal(s)
	if err != nil {
		return nil, invalid(field, err.Error())
	}
	if err := check(field, data); err != nil {
		return nil, err
	}
	known := *s
	switch name := strings.TrimSuffix(s.Schema, "#"); name {
	case "", "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft/2020-12/schema", "http://json-schema.org/schema", "https://json-schema.org/schema":
		known.Schema = ""
	case "http://json-schema.org/draft-07/schema", "https://json-schema.org/draft-07/schema":
		known.Schema = "http://json-schema.org/draft-07/schema#" // the library compares all of it
	default:
		known = jsonschema.Schema{}
	}
	resolved, err := known.Resolve(nil)
	if err != nil {
		return nil, invalid(field, err.Error())
	}
	return resolved, nil
}

// check refuses an expensive schema, without decoding it as a schema.
func check(field string, data []byte) error {
	if len(data) > maxBytes {
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
	return &events.FieldError{Field: field, Reason: fmt.Sprintf("has %d bytes, limit is %d", size, maxBytes), Err: events.ErrTooLarge}
}

func invalid(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}

// node is a schema at a location, which a JSON pointer names.
type node struct {
	here    []string            // schemas for the same value: allOf, $ref and similar
	below   map[string][]string // schemas for the value's members, by the member's name; "*" for any
	pattern float64             // instructions of its patterns
}

// graph is a schema with its nested schemas.
type graph struct {
	nodes    map[string]*node
	patterns float64 // instructions of all patterns
}

// add adds the schema at a location, and its nested schemas.
func (g *graph) add(at string, v any, depth int) error {
	n := &node{below: make(map[string][]string)}
	g.nodes[at] = n
	switch {
	case depth > maxDepth:
		return fmt.Errorf("%s: schemas within each other: more than %d", clip(at), maxDepth)
	case len(g.nodes) > maxNodes:
		return fmt.Errorf("has more than %d schemas", maxNodes)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil // true or false
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
	if err := g.addPatterns(n, at, m); err != nil {
		return err
	}
	return g.addNested(n, at, m, depth)
}

// addNested adds the schemas in one, by the keywords that contain schemas. Schemas under other keywords never apply.
func (g *graph) addNested(n *node, at string, m map[string]any, depth int) error {
	var err error
	nest := func(place string, v any, into func(place string)) {
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
			nest(at+"/"+key, v, here)
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		for i, v := range list(m[key]) {
			nest(at+"/"+key+"/"+strconv.Itoa(i), v, here)
		}
	}
	for _, key := range []string{"dependentSchemas", "dependencies"} {
		for _, name := range names(m[key]) {
			if v := m[key].(map[string]any)[name]; list(v) == nil { // otherwise it lists names
				nest(at+"/"+key+"/"+escape(name), v, here)
			}
		}
	}
	for _, key := range []string{
		"items", "additionalItems", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties", "contentSchema",
	} {
		if v, ok := m[key]; ok && list(v) == nil {
			nest(at+"/"+key, v, below("*"))
		}
	}
	for _, key := range []string{"prefixItems", "items"} {
		for i, v := range list(m[key]) {
			nest(at+"/"+key+"/"+strconv.Itoa(i), v, below("["+strconv.Itoa(i)))
		}
	}
	for _, name := range names(m["properties"]) {
		nest(at+"/properties/"+escape(name), m["properties"].(map[string]any)[name], below("."+name))
	}
	for _, name := range names(m["patternProperties"]) {
		nest(at+"/patternProperties/"+escape(name), m["patternProperties"].(map[string]any)[name], below("*"))
	}
	for _, key := range []string{"$defs", "definitions"} {
		for _, name := range names(m[key]) {
			nest(at+"/"+key+"/"+escape(name), m[key].(map[string]any)[name], func(string) {})
		}
	}
	return err
}

func list(v any) []any { l, _ := v.([]any); return l }

func names(v any) []string {
	m, _ := v.(map[string]any)
	return slices.Sorted(maps.Keys(m))
}

// escape converts a member's name to a step of a JSON pointer.
func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

func clip(s string) string { return s[:min(len(s), 100)] }
