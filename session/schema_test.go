package session_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/schema"
)

func compile(t *testing.T, text string) (*jsonschema.Resolved, error) {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		t.Fatalf("%.200s: %v", text, err)
	}
	return schema.Compile("schema", &s)
}

// TestRefused: schemas that would exhaust the process or never end are refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	doubled := func(keyword string, n int) string { // each applies the next one twice
		defs := make([]string, n)
		for i := range n - 1 {
			next := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
			defs[i] = fmt.Sprintf(`"d%d":{%q:[%s,%s]}`, i, keyword, next, next)
		}
		defs[n-1] = fmt.Sprintf(`"d%d":{"type":"string"}`, n-1)
		return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
	}
	nested := func(n int, open, end string) string { return strings.Repeat(open, n) + "{}" + strings.Repeat(end, n) }
	for name, text := range map[string]string{
		"itself":                   `{"$ref":"#"}`,
		"itself within allOf":      `{"allOf":[{"$ref":"#"}]}`,
		"itself within not":        `{"not":{"$ref":"#"}}`,
		"itself within if":         `{"if":{"$ref":"#"},"then":{}}`,
		"itself for some members":  `{"dependentSchemas":{"a":{"$ref":"#"}}}`,
		"two of each other":        `{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/b"}]},"b":{"$ref":"#/$defs/a"}}}`,
		"behind an escaped name":   `{"$ref":"#/$defs/a~1b","$defs":{"a/b":{"oneOf":[{"$ref":"#/$defs/a~1b"}]}}}`,
		"behind a percent":         `{"$ref":"#/%24defs/a","$defs":{"a":{"$ref":"#/%24defs/a"}}}`,
		"unused, of itself":        `{"$defs":{"a":{"$ref":"#/$defs/a"}}}`,
		"dynamic":                  `{"$dynamicRef":"#x","$dynamicAnchor":"x"}`,
		"an anchor":                `{"$ref":"#x","$anchor":"x"}`,
		"another document":         `{"$ref":"http://127.0.0.1:1/x"}`,
		"a file":                   `{"$ref":"file:///etc/passwd"}`,
		"nothing":                  `{"$ref":"#/$defs/none"}`,
		"another base":             `{"properties":{"a":{"$id":"http://x/","$ref":"#/properties/b"}}}`,
		"doubled anyOf":            doubled("anyOf", 40),
		"doubled allOf":            doubled("allOf", 12),
		"doubled oneOf":            doubled("oneOf", 64),
		"doubled with every level": `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}`,
		"doubled by any member":    `{"properties":{"a":{"$ref":"#"}},"patternProperties":{"a":{"$ref":"#"}}}`,
		"doubled in lists":         `{"items":{"$ref":"#"},"contains":{"$ref":"#"}}`,
		"deep":                     nested(100, `{"items":`, `}`),
		"deep, of the same value":  nested(100, `{"not":`, `}`),
		"many":                     `{"anyOf":[` + strings.Repeat("{},", 6000) + `{}]}`,
		"large":                    `{"description":"` + strings.Repeat("x", 300<<10) + `"}`,
	} {
		_, err := compile(t, text)
		if field := new(events.FieldError); !errors.As(err, &field) || field.Field != "schema" || len(err.Error()) > 1000 {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
}

// TestAccepted: schemas of ordinary programs are accepted, and distinguish a valid value from an invalid one.
func TestAccepted(t *testing.T) {
	t.Parallel()
	wide := make([]string, 1500)
	for i := range wide {
		wide[i] = fmt.Sprintf(`"p%d":{"type":"object","properties":{"name":{"type":"string"}}}`, i)
	}
	for name, tc := range map[string]struct{ text, fits, not string }{
		"anything":                 {`{"not":{"type":"null"}}`, `1`, `null`},
		"object":                   {`{"type":"object","properties":{"a":{"type":"integer"}},"required":["a"],"additionalProperties":false}`, `{"a":1}`, `{"a":"x"}`},
		"list":                     {`{"$ref":"#/$defs/l","$defs":{"l":{"type":"object","properties":{"v":{"type":"integer"},"next":{"$ref":"#/$defs/l"}}}}}`, `{"v":1,"next":{"v":2}}`, `{"next":{"v":"x"}}`},
		"tree":                     {`{"type":"object","properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}},"additionalProperties":false}`, `{"left":{"right":{}}}`, `{"left":{"middle":{}}}`},
		"forest":                   {`{"type":"array","items":{"$ref":"#"}}`, `[[],[[]]]`, `[[1]]`},
		"variants":                 {`{"oneOf":[{"properties":{"k":{"const":"a"}},"required":["k"]},{"properties":{"k":{"const":"b"}},"required":["k"]}]}`, `{"k":"a"}`, `{"k":"c"}`},
		"expressed":                {`{"anyOf":[{"type":"number"},{"type":"object","properties":{"op":{"enum":["+","-"]},"args":{"type":"array","items":{"$ref":"#"}}},"required":["op"]}]}`, `{"op":"+","args":[1,{"op":"-"}]}`, `{"op":"+","args":["x"]}`},
		"wide":                     {`{"type":"object","properties":{` + strings.Join(wide, ",") + `}}`, `{"p1":{"name":"x"}}`, `{"p1":{"name":1}}`},
		"with defs":                {`{"$id":"http://example.org/x","$ref":"#/definitions/a","definitions":{"a":{"type":"string"}}}`, `"x"`, `1`},
		"a name that is a keyword": {`{"properties":{"$ref":{"type":"string"},"items":{"type":"integer"}}}`, `{"$ref":"x","items":1}`, `{"items":"x"}`},
	} {
		resolved, err := compile(t, tc.text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for text, fits := range map[string]bool{tc.fits: true, tc.not: false} {
			var v any
			runtest.NoError(t, json.Unmarshal([]byte(text), &v))
			if err := resolved.Validate(v); (err == nil) != fits {
				t.Errorf("%s: %s: got %v, want that it fits: %v", name, text, err, fits)
			}
		}
	}
}

// FuzzCompile compiles any schema, and applies accepted ones to a deeply nested value.
func FuzzCompile(f *testing.F) {
	for _, seed := range []string{`{"$ref":"#"}`, `{"items":{"$ref":"#"}}`, `{"anyOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{}}}]}`, `{"prefixItems":[{"$ref":"#/items"}],"items":{"not":{}}}`, `{"dependencies":{"a":["b"],"b":{"$ref":"#/$defs/x"}},"$defs":{"x":true}}`} {
		f.Add([]byte(seed))
	}
	var deep any = "end"
	for range 200 {
		deep = map[string]any{"a": deep, "b": []any{deep}}
		if len(fmt.Sprint(deep)) > 1<<12 {
			break
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var s jsonschema.Schema
		if json.Unmarshal(data, &s) != nil {
			return
		}
		resolved, err := schema.Compile("schema", &s)
		if err != nil {
			return
		}
		_ = resolved.Validate(deep)
	})
}
