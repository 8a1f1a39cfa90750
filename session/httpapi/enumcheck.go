package httpapi

import (
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"
)

var allWords = sync.OnceValue(words) //nolint:gochecknoglobals // made once, never changed

// checkWords refuses a word that is not in the enum of its field, by the field's name in the body. An empty word
// counts as absent.
func checkWords(at string, v reflect.Value) error {
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		if !v.IsNil() {
			return checkWords(at, v.Elem())
		}
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
			if err := checkWords(name, inner); err != nil {
				return err
			}
		}
	case kind == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		for i := range v.Len() {
			if err := checkWords(fmt.Sprintf("%s[%d]", at, i), v.Index(i)); err != nil {
				return err
			}
		}
	case kind == reflect.String:
		list, closed := allWords()[v.Type()]
		if closed && v.String() != "" && !slices.Contains(list, v.String()) {
			return unknownWord(at, v.String(), list)
		}
	}
	return nil
}

func unknownWord(field, word string, list []string) *problem {
	list = slices.DeleteFunc(slices.Clone(list), func(w string) bool { return w == "" })
	reason := fmt.Sprintf("unknown %.100q: it is one of %s", word, strings.Join(list, ", "))
	return &problem{Status: http.StatusBadRequest, Code: "invalid", Detail: field + ": " + reason, Details: map[string]string{"field": field, "reason": reason}}
}
