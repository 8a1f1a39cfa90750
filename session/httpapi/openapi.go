package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events/eventjson"
)

// tokenPattern is what ids match.
const tokenPattern = "^[A-Za-z0-9_-]{1,64}$"

// object is a piece of the document.
type object = map[string]any

func getDocument(c *call) (reply, error) {
	return reply{status: http.StatusOK, body: json.RawMessage(c.s.document)}, nil
}

// document is the OpenAPI 3.1 description of a table of routes.
func document(table []route) ([]byte, error) {
	d := describer{schemas: make(map[string]*jsonschema.Schema)}
	paths := make(map[string]object)
	for i := range table {
		r := &table[i]
		if paths[r.path] == nil {
			paths[r.path] = object{}
		}
		paths[r.path][strings.ToLower(r.method)] = d.operation(r)
	}
	if d.err != nil {
		return nil, d.err
	}
	return json.Marshal(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "lash", "version": "1",
			"description": "Sessions of LLM agents. Unknown fields and parameters are refused. Problems have a stable code. " +
				"GET operations answer HEAD too. Streams are server-sent events; x-events says what their data is. " +
				"429 and 503 were not done, and Retry-After says when to ask again; without it waiting does not help. After 504 nobody knows whether it was done: ask again only with the same Idempotency-Key.",
		},
		"security":   []object{{"bearer": []string{}}, {"certificate": []string{}}},
		"paths":      paths,
		"components": object{"schemas": d.schemas, "securitySchemes": securitySchemes()},
	})
}

// securitySchemes are the ways in which callers say who they are: one of them is enough.
func securitySchemes() object {
	return object{
		"bearer":      object{"type": "http", "scheme": "bearer", "description": "a token of the server's file, or a signed JWT of its issuer"},
		"certificate": object{"type": "mutualTLS", "description": "a client certificate that the server's file names; it counts where there is no Authorization header"},
	}
}

// describer collects the schemas that operations name.
type describer struct {
	schemas map[string]*jsonschema.Schema
	err     error // the first
}

func (d *describer) operation(r *route) object {
	out := object{"operationId": r.name, "summary": r.summary, "responses": d.responses(r)}
	if r.needs == "" {
		out["security"] = []object{}
	} else {
		out["x-scope"], out["x-right"] = r.needs.Least(), r.needs
	}
	var params []object
	for _, name := range r.pathParams() {
		params = append(params, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string", "pattern": tokenPattern}})
	}
	for _, p := range r.query {
		params = append(params, object{"name": p.name, "in": "query", "description": p.about, "schema": object{"type": "string"}})
	}
	if r.changes() {
		params = append(params, object{"name": keyParam.name, "in": "header", "description": keyParam.about, "schema": object{"type": "string", "pattern": tokenPattern}})
	}
	for _, p := range r.header {
		params = append(params, object{"name": p.name, "in": "header", "description": p.about, "schema": object{"type": "string"}})
	}
	if len(params) > 0 {
		out["parameters"] = params
	}
	if r.given {
		out["requestBody"] = object{"required": true, "content": content(octets, binary())}
	}
	if r.request != nil {
		out["requestBody"] = object{"required": true, "content": content("application/json", d.ref(r.request))}
	}
	return out
}

func (d *describer) responses(r *route) object {
	out := object{}
	for status, body := range r.answers {
		answer := object{"description": http.StatusText(status)}
		if body != nil {
			answer["content"] = content("application/json", d.ref(body))
		}
		if r.gives {
			answer["content"] = content(octets, binary())
		}
		if r.changes() {
			answer["headers"] = object{seqHeader: object{
				"description": "the sequence, in the session's history, of the commit that the request made", "schema": object{"type": "string", "pattern": "^[0-9]+$"},
			}}
		}
		out[strconv.Itoa(status)] = answer
	}
	if r.events != nil {
		data := object{}
		for name, t := range r.events {
			data[name] = d.ref(t)
		}
		out[strconv.Itoa(http.StatusOK)] = object{
			"description": "server-sent events", "content": content("text/event-stream", object{"type": "string"}), "x-events": data,
		}
	}
	refusal := content("application/problem+json", d.ref(of[problem]()))
	for _, status := range r.refusals() {
		out[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": refusal}
	}
	out["default"] = object{"description": "anything else, as a fault of the server", "content": refusal}
	return out
}

// octets is the media type of bodies whatever they are.
const octets = "application/octet-stream"

func binary() object { return object{"type": "string", "format": "binary"} }

func content(mediaType string, schema any) object {
	return object{mediaType: object{"schema": schema}}
}

// ref names the schema of a type.
func (d *describer) ref(t reflect.Type) any {
	if t.Kind() == reflect.Map {
		return object{"type": "object"}
	}
	r := []rune(t.Name())
	name := string(unicode.ToUpper(r[0])) + string(r[1:])
	if d.schemas[name] == nil {
		s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
			of[json.RawMessage](): {}, of[[]byte](): {Type: "string", ContentEncoding: "base64"}, of[eventjson.Value](): {Type: "object", Description: "see events/FORMAT.md: the fields of the kind, by their names in lower_snake"},
		}})
		if err != nil && d.err == nil {
			d.err = fmt.Errorf("schema of %s: %w", name, err)
		}
		d.schemas[name] = withoutNull(s)
	}
	return object{"$ref": "#/components/schemas/" + name}
}

// withoutNull takes null from lists and optional fields: they are there, or left out.
func withoutNull(s *jsonschema.Schema) *jsonschema.Schema {
	if s == nil {
		return nil
	}
	if i := slices.Index(s.Types, "null"); i >= 0 && len(s.Types) == 2 {
		s.Type, s.Types = s.Types[1-i], nil
	}
	for _, p := range s.Properties {
		withoutNull(p)
	}
	withoutNull(s.Items)
	return s
}
