package llm

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// applies are keywords by the type of values that they apply to.
var applies = map[string]string{ //nolint:gochecknoglobals // a table that is only read
	"properties": "object", "required": "object", "additionalProperties": "object", "items": "array", "pattern": "string", "format": "string",
	"minimum": "number", "maximum": "number", "minLength": "string", "maxLength": "string", "minItems": "array", "maxItems": "array",
}

// fits reports whether a keyword applies to values of a type, or of all.
func fits(key, kind string) bool {
	of := applies[key]
	return of == "" || of == kind || of == "number" && kind == "integer"
}

// notes are the keywords that say nothing about values; those of the description have a form of their own.
var notes = []string{"description", "title", "$schema", "$id", "$comment", "$defs", "definitions"} //nolint:gochecknoglobals // a table that is only read

// shaper makes the form of one schema.
type shaper struct {
	root   any
	strict bool
	nodes  int
	names  map[string]string // of all properties
	taken  map[string]bool
}

// flat are the keywords of a schema, with those of what it refers to and of allOf. refs are the references that led to it; those
// within it have the result's.
func (s *shaper) flat(v any, refs []string) (Object, []string) {
	out := clone(v)
	for range maxFormDepth {
		ref, isRef := out["$ref"].(string)
		all := list(out["allOf"])
		delete(out, "$ref")
		delete(out, "allOf")
		switch {
		case isRef && slices.Contains(refs, ref): // of what the schema is in
			all = append([]any{Object{"type": object(s.target(ref))["type"]}}, all...)
		case isRef:
			refs = append(slices.Clip(refs), ref)
			all = append([]any{s.target(ref)}, all...)
		}
		for _, one := range all {
			join(out, object(one))
		}
		if out["$ref"] == nil && out["allOf"] == nil {
			break
		}
	}
	return out, refs
}

// join adds the keywords of a schema that applies to the same value.
func join(to, more Object) {
	for _, key := range slices.Sorted(maps.Keys(more)) {
		have, both := to[key]
		switch value := more[key]; {
		case !both:
			to[key] = value
		case key == "properties":
			to[key] = properties(have, value, "allOf")
		case key == "required", key == "allOf":
			to[key] = slices.Concat(list(have), list(value))
		case key == "$ref" && !reflect.DeepEqual(have, value):
			to["allOf"] = append(slices.Clip(list(to["allOf"])), Object{"$ref": value})
		}
	}
}

// properties are those of two objects. The schema of one that both have differently is that of a keyword for the two.
func properties(a, b any, both string) Object {
	out := clone(a)
	for name, value := range object(b) {
		if have, ok := out[name]; ok && !reflect.DeepEqual(have, value) {
			value = Object{both: []any{have, value}}
		}
		out[name] = value
	}
	return out
}

// target is what a reference within the schema refers to, or nil.
func (s *shaper) target(ref string) any {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return nil
	}
	at := s.root
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		i, err := strconv.Atoi(step)
		switch members, inner := object(at), list(at); {
		case members != nil:
			at = members[step]
		case err == nil && i >= 0 && i < len(inner):
			at = inner[i]
		default:
			return nil
		}
	}
	return at
}

// schema is the form of a schema.
func (s *shaper) schema(v any, refs []string, depth int) Object {
	from, refs := s.flat(v, refs)
	if s.nodes++; s.nodes > maxFormNodes || depth > maxFormDepth {
		return Object{}
	}
	n := &node{s: s, from: from, refs: refs, depth: depth, to: Object{}, left: Object{}}
	n.choices()
	n.kind()
	n.values()
	n.members()
	n.rest()
	return n.to
}

// node is a schema that is being shaped.
type node struct {
	s     *shaper
	from  Object // without references and allOf
	refs  []string
	depth int
	to    Object
	left  Object // keywords that become a part of the description
}

func (n *node) shaped(v any) Object { return n.s.schema(v, n.refs, n.depth+1) }

