package schema

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// Object is the JSON of the schema of a tool's arguments. Providers refuse every request that lists a tool whose schema is no
// JSON object, or is of another type: so one such tool would stop all sessions that have it. A schema that accepts any value
// becomes that of any object. Errors: an [*events.FieldError].
func Object(field string, s *jsonschema.Schema) (json.RawMessage, error) {
	text, err := json.Marshal(s)
	switch {
	case err != nil:
		return nil, invalid(field, err.Error())
	case string(text) == "true":
		return json.RawMessage(`{"type":"object"}`), nil
	case len(text) == 0 || text[0] != '{':
		return nil, invalid(field, fmt.Sprintf("is %s, want the schema of an object", clip(string(text))))
	case s.Type != "" && s.Type != typeObject, len(s.Types) > 0 && !slices.Contains(s.Types, typeObject):
		return nil, invalid(field+".type", "the arguments of a tool are an object")
	}
	return text, nil
}

const typeObject = "object"
