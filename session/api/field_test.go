package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

type outer struct {
	base
	Text  string            `json:"text"`
	Parts []inner           `json:"parts"`
	Raw   json.RawMessage   `json:"raw"`
	Named map[string]*inner `json:"named"`
	Not   string            `json:"-"`
}

type base struct {
	Title string `json:"title"`
}

type inner struct {
	Kind  string `json:"kind"`
	Width int    `json:"width"`
}

// TestUnknownFieldListsKnownOnes has an unknown field at each place of a value. The most similar name is the first one.
func TestUnknownFieldListsKnownOnes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ body, want string }{
		{`{"txet":1}`, "txet: is unknown: known are text, named, parts, raw, title"},
		{`{"parts":[{},{"kynd":""}]}`, "parts[1].kynd: is unknown: known are kind, width"},
		{`{"named":{"any":{"witdh":1}}}`, "named.any.witdh: is unknown: known are width, kind"},
		{`{"":1}`, `"": is unknown: known are `},
		{`{"parts":[{"":1}]}`, `parts[0]."": is unknown: known are `},
		{`{"Not":""}`, "Not: is unknown: known are "},
		{`{"TEXT":"","title":"","raw":{"any":{}}}`, ""},
		{`{"text":{"any":1},"parts":{"a":1}}`, ""}, // the decoder reports the wrong type
		{`no JSON`, ""},
	} {
		err := api.CheckFields([]byte(c.body), reflect.TypeFor[*outer]())
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: got %v, want none", c.body, err)
			}
			continue
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || !errors.Is(err, api.ErrRequest) {
			t.Errorf("%s: got %v, want %q", c.body, err, c.want)
		}
	}
}

// TestUnknownFieldIsBounded has a long name, and more known ones than are listed.
func TestUnknownFieldIsBounded(t *testing.T) {
	t.Parallel()
	var known []string
	for i := range 30 {
		known = append(known, fmt.Sprintf("f%02d", i))
	}
	if got := api.UnknownField("f29", known).Reason; !strings.HasPrefix(got, "is unknown: known are f29, f0") || !strings.HasSuffix(got, " and 10 more") || strings.Count(got, ",") != 19 {
		t.Errorf("got %q, want 20 names and the number of the others", got)
	}
	long := `{"` + strings.Repeat("x", 1<<20) + `":1}`
	err := api.CheckFields([]byte(long), reflect.TypeFor[inner]())
	if field, ok := errors.AsType[*events.FieldError](err); !ok || len(field.Field) > events.MaxTokenBytes {
		t.Errorf("got a message of %d bytes", len(fmt.Sprint(err)))
	}
}
