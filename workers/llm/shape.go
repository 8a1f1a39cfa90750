package llm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Offer is the tools of a request in the form that all endpoints take: some refuse a whole request for one keyword of
// one schema, and others change what they do not know. Arguments are checked against the schemas themselves, so a form
// may accept more than its schema does.
//
// A form has the keywords below, of which anyOf is alone, and in which every schema is an object, every type a name,
// every array has items, and every name of a property is one that endpoints take:
//
//	type description properties required items enum (of texts) anyOf nullable additionalProperties (false)
//	minimum maximum minLength maxLength minItems maxItems
//
// References are replaced by what they refer to, allOf and const by what they mean, and a choice at the top, or beside
// properties, by the properties of all choices. The description has the keywords that are left, as JSON.
type Offer struct {
	Tools  []Form
	byName map[string]*Form
}

// Form is a tool as endpoints take it.
type Form struct {
	Name        string
	Description string
	Schema      json.RawMessage // of an object, with properties

	names map[string]string // of properties, as the schema has them, to those of the form; only those that differ
	back  map[string]string // the reverse
}

// Limits of a form.
const (
	maxFormNodes = 2000 // schemas; deeper ones accept anything
	maxFormDepth = 20
	maxLeft      = 600 // bytes of the JSON of keywords that a description has
	maxProperty  = 64  // bytes of the name of a property
)

// forms are the forms of schemas that were offered before: most requests of an endpoint have the same ones.
type forms struct {
	mu   sync.Mutex
	list map[string]Form // by schema; without name and description
}

// maxForms limits the schemas of [forms].
const maxForms = 4096

func (f *forms) of(schema []byte) Form {
	f.mu.Lock()
	defer f.mu.Unlock()
	have, ok := f.list[string(schema)]
	if !ok {
		have = formOf(schema)
		if f.list == nil || len(f.list) >= maxForms {
			f.list = map[string]Form{}
		}
		f.list[string(schema)] = have
	}
	return have
}

// keywords are the members of a decoded schema.
type keywords = map[string]any

// shaper makes a form of one schema.
type shaper struct {
	root  any
	nodes int
	names map[string]string // of all properties
	taken map[string]bool
}

func formOf(schema []byte) Form {
	s := &shaper{names: map[string]string{}, taken: map[string]bool{}}
	d := json.NewDecoder(bytes.NewReader(schema))
	d.UseNumber()
	_ = d.Decode(&s.root) // what is no JSON is a schema that accepts any object
	top, _ := s.flat(s.root, nil)
	if t, ok := top["type"].(string); ok && t != "object" {
		top = keywords{}
	}
	top["type"] = "object"
	form := s.schema(top, nil, 0)
	delete(form, "nullable")
	if form["properties"] == nil {
		form["properties"] = keywords{}
	}
	f := Form{names: map[string]string{}, back: map[string]string{}}
	for from, to := range s.names {
		if from != to {
			f.names[from], f.back[to] = to, from
		}
	}
	if reflect.DeepEqual(any(form), s.root) {
		f.Schema = schema // in its own order
	} else {
		f.Schema, _ = json.Marshal(form)
	}
	return f
}

// flat are the keywords of a schema, without references and allOf, whose keywords join them. refs are the references that
// led to it; those within it have the result's.
func (s *shaper) flat(v any, refs []string) (keywords, []string) {
	m, ok := v.(map[string]any)
	if !ok {
		return keywords{}, refs
	}
	out := maps.Clone(m)
	for range maxFormDepth {
		ref, isRef := out["$ref"].(string)
		all, _ := out["allOf"].([]any)
		if !isRef && len(all) == 0 {
			break
		}
		delete(out, "$ref")
		delete(out, "allOf")
		switch {
		case isRef && slices.Contains(refs, ref): // of what the schema is in
			all = append([]any{keywords{"type": object(s.target(ref))["type"]}}, all...)
		case isRef:
			refs = append(slices.Clip(refs), ref)
			all = append([]any{s.target(ref)}, all...)
		}
		for _, one := range all {
			if more, ok := one.(map[string]any); ok {
				join(out, more)
			}
		}
	}
	delete(out, "$ref")
	delete(out, "allOf")
	return out, refs
}

// join adds the keywords of a schema that applies to the same value.
func join(to, more keywords) {
	for _, key := range slices.Sorted(maps.Keys(more)) {
		have, both := to[key]
		switch value := more[key]; {
		case key == "properties" && both:
			to[key] = joinedProperties(have, value)
		case key == "required" && both, key == "allOf" && both:
			list, _ := have.([]any)
			more, _ := value.([]any)
			to[key] = append(slices.Clip(list), more...)
		case key == "$ref" && both && have != value:
			all, _ := to["allOf"].([]any)
			to["allOf"] = append(slices.Clip(all), keywords{"$ref": value})
		case !both:
			to[key] = value
		}
	}
}

