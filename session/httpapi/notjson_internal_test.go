package httpapi

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// TestNotJSONNamesTheByte sends every operation with a body one that is cut anywhere, one with a byte anywhere that JSON does not
// have there, and one that something follows. The refusal names the byte, counted from 1 on.
func TestNotJSONNamesTheByte(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, r := range routes() {
		if r.request == nil {
			continue
		}
		refused := func(body, want string) {
			t.Helper()
			checked++
			p, ok := errors.AsType[*problem](decodeBody([]byte(body), reflect.New(r.request).Interface()))
			if !ok || p.Code != "invalid_body" || p.Details["field"] != "body" || !strings.Contains(p.Detail, want) || !strings.Contains(p.Details["reason"], want) {
				t.Errorf("%s: %q: got %+v, want %q", r.name, body, p, want)
			}
		}
		for _, whole := range bodiesOf(r.request) {
			for i := range len(whole) {
				if i > 0 {
					refused(whole[:i], fmt.Sprintf("is not complete: it ends after byte %d, want ", i))
				}
				refused(whole[:i]+"\x01"+whole[i+1:], fmt.Sprintf("is no JSON at byte %d: invalid character ", i+1))
			}
		}
		for _, space := range []string{"", " \r\n\t "} {
			for _, rest := range []string{"{}", "]", "x", ",", "\x00", `"`} {
				refused("{}"+space+rest, fmt.Sprintf("follows the JSON at byte %d: want one value", 3+len(space)))
			}
		}
	}
	if checked < 1000 {
		t.Errorf("%d bodies were tested, want those of every operation", checked)
	}
}

// bodiesOf are bodies of a type: an empty one, and one for each field.
func bodiesOf(typ reflect.Type) []string {
	list := []string{"{}"}
	if typ.Kind() != reflect.Struct {
		return list
	}
	for i := range typ.NumField() {
		if name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ","); name != "" {
			list = append(list, fmt.Sprintf(`{%q: [null, "x"]}`, name))
		}
	}
	return list
}
