package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
)

var (
	formKeywords = []string{
		"type", "description", "properties", "required", "items", "enum", "anyOf", "nullable",
		"minimum", "maximum",
	}
	formTypes    = []string{"object", "array", "string", "number", "integer", "boolean"}
	propertyName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)
)

// checkForm refuses a schema that some endpoint refuses, with all tools of its request. Sources: the function schemas of
// OpenAI and Gemini, Anthropic's names of properties, Ollama's type of a property.
func checkForm(at string, raw json.RawMessage) error {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		return fmt.Errorf("%s is %s, want an object", at, raw)
	}
	for key := range m {
		if !slices.Contains(formKeywords, key) {
			return fmt.Errorf("%s has %s", at, key)
		}
	}
	var s struct {
		Type       *string
		Properties map[string]json.RawMessage
		Required   []string
		Items      json.RawMessage
		Enum       []string
		AnyOf      []json.RawMessage
	}
	if err := json.Unmarshal(raw, &s); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	switch {
	case s.Type != nil && !slices.Contains(formTypes, *s.Type):
		return fmt.Errorf("%s is of type %s", at, *s.Type)
	case s.AnyOf != nil && (at == "schema" || s.Type != nil || s.Properties != nil || s.Enum != nil || len(s.AnyOf) < 2):
		return fmt.Errorf("%s has anyOf beside others, or with one choice, or at the top", at)
	case s.Type != nil && *s.Type == "object" && len(s.Properties) == 0 && at != "schema":
		return fmt.Errorf("%s is an object without properties", at)
	case s.Type != nil && *s.Type == "array" && s.Items == nil:
		return fmt.Errorf("%s is an array without items", at)
	case s.Enum != nil && (s.Type == nil || *s.Type != "string" || slices.Contains(s.Enum, "")):
		return fmt.Errorf("%s has an enum of other values than texts", at)
	}
	for _, key := range []string{"minimum", "maximum"} {
		var n float64
		if m[key] != nil && (s.Type != nil && *s.Type != "number" && *s.Type != "integer" || json.Unmarshal(m[key], &n) != nil) {
			return fmt.Errorf("%s has %s of %s, and may be no number", at, key, m[key])
		}
	}
	for _, name := range s.Required {
		if s.Properties[name] == nil {
			return fmt.Errorf("%s requires %s, which it does not have", at, name)
		}
	}
	for name, sub := range s.Properties {
		if !propertyName.MatchString(name) {
			return fmt.Errorf("%s has a property %q", at, name)
		}
		if err := checkForm(at+"."+name, sub); err != nil {
			return err
		}
	}
	if s.Items != nil {
		if err := checkForm(at+"[]", s.Items); err != nil {
			return err
		}
	}
	for _, sub := range s.AnyOf {
		if err := checkForm(at+"|", sub); err != nil {
			return err
		}
	}
	return nil
}
