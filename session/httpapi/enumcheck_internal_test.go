package httpapi

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// wrongWords are bodies of a type with one unknown word each, by the field with the word.
func wrongWords(typ reflect.Type, above ...reflect.Type) map[string]string {
	list := make(map[string]string)
	if _, closed := allWords()[typ]; closed {
		return map[string]string{"": `"no_such_word"`}
	}
	for _, t := range above {
		if t == typ {
			return nil
		}
	}
	above = append(above, typ)
	if typ.Kind() == reflect.Pointer {
		return wrongWords(typ.Elem(), above...)
	}
	if typ.Kind() == reflect.Slice {
		for at, body := range wrongWords(typ.Elem(), above...) {
			list["[0]"+dot(at)] = "[" + body + "]"
		}
	}
	if typ.Kind() != reflect.Struct {
		return list
	}
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		for at, body := range wrongWords(field.Type, above...) {
			if field.Anonymous && name == "" {
				list[at] = body
			} else {
				list[name+dot(at)] = `{"` + name + `":` + body + `}`
			}
		}
	}
	return list
}

func dot(at string) string {
	if at == "" || at[0] == '[' {
		return at
	}
	return "." + at
}

// TestUnknownWordsNameTheirField sends an unknown word in every enum field of every body.
func TestUnknownWordsNameTheirField(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, r := range routes() {
		if r.request == nil {
			continue
		}
		for at, body := range wrongWords(r.request) {
			err := decodeBody([]byte(body), reflect.New(r.request).Interface())
			p, ok := errors.AsType[*problem](err)
			if !ok || p.Code != "invalid" || p.Details["field"] != at || !strings.Contains(p.Detail, ": it is one of ") {
				t.Errorf("%s %s: %s is answered with %v, want a problem of the field %s", r.method, r.path, body, err, at)
			}
			checked++
		}
	}
	if checked < 25 {
		t.Errorf("checked %d fields, want all", checked)
	}
}
