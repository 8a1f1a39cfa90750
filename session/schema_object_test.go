package session_test

import (
	"encoding/json"
	"testing"

	"github.com/lash-go/lash/session/schema"
)

// TestObject takes every form that a schema of arguments can have. The JSON of an accepted one is what both chat APIs need: an
// object, of no other type.
func TestObject(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		`true`: true, `{}`: true, `{"type":"object"}`: true, `{"properties":{"a":true}}`: true, `{"type":["object","null"]}`: true,
		`{"anyOf":[{"type":"object"},{"required":["a"]}]}`: true,
		`false`: false, `{"type":"string"}`: false, `{"type":"array","items":{"type":"object"}}`: false, `{"type":["string","null"]}`: false, `{"type":"null"}`: false,
	} {
		s, err := schema.Parse("schema", []byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		got, err := schema.Object("schema", s)
		var object map[string]json.RawMessage
		if accepted := err == nil && json.Unmarshal(got, &object) == nil && object != nil; accepted != ok {
			t.Errorf("%s: got %s, %v, want it accepted: %t", text, got, err, ok)
		}
	}
}
