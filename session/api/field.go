package api

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// maxKnown limits the names that an error lists.
const maxKnown = 20

// CheckFields refuses a JSON value with an object field that its Go type lacks. The error is an [*events.FieldError]
// with the path of the field, and with at most 20 of the names that its object may have, the most similar one first.
// It is nil where data is no JSON, or has another form than the type: the decoder reports that.
func CheckFields(data []byte, of reflect.Type) error {
	var v any
	if json.Unmarshal(data, &v) != nil {
		return nil
	}
	return checkFields("", v, of)
}

func checkFields(at string, v any, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return nil // any JSON, or a form of its own
	}
	switch v := v.(type) {
	case []any:
		if t.Kind() != reflect.Slice {
			return nil
		}
		for i, e := range v {
			if err := checkFields(at+"["+strconv.Itoa(i)+"]", e, t.Elem()); err != nil {
				return err
			}
		}
	case map[string]any:
		return checkObject(at, v, t)
	}
	return nil
}

func checkObject(at string, v map[string]any, t reflect.Type) error {
	if at != "" {
		at += "."
	}
	known := make(map[string]reflect.Type)
	if t.Kind() == reflect.Struct {
		jsonFields(t, known)
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		inner, ok := known[name]
		switch {
		case t.Kind() == reflect.Map:
			inner = t.Elem()
		case t.Kind() != reflect.Struct:
			return nil
		case !ok: // the decoder ignores case
			inner, ok = fieldOfAnyCase(known, name)
			if !ok {
				return UnknownField(at+clipped(name), slices.Collect(maps.Keys(known)))
			}
		}
		if err := checkFields(at+clipped(name), v[name], inner); err != nil {
			return err
		}
	}
	return nil
}

// clipped is a name of a request as a part of a field's name, of which none is empty.
func clipped(name string) string { return cmp.Or(events.Clip(name, events.MaxTokenBytes, "..."), `""`) }

func fieldOfAnyCase(known map[string]reflect.Type, name string) (reflect.Type, bool) {
	for k, t := range known {
		if strings.EqualFold(k, name) {
			return t, true
		}
	}
	return nil, false
}

// jsonFields adds the fields of a struct, and of those that it embeds, by their names in JSON.
func jsonFields(t reflect.Type, into map[string]reflect.Type) {
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && f.Anonymous:
			jsonFields(f.Type, into)
		case name == "":
			into[f.Name] = f.Type
		default:
			into[name] = f.Type
		}
	}
}

// UnknownField is the error of a field that its object cannot have. field may be a path. known are the names that the object may
// have, in any order.
func UnknownField(field string, known []string) *events.FieldError {
	name := strings.ToLower(field[strings.LastIndexByte(field, '.')+1:])
	slices.SortFunc(known, func(a, b string) int {
		if d := distance(name, strings.ToLower(a)) - distance(name, strings.ToLower(b)); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	reason := "is unknown: no field is known here"
	if n := len(known); n > maxKnown {
		reason = "is unknown: known are " + strings.Join(known[:maxKnown], ", ") + " and " + strconv.Itoa(n-maxKnown) + " more"
	} else if n > 0 {
		reason = "is unknown: known are " + strings.Join(known, ", ")
	}
	return &events.FieldError{Field: field, Reason: reason, Err: ErrRequest}
}

// distance is the number of bytes to insert, remove or replace to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}
