package llm

import (
	"cmp"
	"encoding/json"
	"reflect"
)

// Form is a tool as all endpoints take it: some refuse a whole request for one keyword of one schema, and others change what
// they do not know. Arguments are checked against the schema itself, so its form may accept more.
//
// The form of a schema has the keywords below, of which anyOf is alone, and in which every schema is an object, every type a
// name, every array has items, every object below the top has properties, and their names are those that endpoints take:
//
//	type description properties required items enum (of texts) anyOf nullable minimum maximum
//
// References are replaced by what they refer to, allOf and const by what they mean, and a choice at the top, or beside
// properties, by the properties of all choices. The description has the keywords that are left, as JSON. A strict form also has a type
// for every value, text for any, and properties in every object: it accepts less.
type Form struct {
	Name        string
	Description string
	Schema      json.RawMessage // of an object, with properties

	names map[string]string // of properties, as the schema has them, to those of the form; only those that differ
	back  map[string]string // the reverse
}

// Declaration is a form as wires declare tools, with the schema under a name.
func (f Form) Declaration(schema string) Object {
	out := Object{"name": f.Name, schema: f.Schema}
	if f.Description != "" {
		out["description"] = f.Description
	}
	return out
}

// Limits of a form.
const (
	maxFormNodes = 2000 // schemas; deeper ones accept anything
	maxFormDepth = 20
	maxLeft      = 600  // bytes of the JSON of keywords that a description has
	maxProperty  = 64   // bytes of the name of a property
	maxForms     = 4096 // that are kept
)

func formOf(schema []byte, strict bool) Form {
	s := &shaper{root: decoded(schema), strict: strict, names: map[string]string{}, taken: map[string]bool{}} // what is no JSON accepts any object
	top, _ := s.flat(s.root, nil)
	if t, ok := top["type"].(string); ok && t != "object" {
		top = Object{}
	}
	top["type"] = "object"
	form := s.schema(top, nil, 0)
	delete(form, "nullable")
	if form["properties"] == nil {
		form["properties"] = Object{}
	}
	f := Form{Schema: schema, names: map[string]string{}, back: map[string]string{}}
	for from, to := range s.names {
		if from != to {
			f.names[from], f.back[to] = to, from
		}
	}
	if !reflect.DeepEqual(any(form), s.root) { // else in its own order
		f.Schema, _ = json.Marshal(form)
	}
	return f
}

// renamed replaces names of members in JSON, at any depth. What is no JSON stays as it is.
func renamed(data []byte, names map[string]string) json.RawMessage {
	if json.Valid(data) {
		data, _ = json.Marshal(rename(decoded(data), names))
	}
	return data
}

func rename(v any, names map[string]string) any {
	for i, inner := range list(v) {
		list(v)[i] = rename(inner, names)
	}
	if object(v) == nil {
		return v
	}
	out := Object{}
	for name, inner := range object(v) {
		out[cmp.Or(names[name], name)] = rename(inner, names)
	}
	return out
}
