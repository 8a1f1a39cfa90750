package httpapi

import (
	"reflect"
	"slices"
	"testing"

	"github.com/lash-go/lash/session/operation"
)

// TestRoutesOfTable checks that exactly the rows of the table of operations with an HTTP path are served.
func TestRoutesOfTable(t *testing.T) {
	t.Parallel()
	want, have := []string{"document"}, []string(nil)
	for _, r := range operation.All() {
		if r.Route != "" {
			want = append(want, r.ID)
		}
	}
	for _, r := range routes() {
		have = append(have, r.name)
	}
	slices.Sort(want)
	slices.Sort(have)
	if !slices.Equal(have, want) {
		t.Errorf("got routes %v, want %v", have, want)
	}
}

// TestPlainRoutes checks that a plain route needs no conversion: the session is the only parameter of its path, and
// the fields of its types have names in JSON.
func TestPlainRoutes(t *testing.T) {
	t.Parallel()
	for _, r := range jsonRoutes() {
		if params := r.pathParams(); len(params) > 1 {
			t.Errorf("%s: got the parameters %v in the path of a plain route", r.name, params)
		}
		unnamed(t, r.name, r.request)
		for _, out := range r.responses {
			unnamed(t, r.name, out)
		}
	}
}

// unnamed fails for fields without a name in JSON.
func unnamed(t *testing.T, route string, typ reflect.Type) {
	t.Helper()
	switch {
	case typ == nil:
	case typ.Kind() != reflect.Struct:
		t.Errorf("%s: got %s in a plain route, want a struct", route, typ)
	default:
		for _, f := range reflect.VisibleFields(typ) {
			if f.IsExported() && f.Tag.Get("json") == "" {
				t.Errorf("%s: got no JSON name of %s.%s", route, typ, f.Name)
			}
		}
	}
}
