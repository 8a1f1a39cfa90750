package harness

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/internal/runtest"
)

// Document is the OpenAPI document as a client reads it. Every response is checked against it.
type Document struct {
	Paths map[string]map[string]struct {
		ID        string                      `json:"operationId"`
		Scope     string                      `json:"x-scope"`
		Right     string                      `json:"x-right"`
		Body      *DocumentBody               `json:"requestBody"`
		Responses map[string]DocumentResponse `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*jsonschema.Schema `json:"schemas"`
	} `json:"components"`

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved // by the schema's JSON: most responses refer to the same few schemas
	Produced map[string]bool                 // operation and status
}

// DocumentBody is a body in the document.
type DocumentBody struct {
	Content map[string]struct {
		Schema *jsonschema.Schema `json:"schema"`
	} `json:"content"`
}

// DocumentResponse is a response in the document.
type DocumentResponse struct {
	Content map[string]struct {
		Schema *jsonschema.Schema `json:"schema"`
	} `json:"content"`
}

// documentOf reads a document, whose schemas refer to each other.
func documentOf(t *testing.T, data []byte) *Document {
	t.Helper()
	data = bytes.ReplaceAll(data, []byte("#/components/schemas/"), []byte("#/$defs/"))
	d := &Document{resolved: make(map[string]*jsonschema.Resolved), Produced: map[string]bool{"document 200": true}}
	runtest.WantError(t, "document", json.Unmarshal(data, d), nil)
	return d
}

// Operation is an operation of the document.
type Operation struct {
	ID, Method, Path, Scope, Right string

	Given  bool     // its body is bytes, not JSON
	Fields []string // of its body
}

// Operations lists the operations of the document.
func (d *Document) Operations() []Operation {
	var list []Operation
	for path, methods := range d.Paths {
		for method, op := range methods {
			one := Operation{ID: op.ID, Method: strings.ToUpper(method), Path: path, Scope: op.Scope, Right: op.Right}
			if op.Body != nil {
				content, json := op.Body.Content["application/json"]
				one.Given = !json
				if json {
					one.Fields = d.fieldsOf(content.Schema)
				}
			}
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b Operation) int { return strings.Compare(a.ID, b.ID) })
	return list
}

// fieldsOf are the fields of an object, or of the object that the schema refers to.
func (d *Document) fieldsOf(s *jsonschema.Schema) []string {
	if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
		s = d.Components.Schemas[name]
	}
	return slices.Sorted(maps.Keys(s.Properties))
}

// Path finds the template of a request's path, one without parameters first.
func (d *Document) Path(method, path string) string {
	best := ""
	for template, methods := range d.Paths {
		if methods[strings.ToLower(method)].ID == "" || !fits(template, path) {
			continue
		}
		if best == "" || strings.Count(template, "{") < strings.Count(best, "{") {
			best = template
		}
	}
	return best
}

func fits(template, path string) bool {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	return slices.EqualFunc(want, got, func(a, b string) bool { return a == b || strings.HasPrefix(a, "{") && b != "" })
}

// Check checks a response against the document.
func (d *Document) Check(t *testing.T, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	template := d.Path(method, path)
	if template == "" {
		return // no operation: the document describes no response
	}
	op := d.Paths[template][strings.ToLower(method)]
	answer, ok := op.Responses[fmt.Sprint(status)]
	if !ok {
		t.Errorf("%s %s: got undocumented status %d: %s", method, path, status, body)
		return
	}
	d.mu.Lock()
	d.Produced[op.ID+" "+fmt.Sprint(status)] = true
	d.mu.Unlock()
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	content, ok := answer.Content[kind]
	if ok != (len(answer.Content) > 0) || (kind != "") != (len(answer.Content) > 0) {
		t.Errorf("%s %s: got %d with content %q, the document has %v", method, path, status, kind, answer.Content)
		return
	}
	if ok && kind != "text/event-stream" && kind != "application/octet-stream" {
		d.validate(t, method+" "+path, content.Schema, body)
	}
}

func (d *Document) validate(t *testing.T, what string, schema *jsonschema.Schema, body []byte) {
	t.Helper()
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Errorf("%s: got %q, want JSON", what, body)
		return
	}
	if err := d.schema(t, schema).Validate(v); err != nil {
		t.Errorf("%s: got %s, which is not as documented: %v", what, body, err)
	}
}

func (d *Document) schema(t *testing.T, schema *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	key, err := json.Marshal(schema)
	runtest.WantError(t, "schema", err, nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resolved[string(key)] == nil {
		root := schema.CloneSchemas()
		root.Defs = d.Components.Schemas
		s, err := root.CloneSchemas().Resolve(nil)
		runtest.WantError(t, "schema", err, nil)
		d.resolved[string(key)] = s
	}
	return d.resolved[string(key)]
}
