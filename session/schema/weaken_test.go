package schema_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/schema"
)

// TestWeaken: a schema of another program that cannot be checked here becomes one that can, and says what is left out.
func TestWeaken(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, has, lacks string }{
		"same":         {`{"type":"object","properties":{"a":{"pattern":"^a+$"}}}`, `"^a+$"`, "JSON schema"},
		"lookahead":    {`{"type":"object","properties":{"a":{"type":"string","pattern":"(?=a)a"},"b":{"type":"integer"}}}`, `"type":"integer"`, `"pattern":`},
		"its_text":     {`{"type":"object","properties":{"a":{"description":"An a.","pattern":"(?=a)a"}}}`, `An a. (pattern: (?=a)a)`, `"pattern":`},
		"names":        {`{"type":"object","additionalProperties":false,"patternProperties":{"(?!x)":{"type":"string"}}}`, `(additionalProperties: false, patternProperties: {"(?!x)"`, `Properties":`},
		"dynamic":      {`{"type":"object","$dynamicRef":"#x"}`, `($dynamicRef: #x)`, "JSON schema"},
		"other_type":   {`{"type":"string"}`, `"type":"object"`, "nothing"},
		"no_schema":    {`["a"]`, `"type":"object"`, "nothing"},
		"no_json":      {`{`, `"type":"object"`, "match"},
		"long":         {`{"type":"string","description":"` + strings.Repeat("x", 5000) + `"}`, `"type":"object"`, "xxx"},
		"remote":       {`{"type":"object","properties":{"a":{"$ref":"https://host/s.json"}}}`, `"type":"object"`, "nothing"},
		"many_visits":  {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, `"type":"object"`, "nothing"},
		"unknown_type": {`{"type":"object","properties":{"type":{"type":"str","enum":[{"type":"x"}]},"b":{"items":{"type":"float"}}}}`, `"enum":[{"type":"x"}]`, `"str"`},
		"draft_4":      {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"a":{"minimum":0,"exclusiveMinimum":true},"b":{"type":"string"}}}`, `"type":"string"`, "JSON schema"},
		"draft_3":      {`{"type":"object","properties":{"a":{"type":"string","required":true}}}`, `(required: true)`, "JSON schema"},
		"no_list":      {`{"type":"object","properties":{"a":{"type":"string","description":["x"]}}}`, `"type":"string"`, "JSON schema"},
		"php":          {`{"type":"object","properties":[],"required":[]}`, `"type":"object"`, `"properties":`},
		"null":         {`{"type":"object","properties":{"a":{"type":"array","items":null},"b":null}}`, `"b":true`, "null"},
		"below_zero":   {`{"type":"object","properties":{"a":{"minimum":-1,"maxLength":-1}}}`, `"minimum":-1`, `"maxLength":`},
		"no_choice":    {`{"type":"object","properties":{"a":{"enum":[],"type":["string","any"]}}}`, `(enum: [], type:`, `"enum":`},
		"its_place":    {`{"$id":"T0","type":"object","properties":{"a":{"type":"array","items":{"$ref":"T0"}},"b":{"$id":"#b","type":"string"},"c":{"$ref":"#/no"}}}`, `"type":"string"`, `"$ref":`},
		"no_remote":    {`{"type":"object","not":{"$ref":"https://host/s.json"},"properties":{"a":{"type":"integer"}}}`, `"type":"integer"`, `"not":`},
		"types_inside": {`{"type":["object","null"],"properties":{}}`, `"null"`, "JSON schema"},
	} {
		got := schema.Weaken("inputSchema", []byte(c.in))
		parsed, err := schema.Parse("s", got)
		if err == nil {
			_, err = schema.Compile("s", parsed)
		}
		if err == nil {
			_, err = schema.Object("s", parsed)
		}
		text := string(got)
		var s struct{ Description string }
		if json.Unmarshal(got, &s) == nil {
			text += s.Description
		}
		if err != nil || !strings.Contains(text, c.has) || strings.Contains(string(got), c.lacks) {
			t.Errorf("%s: got %s, %v, want %q and not %q", name, got, err, c.has, c.lacks)
		}
	}
}

// TestDialects compares values with schemas that name their dialect in all spellings: one that is known is followed, and any other accepts
// every value.
func TestDialects(t *testing.T) {
	t.Parallel()
	for dialect, known := range map[string]bool{
		"": true, "https://json-schema.org/draft/2020-12/schema": true, "https://json-schema.org/draft/2020-12/schema#": true,
		"http://json-schema.org/draft-07/schema": true, "http://json-schema.org/draft-07/schema#": true, "https://json-schema.org/draft-07/schema#": true,
		"https://json-schema.org/draft/2019-09/schema": false, "http://json-schema.org/draft-06/schema#": false, "http://json-schema.org/draft-04/schema#": false, "urn:own": false,
	} {
		parsed, err := schema.Parse("s", []byte(`{"$schema":"`+dialect+`","type":"object","properties":{"a":{"type":"string"}}}`))
		runtest.NoError(t, err)
		form, err := schema.Compile("s", parsed)
		runtest.NoError(t, err)
		right, wrong := form.Validate(map[string]any{"a": "x"}), form.Validate(map[string]any{"a": 1.0})
		if right != nil || (wrong != nil) != known {
			t.Errorf("%q: got %v for a right value and %v for a wrong one, want it checked: %t", dialect, right, wrong, known)
		}
	}
}
