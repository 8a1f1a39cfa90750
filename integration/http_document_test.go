package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// apiDocument is the OpenAPI document as a client reads it. It is held against every answer.
type apiDocument struct {
	Paths map[string]map[string]struct {
		ID        string                    `json:"operationId"`
		Scope     string                    `json:"x-scope"`
		Right     string                    `json:"x-right"`
		Body      *documentBody             `json:"requestBody"`
		Responses map[string]documentAnswer `json:"responses"`
	} `json:"paths"`
	Components struct {
		Schemas map[string]*jsonschema.Schema `json:"schemas"`
	} `json:"components"`

	mu       sync.Mutex
	resolved map[*jsonschema.Schema]*jsonschema.Resolved
	produced map[string]bool // operation and status
}

type documentBody struct {
	Content map[string]struct{} `json:"content"`
}

type documentAnswer struct {
	Content map[string]struct {
		Schema *jsonschema.Schema `json:"schema"`
	} `json:"content"`
}

// documentOf reads a document, whose schemas refer to each other.
func documentOf(t *testing.T, data []byte) *apiDocument {
	t.Helper()
	data = bytes.ReplaceAll(data, []byte("#/components/schemas/"), []byte("#/$defs/"))
	d := &apiDocument{resolved: make(map[*jsonschema.Schema]*jsonschema.Resolved), produced: map[string]bool{"document 200": true}}
	must(t, "document", json.Unmarshal(data, d), nil)
	return d
}

// documented is an operation of the document.
type documented struct {
	id, method, path, scope, right string

	given bool // its body is no JSON but bytes
}

func (d *apiDocument) operations() []documented {
	var list []documented
	for path, methods := range d.Paths {
		for method, op := range methods {
			one := documented{id: op.ID, method: strings.ToUpper(method), path: path, scope: op.Scope, right: op.Right}
			if op.Body != nil {
				_, json := op.Body.Content["application/json"]
				one.given = !json
			}
			list = append(list, one)
		}
	}
	slices.SortFunc(list, func(a, b documented) int { return strings.Compare(a.id, b.id) })
	return list
}

// path finds the template of a request's path, one without parameters first.
func (d *apiDocument) path(method, path string) string {
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

// check holds an answer against the document.
func (d *apiDocument) check(t *testing.T, method, path string, status int, header http.Header, body []byte) {
	t.Helper()
	template := d.path(method, path)
	if template == "" {
		return // no operation: nothing is promised
	}
	op := d.Paths[template][strings.ToLower(method)]
	answer, ok := op.Responses[fmt.Sprint(status)]
	if !ok {
		t.Errorf("%s %s: got undocumented status %d: %s", method, path, status, body)
		return
	}
	d.mu.Lock()
	d.produced[op.ID+" "+fmt.Sprint(status)] = true
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

func (d *apiDocument) validate(t *testing.T, what string, schema *jsonschema.Schema, body []byte) {
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

func (d *apiDocument) schema(t *testing.T, schema *jsonschema.Schema) *jsonschema.Resolved {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.resolved[schema] == nil {
		root := schema.CloneSchemas()
		root.Defs = d.Components.Schemas
		s, err := root.CloneSchemas().Resolve(nil)
		must(t, "schema", err, nil)
		d.resolved[schema] = s
	}
	return d.resolved[schema]
}

// missing are the documented statuses that no request has produced.
func (d *apiDocument) missing() []string {
	var list []string
	for _, methods := range d.Paths {
		for _, op := range methods {
			for status := range op.Responses {
				if name := op.ID + " " + status; status != "default" && !d.produced[name] {
					list = append(list, name)
				}
			}
		}
	}
	slices.Sort(list)
	return list
}