// choices replaces oneOf and anyOf.
func (n *node) choices() {
	for _, key := range []string{"anyOf", "oneOf"} {
		raw := list(n.from[key])
		if len(raw) == 0 {
			continue
		}
		delete(n.from, key)
		choices := slices.DeleteFunc(slices.Clone(raw), func(v any) bool {
			flat, _ := n.s.flat(v, n.refs)
			if flat["type"] == "null" {
				n.to["nullable"] = true
			}
			return flat["type"] == "null"
		})
		switch {
		case len(choices) == 1:
			var one Object
			one, n.refs = n.s.flat(choices[0], n.refs)
			join(n.from, one)
		case n.depth == 0 || n.constrained() || n.to["anyOf"] != nil:
			n.left[key] = raw
			n.union(choices)
		default:
			n.alternatives(choices)
		}
	}
}

// constrained reports whether the schema has more than its choices.
func (n *node) constrained() bool {
	said := maps.Clone(n.from)
	maps.DeleteFunc(said, func(key string, _ any) bool {
		return slices.Contains(notes, key) || key == "default" || key == "examples" || key == "discriminator"
	})
	return len(said) > 0
}

// union adds the properties of all choices. Only those are required that each choice requires.
func (n *node) union(choices []any) {
	required := map[string]int{}
	for _, v := range choices {
		var one Object
		one, n.refs = n.s.flat(v, n.refs)
		if len(object(one["properties"])) > 0 {
			n.from["properties"] = properties(n.from["properties"], one["properties"], "anyOf")
		}
		for _, name := range texts(one["required"]) {
			required[name]++
		}
	}
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if required[name] == len(choices) {
			n.from["required"] = append(slices.Clip(list(n.from["required"])), name)
		}
	}
}

// alternatives makes anyOf. Choices of texts are one enum.
func (n *node) alternatives(choices []any) {
	var forms, enum []any
	for _, v := range choices {
		form := n.shaped(v)
		if form["nullable"] == true {
			n.to["nullable"] = true
			delete(form, "nullable")
		}
		if values := list(form["enum"]); values != nil && form["description"] == nil {
			enum = append(enum, slices.DeleteFunc(slices.Clone(values), func(v any) bool { return slices.Contains(enum, v) })...)
		} else if !slices.ContainsFunc(forms, func(have any) bool { return reflect.DeepEqual(have, any(form)) }) {
			forms = append(forms, form)
		}
	}
	if len(enum) > 0 {
		forms = append(forms, Object{"type": "string", "enum": enum})
	}
	if len(forms) == 1 {
		maps.Copy(n.to, object(forms[0]))
	} else if len(forms) > 1 {
		n.to["anyOf"] = forms
	}
}

// kind makes one type of a list, or a choice.
func (n *node) kind() {
	var kinds []string
	for _, kind := range texts(n.from["type"]) {
		switch kind {
		case "null":
			n.to["nullable"] = true
		case "object", "array", "string", "number", "integer", "boolean":
			kinds = append(kinds, kind)
		}
	}
	switch {
	case len(kinds) == 0 && n.from["properties"] != nil:
		kinds = []string{"object"}
	case len(kinds) == 0 && n.from["items"] != nil:
		kinds = []string{"array"}
	case n.depth == 0:
		kinds = []string{"object"}
	}
	delete(n.from, "type")
	switch {
	case len(kinds) == 1:
		n.to["type"] = kinds[0]
	case len(kinds) > 1 && n.to["anyOf"] == nil:
		var choices []any
		for _, kind := range kinds {
			one := maps.Clone(n.from)
			one["type"] = kind
			maps.DeleteFunc(one, func(key string, _ any) bool { return key == "description" || !fits(key, kind) })
			choices = append(choices, one)
		}
		maps.DeleteFunc(n.from, func(key string, _ any) bool { return key != "description" })
		n.alternatives(choices)
	}
}