// joinedProperties are those of two schemas that apply to the same value.
func joinedProperties(a, b any) keywords {
	out, _ := a.(map[string]any)
	out = maps.Clone(out)
	more, _ := b.(map[string]any)
	for name, value := range more {
		if have, both := out[name]; both && !reflect.DeepEqual(have, value) {
			value = keywords{"allOf": []any{have, value}}
		}
		if out == nil {
			out = keywords{}
		}
		out[name] = value
	}
	return out
}

// target is what a reference within the schema refers to, or nil.
func (s *shaper) target(ref string) any {
	at := s.root
	path, ok := strings.CutPrefix(ref, "#")
	for _, step := range strings.Split(path, "/")[1:] {
		step = strings.NewReplacer("~1", "/", "~0", "~").Replace(step)
		switch v := at.(type) {
		case map[string]any:
			at = v[step]
		case []any:
			var i int
			if _, err := fmt.Sscan(step, &i); err != nil || i < 0 || i >= len(v) {
				return nil
			}
			at = v[i]
		default:
			return nil
		}
	}
	if !ok {
		return nil
	}
	return at
}

// schema is the form of a schema.
func (s *shaper) schema(v any, refs []string, depth int) keywords {
	m, refs := s.flat(v, refs)
	if s.nodes++; s.nodes > maxFormNodes || depth > maxFormDepth {
		return keywords{}
	}
	n := &node{s: s, from: m, refs: refs, depth: depth, to: keywords{}, left: keywords{}}
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
	from  keywords // without references and allOf
	refs  []string
	depth int
	to    keywords
	left  keywords // keywords that become a part of the description
}

func (n *node) shaped(v any) keywords { return n.s.schema(v, n.refs, n.depth+1) }

// choices replaces oneOf and anyOf.
func (n *node) choices() {
	for _, key := range []string{"anyOf", "oneOf"} {
		list, _ := n.from[key].([]any)
		if len(list) == 0 {
			continue
		}
		raw := n.from[key]
		delete(n.from, key)
		list = slices.DeleteFunc(slices.Clone(list), func(v any) bool {
			flat, _ := n.s.flat(v, n.refs)
			if flat["type"] == "null" {
				n.to["nullable"] = true
			}
			return flat["type"] == "null"
		})
		switch {
		case len(list) == 1:
			one, refs := n.s.flat(list[0], n.refs)
			n.refs = refs
			join(n.from, one)
		case n.depth == 0 || n.constrained() || n.to["anyOf"] != nil:
			n.left[key] = raw
			n.union(list)
		default:
			n.alternatives(list)
		}
	}
}

// constrained reports whether the schema has more than its choices.
func (n *node) constrained() bool {
	for key := range n.from {
		switch key {
		case "title", "description", "default", "examples", "$schema", "$id", "$comment", "$defs", "definitions", "discriminator":
		default:
			return true
		}
	}
	return false
}

// union adds the properties of all choices. Only those are required that each choice requires.
func (n *node) union(list []any) {
	required := map[string]int{}
	for _, v := range list {
		one, refs := n.s.flat(v, n.refs)
		n.refs = refs
		for name, value := range object(one["properties"]) {
			props := maps.Clone(object(n.from["properties"]))
			if props == nil {
				props = keywords{}
			}
			switch have, both := props[name]; {
			case !both:
				props[name] = value
			case !reflect.DeepEqual(have, value):
				props[name] = keywords{"anyOf": []any{have, value}}
			}
			n.from["properties"] = props
		}
		for _, name := range texts(one["required"]) {
			required[name]++
		}
	}
	all, _ := n.from["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(required)) {
		if required[name] == len(list) {
			all = append(slices.Clip(all), name)
		}
	}
	if len(all) > 0 {
		n.from["required"] = all
	}
}

// alternatives makes anyOf. Choices of texts are one enum.
func (n *node) alternatives(list []any) {
	var forms []any
	var enum []any
	for _, v := range list {
		form := n.shaped(v)
		if form["nullable"] == true {
			n.to["nullable"] = true
			delete(form, "nullable")
		}
		if values, ok := form["enum"].([]any); ok && form["description"] == nil {
			enum = append(enum, values...)
			continue
		}
		if !slices.ContainsFunc(forms, func(have any) bool { return reflect.DeepEqual(have, any(form)) }) {
			forms = append(forms, form)
		}
	}
	if len(enum) > 0 {
		forms = append(forms, keywords{"type": "string", "enum": unique(enum)})
	}
	if len(forms) > 1 {
		n.to["anyOf"] = forms
		return
	}
	for _, form := range forms {
		nullable := n.to["nullable"]
		maps.Copy(n.to, form.(keywords))
		if nullable != nil {
			n.to["nullable"] = nullable
		}
	}
}

// kind makes one type of a list.
func (n *node) kind() {
	var kinds []string
	switch t := n.from["type"].(type) {
	case string:
		kinds = []string{t}
	case []any:
		kinds = texts(t)
	}
	if slices.Contains(kinds, "null") {
		n.to["nullable"] = true
	}
	kinds = slices.DeleteFunc(kinds, func(k string) bool {
		return !slices.Contains([]string{"object", "array", "string", "number", "integer", "boolean"}, k)
	})
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
		rest := maps.Clone(n.from)
		delete(rest, "description")
		description := n.from["description"]
		n.from = keywords{}
		if description != nil {
			n.from["description"] = description
		}
		var forms []any
		for _, k := range kinds {
			one := maps.Clone(rest)
			one["type"] = k
			forms = append(forms, n.shaped(only(one, k)))
		}
		n.to["anyOf"] = forms
	}
}

