package httpapi

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"
)

// describer collects the schemas that operations refer to. Each struct type has one, under its name.
type describer struct {
	schemas map[string]*jsonschema.Schema
	types   map[string]reflect.Type
	leaves  map[reflect.Type]*jsonschema.Schema
	err     error // the first
}

func newDescriber() *describer {
	return &describer{schemas: make(map[string]*jsonschema.Schema), types: make(map[string]reflect.Type), leaves: leaves()}
}

// renamed are the names in the document of types that are named like a type of browsers, which TypeScript that is generated from the
// document would hide, and of types whose names in Go need their package.
//
//nolint:gochecknoglobals // read-only
var renamed = map[string]string{
	"Blob": "BlobRef", "Event": "HistoryEvent", "Node": "GraphNode",

	"GrantRequest": "Grant", "ProtocolOptionsArgs": "ProtocolOptions", "ActionArgs": "Invocation", "AvailabilityArgs": "ToolLevel",
	"ProgressArgs": "TaskProgress", "RequestCancelTaskArgs": "StopTask", "TransferArgs": "TransferTasks", "MonitorEvent": "MonitorUpdate",
	"SessionPage": "Sessions", "SessionSummary": "ListedSession", "SearchPage": "Searched", "RetryStatus": "Retry",
}

// ref is a reference to the schema of a type.
func (d *describer) ref(t reflect.Type) object {
	if t.Kind() == reflect.Map {
		return object{"type": "object"}
	}
	return object{"$ref": d.define(t)}
}

// define adds the schemas of a struct type and of its fields' types, once, and returns the reference. Types of this
// package end with JSON, which the document leaves out.
func (d *describer) define(t reflect.Type) string {
	r := []rune(strings.TrimSuffix(t.Name(), "JSON"))
	name := string(unicode.ToUpper(r[0])) + string(r[1:])
	if own, ok := renamed[name]; ok {
		name = own
	}
	at := "#/components/schemas/" + name
	if known := d.types[name]; known != nil {
		if known != t {
			d.fail(fmt.Errorf("schema %s is of %s and of %s", name, known, t))
		}
		return at
	}
	d.types[name] = t
	parts := maps.Clone(d.leaves)
	for _, part := range d.structs(t) {
		parts[part] = &jsonschema.Schema{Ref: d.define(part)}
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: parts})
	if err != nil {
		d.fail(fmt.Errorf("schema of %s: %w", name, err))
	}
	d.schemas[name] = withoutNull(s)
	return at
}

func (d *describer) fail(err error) {
	if d.err == nil {
		d.err = err
	}
}

// structs are the struct types of a struct's fields that have their own schemas.
func (d *describer) structs(t reflect.Type) (list []reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		of := f.Type
		for of.Kind() == reflect.Pointer || d.leaves[of] == nil && (of.Kind() == reflect.Slice || of.Kind() == reflect.Map) {
			of = of.Elem()
		}
		if of.Kind() == reflect.Struct && f.IsExported() && !f.Anonymous && d.leaves[of] == nil {
			list = append(list, of)
		}
	}
	return list
}

// messages describes a stream's messages, with the types of their data.
func (d *describer) messages(events map[string]reflect.Type) object {
	var list []object
	for _, name := range slices.Sorted(maps.Keys(events)) {
		list = append(list, object{
			"type": "object", "required": []string{"event", "data"},
			"properties": object{"event": object{"const": name}, "id": object{"type": "string"}, "data": d.ref(events[name])},
		})
	}
	return object{"oneOf": list}
}

// withoutNull removes null from the schemas of lists and optional fields: an absent field is omitted.
func withoutNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if i := slices.Index(s.Types, "null"); i >= 0 {
		s.Types = slices.Delete(s.Types, i, i+1)
	}
	switch len(s.Types) {
	case 0:
		s.Types = nil
	case 1:
		s.Type, s.Types = s.Types[0], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	withoutNull(s.Items)
	withoutNull(s.AdditionalProperties)
	return s
}
