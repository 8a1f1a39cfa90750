package api

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
)

// details are the data of an error in its wire form: its fields by their names in lower case, numbers in decimal. The names of
// the fields are part of the wire format.
type details = map[string]string

// detailed maps an error with data to its wire form.
type detailed struct {
	code  string // empty: the code of the sentinel that the error is
	class Class  // with code
	of    reflect.Type
}

// withData is the one table of errors with data. For an error that matches several rows the first row counts.
//
//nolint:gochecknoglobals // a read-only table
var withData = []detailed{
	{"stale_branch", ClassConflict, reflect.TypeFor[*StaleBranchError]()},
	{"generation", ClassConflict, reflect.TypeFor[*GenerationError]()},
	{"moved", ClassConflict, reflect.TypeFor[*events.ConflictError]()},
	{"cursor", ClassConflict, reflect.TypeFor[*CursorError]()},
	{"turn_rejected", ClassConflict, reflect.TypeFor[*TurnRejectedError]()},
	{"session_erased", ClassNotFound, reflect.TypeFor[*events.ErasedError]()},
	{"commits_lost", ClassLost, reflect.TypeFor[*events.LostError]()},
	{"limit", ClassBusy, reflect.TypeFor[*LimitError]()},
	{of: reflect.TypeFor[*TurnFailedError]()},
	{of: reflect.TypeFor[*ProviderError]()},
	{of: reflect.TypeFor[*events.FieldError]()},
}

// detail returns the row and the data of an error with data; the zero row for others.
func detail(err error) (detailed, details) {
	for _, row := range withData {
		if e := reflect.New(row.of); errors.As(err, e.Interface()) {
			d := make(details)
			eachField("", e.Elem().Elem(), func(name string, field reflect.Value) {
				switch {
				case field.Kind() == reflect.String:
					d[name] = clip(field.String())
				case field.CanInt():
					d[name] = strconv.FormatInt(field.Int(), 10)
				case field.CanUint():
					d[name] = strconv.FormatUint(field.Uint(), 10)
				}
			})
			return row, d
		}
	}
	return detailed{}, nil
}

// decode is the inverse of detail. sentinel is that of the body's code; nil: it has none. The error is nil where the body is another
// row's: an error without a code of its own has all its fields there.
func (row detailed) decode(b ErrorBody, sentinel error) error {
	if row.code != "" && row.code != b.Code || row.code == "" && sentinel == nil {
		return nil
	}
	e, complete := reflect.New(row.of.Elem()), true
	eachField("", e.Elem(), func(name string, field reflect.Value) {
		text, has := b.Details[name]
		switch {
		case field.Kind() == reflect.Interface: // the cause
			if sentinel != nil {
				field.Set(reflect.ValueOf(sentinel))
			}
			return
		case field.Kind() == reflect.String:
			field.SetString(text)
		case field.CanInt():
			n, _ := strconv.ParseInt(text, 10, 64) // invalid text is 0
			field.SetInt(n)
		case field.CanUint():
			n, _ := strconv.ParseUint(text, 10, 64)
			field.SetUint(n)
		}
		complete = complete && has
	})
	if row.code == "" && !complete {
		return nil
	}
	return e.Interface().(error)
}

// eachField visits the fields of an error, and of a struct in it, by their names in the details.
func eachField(prefix string, v reflect.Value, visit func(name string, field reflect.Value)) {
	for f, field := range v.Fields() {
		name := prefix + strings.ToLower(f.Name)
		if field.Kind() == reflect.Struct {
			eachField(name+"_", field, visit)
		} else {
			visit(name, field)
		}
	}
}