// only are the keywords that apply to values of a type.
func only(m keywords, kind string) keywords {
	of := map[string]string{"properties": "object", "required": "object", "additionalProperties": "object", "items": "array", "pattern": "string", "format": "string"}
	maps.Copy(of, limits)
	for key, of := range of {
		if of != kind && (of != "number" || kind != "integer") {
			delete(m, key)
		}
	}
	return m
}

// values makes an enum of texts of enum and const.
func (n *node) values() {
	list, ok := n.from["enum"].([]any)
	if value, single := n.from["const"]; single {
		list, ok = []any{value}, true
		delete(n.from, "const")
		n.from["enum"] = list
	}
	if !ok || len(list) == 0 {
		return
	}
	var said []any
	other := false
	for _, v := range list {
		text, isText := v.(string)
		switch {
		case v == nil:
			n.to["nullable"] = true
		case isText && text != "":
			said = append(said, v)
		default:
			other = true
		}
	}
	if kind, typed := n.to["type"]; other || len(said) == 0 || typed && kind != "string" {
		n.left["enum"] = list
	} else {
		n.to["type"], n.to["enum"] = "string", unique(said)
	}
	delete(n.from, "enum")
}

// members shapes properties and items.
func (n *node) members() {
	if n.to["type"] == "object" {
		n.properties()
	}
	if n.to["type"] == "array" && n.to["items"] == nil {
		items, isList := n.from["items"].([]any)
		if isList {
			n.left["items"] = items
		}
		n.to["items"] = n.shaped(n.from["items"])
	}
	delete(n.from, "properties")
	delete(n.from, "required")
	delete(n.from, "items")
	if n.from["additionalProperties"] == false && n.to["type"] == "object" {
		n.to["additionalProperties"] = false
	}
	if _, ok := n.from["additionalProperties"].(bool); ok {
		delete(n.from, "additionalProperties")
	}
}

func (n *node) properties() {
	props := maps.Clone(object(n.from["properties"]))
	var required []any
	for _, name := range texts(n.from["required"]) {
		if props[name] == false || slices.Contains(required, any(n.s.property(name))) {
			continue
		}
		if _, ok := props[name]; !ok {
			if props == nil {
				props = keywords{}
			}
			props[name] = true
		}
		required = append(required, n.s.property(name))
	}
	out := keywords{}
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
	to := strings.Map(func(r rune) rune {
		switch {
		case r == '.', r == '_', r == '-', '0' <= r && r <= '9', 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z':
			return r
		}
		return '_'
	}, name)
	to = to[:min(len(to), maxProperty)]
	if to == "" {
		to = "_"
	}
	for i, base := 2, to; s.taken[to]; i++ {
		end := fmt.Sprintf("_%d", i)
		to = base[:min(len(base), maxProperty-len(end))] + end
	}
	s.names[name], s.taken[to] = to, true
	return to
}

// limits are keywords by the type that they apply to. Endpoints refuse them beside another one, and those of a size that are no
// count.
var limits = map[string]string{ //nolint:gochecknoglobals // a table that is only read
	"minimum": "number", "maximum": "number", "minLength": "string", "maxLength": "string", "minItems": "array", "maxItems": "array",
}

// rest keeps the keywords that endpoints take. The description has the others.
func (n *node) rest() {
	for key, kind := range limits {
		number, ok := n.from[key].(json.Number)
		if t, _ := n.to["type"].(string); !ok || n.to["anyOf"] != nil || t != "" && t != kind && (t != "integer" || kind != "number") {
			continue
		}
		_, err := strconv.ParseUint(number.String(), 10, 31)
		if kind == "number" {
			_, err = number.Float64()
		}
		if err == nil {
			n.to[key] = number
			delete(n.from, key)
		}
	}
	text, _ := n.from["description"].(string)
	for _, key := range []string{"description", "title", "$schema", "$id", "$comment", "$defs", "definitions", "nullable"} {
		if key == "nullable" && n.from[key] == true {
			n.to[key] = true
		}
		delete(n.from, key)
	}
	maps.Copy(n.left, n.from)
	if len(n.left) > 0 {
		if data, err := json.Marshal(n.left); err == nil && len(data) <= maxLeft {
			text = strings.TrimSpace(text + " (JSON schema: " + string(data) + ")")
		}
	}
	if text != "" {
		n.to["description"] = text
	}
}

func object(v any) keywords { m, _ := v.(map[string]any); return m }

// texts are the texts of a list.
func texts(v any) (list []string) {
	values, _ := v.([]any)
	for _, v := range values {
		if s, ok := v.(string); ok {
			list = append(list, s)
		}
	}
	return list
}

func unique(list []any) (out []any) {
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}
