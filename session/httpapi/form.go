package httpapi

import (
	"cmp"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
)

// A type of the service whose JSON has other values than its fields has a form in this package: a struct with fields of the same
// names. convert copies in both directions: what a request has into the type, and what the service returned into the form.
// A form may have the fields of a struct in a request itself. The tag from is the path of the field that a form shows under another name; a dot is the whole value. A value that is no
// struct stands in the first field of its form. A word whose zero value has a name in JSON has a row in [zeroWords].

// adjusted is a form with a field that has no counterpart.
type adjusted interface {
	// adjust sets such fields. from is a pointer to the value that the form shows.
	adjust(from any)
}

// shown fills in a form from a value. form is a pointer.
func shown[Form any](form Form, value any) Form {
	from := reflect.New(reflect.TypeOf(value)).Elem()
	from.Set(reflect.ValueOf(value))
	convert(reflect.ValueOf(form).Elem(), from)
	return form
}

// assign fills in a value from a form. Both are pointers.
func assign(to, form any) { convert(reflect.ValueOf(to).Elem(), reflect.ValueOf(form).Elem()) }

// convert sets a value from another one. A nil pointer and an absent field leave what is there.
func convert(to, from reflect.Value) {
	given := from.Kind() == reflect.Pointer
	for from.Kind() == reflect.Pointer {
		if from.IsNil() {
			return
		}
		from = from.Elem()
	}
	switch {
	case to.Kind() == reflect.Pointer:
		if given || !isZero(from) {
			to.Set(reflect.New(to.Type().Elem()))
			convert(to.Elem(), from)
		}
	case from.Type() != to.Type() && (to.Type() == typeOf[events.Number]() || from.Type() == typeOf[events.Number]()):
		convertNumber(to, from)
	case to.Kind() == reflect.Struct:
		if given {
			to.SetZero()
		}
		convertFields(to, from)
	case from.Kind() == reflect.Struct:
		convert(to, from.Field(0))
	case from.Kind() == reflect.String:
		to.SetString(wordIn(to.Type(), from))
	case isBytes(from.Type()):
		to.SetBytes(from.Bytes())
		if to.Type() == typeOf[json.RawMessage]() && to.Len() > 0 {
			to.SetBytes(eventjson.Raw(from.Bytes()))
		}
	case from.Kind() == reflect.Slice:
		if !from.IsNil() {
			to.Set(reflect.MakeSlice(to.Type(), from.Len(), from.Len()))
		}
		for i := range from.Len() {
			convert(to.Index(i), from.Index(i))
		}
	default:
		to.Set(from.Convert(to.Type()))
	}
}

// convertFields sets the fields of a struct. A list that JSON does not omit is not nil.
func convertFields(to, from reflect.Value) {
	for i := range to.NumField() {
		f, field := to.Type().Field(i), to.Field(i)
		if source := sourceOf(f, from); source.IsValid() {
			convert(field, source)
		}
		if tag := f.Tag.Get("json"); f.Type.Kind() == reflect.Slice && !isBytes(f.Type) && field.IsNil() && tag != "" && !strings.Contains(tag, ",omitempty") {
			field.Set(reflect.MakeSlice(f.Type, 0, 0))
		}
	}
	if form, ok := to.Addr().Interface().(adjusted); ok {
		form.adjust(from.Addr().Interface())
	}
}

// sourceOf is the value of a field in another form; not valid: it has none.
func sourceOf(f reflect.StructField, from reflect.Value) (source reflect.Value) {
	path, named := f.Tag.Lookup("from")
	switch {
	case !f.IsExported():
	case f.Anonymous, path == ".":
		source = from
	case from.Kind() == reflect.Struct:
		if !named {
			path = f.Name
		}
		source = from
		for name := range strings.SplitSeq(path, ".") {
			if source = source.FieldByName(name); !source.IsValid() {
				break
			}
		}
		if !source.IsValid() && f.Type.Kind() == reflect.Struct && f.Tag.Get("json") == "" {
			source = from // a part of a request, whose fields the form has itself
		}
	case f.Index[0] == 0:
		source = from
	}
	return source
}

func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

func isZero(v reflect.Value) bool {
	if z, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return z.IsZero()
	}
	return v.IsZero()
}

// wordIn is a word as a type has it: the one that stands for the zero value, or the empty one.
func wordIn(t reflect.Type, from reflect.Value) string {
	word := from.String()
	if word == zeroWords[from.Type()].zero {
		word = ""
	}
	return cmp.Or(word, zeroWords[t].zero)
}

// convertNumber converts a number of the format from or to one of JSON.
func convertNumber(to, from reflect.Value) {
	switch {
	case from.CanFloat():
		to.SetString(strconv.FormatFloat(from.Float(), 'g', -1, 64))
	case from.CanInt():
		to.SetString(strconv.FormatInt(from.Int(), 10))
	case to.CanFloat():
		v, _ := strconv.ParseFloat(from.String(), 64) // the host has checked it
		to.SetFloat(v)
	default:
		v, _ := strconv.ParseInt(from.String(), 10, 64)
		to.SetInt(v)
	}
}
