package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/session/api"
)

// goName matches the name of a Go type.
var goName = regexp.MustCompile(`Go |[a-z]\.[A-Z]|map\[|\[\]|int64`)

// wrongBodies returns bodies with one field replaced by a value of each JSON type, mapped to the path of that field.
// within is the JSON around a value of the type.
func wrongBodies(t reflect.Type, path, within string, depth int) map[string]string {
	switch {
	case t.Kind() == reflect.Pointer:
		return wrongBodies(t.Elem(), path, within, depth)
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct:
		return wrongBodies(t.Elem(), path, fmt.Sprintf(within, "[%s]"), depth)
	}
	list := make(map[string]string)
	if t.Kind() != reflect.Struct || depth == 0 {
		return list
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at, around := strings.TrimPrefix(path+"."+name, "."), fmt.Sprintf(within, fmt.Sprintf("{%q:%%s}", name))
		for _, value := range []string{`1`, `-1.5`, `1e99`, `true`, `"%"`, `[[true]]`, `[5]`, `{"x":[1]}`} {
			list[fmt.Sprintf(around, value)] = at
		}
		maps.Copy(list, wrongBodies(t.Field(i).Type, at, around, depth-1))
	}
	return list
}

// TestRefusalsNameFieldsOfTheWire sends values of every JSON type in place of every field of every operation. A
// refusal of the type names the JSON field, and no Go type.
func TestRefusalsNameFieldsOfTheWire(t *testing.T) {
	t.Parallel()
	named := 0
	for _, r := range routes() {
		if r.request == nil {
			continue
		}
		bodies := wrongBodies(r.request, "", "%s", 3)
		for _, value := range []string{`1`, `"x"`, `[]`, `true`} {
			bodies[value] = "body"
		}
		for body, field := range bodies {
			err := decodeBody([]byte(body), reflect.New(r.request).Interface())
			if err == nil {
				continue
			}
			p, ok := errors.AsType[*problem](err)
			if !ok || goName.MatchString(p.Detail) {
				t.Errorf("%s of %s: got %v, want no type of Go in it", body, r.name, err)
				continue
			}
			if !strings.Contains(p.Detail, ", want ") {
				continue // accepted, or refused for another reason
			}
			named++
			if at := p.Details["field"]; !strings.HasPrefix(at+".", field+".") || !json.Valid([]byte(body)) {
				t.Errorf("%s of %s: got field %q, want %q: %s", body, r.name, at, field, p.Detail)
			}
		}
	}
	if named < 100 {
		t.Errorf("got %d refusals with a field, want one of every field", named)
	}
}

// TestUnknownFieldIsNamed: the refusal of a body names the field that no operation knows.
func TestUnknownFieldIsNamed(t *testing.T) {
	t.Parallel()
	p := new(problem)
	if err := decodeBody([]byte(`{"txt":"hi"}`), &struct{}{}); !errors.As(err, &p) || p.Details["field"] != "txt" || p.Code != "invalid_body" {
		t.Errorf("got %v, %v, want the field's name", err, p.Details)
	}
}

// TestNumbersFitJavaScript: the start of a call in a hundred years is exact as a JavaScript number.
func TestNumbersFitJavaScript(t *testing.T) {
	t.Parallel()
	at := time.Date(2126, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	seen := func(yield func(api.Observed, error) bool) { yield(api.Observed{Delta: &api.Delta{Call: at}}, nil) }
	for m, err := range observed(seen, nil) {
		if got := m.data.(api.Delta).Call; err != nil || got >= 1<<53 || got != at/1000 {
			t.Errorf("got %d, want %d, below 2^53", got, at/1000)
		}
	}
}

// TestLongRefusalsAreShort sends every operation a body in which a field's name or a number has 900 KB. No text of the
// refusal is above the limit.
func TestLongRefusalsAreShort(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, r := range routes() {
		if r.request == nil {
			continue
		}
		bodies := []string{`{"` + strings.Repeat("<", 900_000) + `":1}`}
		for body := range wrongBodies(r.request, "", "%s", 3) {
			if strings.Contains(body, "1e99") {
				bodies = append(bodies, strings.Replace(body, "1e99", strings.Repeat("9", 900_000), 1))
			}
		}
		for _, body := range bodies {
			err := decodeBody([]byte(body), reflect.New(r.request).Interface())
			if err == nil {
				continue // any JSON is accepted there
			}
			p := new(Server).reportProblem(httptest.NewRequest(http.MethodPost, "/", nil), err)
			for name, text := range p.Details {
				if len(text) > maxText {
					t.Errorf("%s: %.60s: %s has %d bytes", r.name, body, name, len(text))
				}
			}
			if len(p.Detail) > maxText {
				t.Errorf("%s: %.60s: the detail has %d bytes", r.name, body, len(p.Detail))
			}
			checked++
		}
	}
	if checked < 100 {
		t.Errorf("%d bodies were refused", checked)
	}
}
