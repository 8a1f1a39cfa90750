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

// TestForms checks that each field of a form has a counterpart in the type of the service, or says that it has none, and that each field
// of a type without a form has a name.
func TestForms(t *testing.T) {
	t.Parallel()
	own := ownRoutes()
	for _, row := range operation.All() {
		r := own[row]
		if row.Route == "" || r.handle != nil {
			continue
		}
		for _, pair := range []struct {
			form reflect.Type
			of   any
		}{{r.in, row.In}, {r.out, row.Out}} {
			form, of := pair.form, pair.of
			switch {
			case form == nil:
				unnamed(t, row.ID, reflect.TypeOf(of))
			case !reflect.PointerTo(form).Implements(typeOf[completed]()):
				lacking(t, row.ID, form, reflect.TypeOf(of))
			}
		}
	}
}

// lacking fails for fields of a form without a counterpart.
func lacking(t *testing.T, at string, form, of reflect.Type) {
	t.Helper()
	for form.Kind() == reflect.Pointer || of.Kind() == reflect.Pointer || form.Kind() == reflect.Slice && of.Kind() == reflect.Slice {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
			continue
		}
		if form.Kind() == reflect.Slice {
			of = of.Elem()
		}
		form = form.Elem()
	}
	if form == of || form.Kind() != reflect.Struct {
		return
	}
	for f := range form.Fields() {
		source := sourceOf(f, reflect.New(of).Elem())
		switch {
		case source.IsValid():
			lacking(t, at+"."+f.Name, f.Type, source.Type())
		case inPart(f, form, of):
		case f.Tag.Get("from") != "-" && !reflect.PointerTo(form).Implements(typeOf[adjusted]()):
			t.Errorf("%s.%s: got no counterpart in %s", at, f.Name, of)
		}
	}
}

// inPart reports whether a field of a form is one of a struct in a type, which the form has no field for.
func inPart(f reflect.StructField, form, of reflect.Type) bool {
	for part := range of.Fields() {
		if _, has := form.FieldByName(part.Name); !has && part.Type.Kind() == reflect.Struct && sourceOf(f, reflect.New(part.Type).Elem()).IsValid() {
			return true
		}
	}
	return false
}

// unnamed fails for fields without a name in a request or an answer.
func unnamed(t *testing.T, at string, typ reflect.Type) {
	t.Helper()
	if typ.Kind() != reflect.Struct {
		t.Errorf("%s: got %s without a form, want a struct", at, typ)
		return
	}
	for _, f := range reflect.VisibleFields(typ) {
		tag := f.Tag
		if f.IsExported() && !f.Anonymous && tag.Get("json")+tag.Get("query")+tag.Get("path") == "" {
			t.Errorf("%s: got no name of %s.%s", at, typ, f.Name)
		}
	}
}
