package httpapi

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

var allWords = sync.OnceValue(words) //nolint:gochecknoglobals // made once, never changed

// walk visits a value of a body and the values in it, by their field's names in the body, until an error.
func walk(at string, v reflect.Value, visit func(at string, v reflect.Value) error) error {
	if err := visit(at, v); err != nil {
		return err
	}
	switch kind := v.Kind(); {
	case kind == reflect.Pointer && !v.IsNil():
		return walk(at, v.Elem(), visit)
	case kind == reflect.Struct:
		for field, inner := range v.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			if at != "" && name != "" {
				name = at + "." + name
			}
			if name == "" { // embedded
				name = at
			}
			if err := walk(name, inner, visit); err != nil {
				return err
			}
		}
	case kind == reflect.Slice && !isBytes(v.Type()):
		for i := range v.Len() {
			if err := walk(fmt.Sprintf("%s[%d]", at, i), v.Index(i), visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkWord refuses a word that is not in the enum of its field. An empty word counts as absent.
func checkWord(at string, v reflect.Value) error {
	list, closed := allWords()[v.Type()]
	if !closed || v.String() == "" || slices.Contains(list, v.String()) {
		return nil
	}
	list = slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == "" })
	return invalid("invalid", at, ": ", fmt.Sprintf("unknown %.100q: it is one of %s", v.String(), strings.Join(list, ", ")))
}
