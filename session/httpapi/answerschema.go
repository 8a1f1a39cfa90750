package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
)

// AnswerSchema describes the answers of operations that succeed, by the ids of the operations: an object that has the form of any of
// them, with the definitions that it refers to.
func AnswerSchema(ids ...string) (*jsonschema.Schema, error) {
	d := newDescriber()
	var any []object
	for _, r := range routes() {
		if !slices.Contains(ids, r.name) {
			continue
		}
		for _, status := range slices.Sorted(maps.Keys(r.responses)) {
			if body := r.responses[status]; body != nil && status < http.StatusMultipleChoices {
				any = append(any, d.ref(body))
			}
		}
	}
	data, err := json.Marshal(object{"type": "object", "anyOf": any, "$defs": d.schemas})
	if err == nil {
		err = d.err
	}
	if err != nil {
		return nil, fmt.Errorf("answers of %q: %w", ids, err)
	}
	out := new(jsonschema.Schema)
	return out, json.Unmarshal(bytes.ReplaceAll(data, []byte(`"#/components/schemas/`), []byte(`"#/$defs/`)), out)
}