// values makes an enum of texts of enum and const.
func (n *node) values() {
	values := list(n.from["enum"])
	if value, single := n.from["const"]; single {
		values = []any{value}
		delete(n.from, "const")
	}
	if len(values) == 0 {
		return
	}
	delete(n.from, "enum")
	var said []any
	kind, typed := n.to["type"]
	other := typed && kind != "string"
	for _, v := range values {
		text, isText := v.(string)
		switch {
		case v == nil:
			n.to["nullable"] = true
		case isText && slices.Contains(said, v): // once is enough
		case isText && text != "":
			said = append(said, v)
		default:
			other = true
		}
	}
	if other || len(said) == 0 {
		n.left["enum"] = values
	} else {
		n.to["type"], n.to["enum"] = "string", said
	}
}

// members shapes properties and items.
func (n *node) members() {
	_, closed := n.from["additionalProperties"].(bool) // Gemini refuses it
	switch n.to["type"] {
	case "object":
		n.properties()
		switch empty := len(object(n.to["properties"])) == 0; { // Gemini refuses an object without them
		case empty && n.s.strict:
			n.to["properties"] = Object{"any_name": Object{"type": "string"}}
		case empty && n.depth > 0:
			n.left["type"] = "object"
			maps.DeleteFunc(n.to, func(key string, _ any) bool { return applies[key] == "object" || key == "type" })
		}
	case "array":
		if items := list(n.from["items"]); items != nil {
			n.left["items"] = items
		}
		if n.to["items"] == nil {
			n.to["items"] = n.shaped(n.from["items"])
		}
	}
	maps.DeleteFunc(n.from, func(key string, _ any) bool {
		return key == "properties" || key == "required" || key == "items" || key == "additionalProperties" && closed
	})
}

func (n *node) properties() {
	props := clone(n.from["properties"])
	var required []any
	for _, name := range texts(n.from["required"]) {
		if _, ok := props[name]; !ok {
			props[name] = true
		}
		if props[name] != false && !slices.Contains(required, any(n.s.property(name))) {
			required = append(required, n.s.property(name))
		}
	}
	out := Object{}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if props[name] != false {
			out[n.s.property(name)] = n.shaped(props[name])
		}
	}
	if n.from["properties"] != nil || len(out) > 0 {
		n.to["properties"] = out
	}
	if len(required) > 0 {
		n.to["required"] = required
	}
}

// property is the name of a property in the form. Endpoints take letters, digits, _, . and -.
func (s *shaper) property(name string) string {
	if to, ok := s.names[name]; ok {
		return to
	}
	to := cmp.Or(Token(name, maxProperty, "_.-"), "_")
	for i, base := 2, to; s.taken[to]; i++ {
		end := fmt.Sprintf("_%d", i)
		to = base[:min(len(base), maxProperty-len(end))] + end
	}
	s.names[name], s.taken[to] = to, true
	return to
}

// rest keeps the limits of numbers. llama.cpp refuses large sizes, and small ones within others: the description has those, and what
// else is left.
func (n *node) rest() {
	if n.s.strict && n.to["type"] == nil && n.to["anyOf"] == nil {
		n.to["type"] = "string"
	}
	kind, _ := n.to["type"].(string)
	for _, key := range []string{"minimum", "maximum"} {
		number, ok := n.from[key].(json.Number)
		if _, err := number.Float64(); ok && err == nil && n.to["anyOf"] == nil && (kind == "" || fits(key, kind)) {
			n.to[key] = number
			delete(n.from, key)
		}
	}
	if n.from["nullable"] == true {
		n.to["nullable"] = true
	}
	text, _ := n.from["description"].(string)
	for _, key := range append([]string{"nullable"}, notes...) {
		delete(n.from, key)
	}
	maps.Copy(n.left, n.from)
	if data, err := json.Marshal(n.left); len(n.left) > 0 && err == nil && len(data) <= maxLeft {
		text = strings.TrimSpace(text + " (JSON schema: " + string(data) + ")")
	}
	if text != "" {
		n.to["description"] = text
	}
	if n.s.strict && n.to["anyOf"] != nil { // it must be alone
		n.to = Object{"anyOf": n.to["anyOf"]}
	}
}
