package plugin

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/schema"
)

// Output is the required form of a reply. The zero value is text. A provider that does not support the form refuses
// the request.
type Output struct {
	JSON   bool            `json:",omitempty"` // any JSON object. Excludes Schema
	Name   string          `json:",omitempty"` // of the schema: 1 to 64 letters, digits, "_" and "-"
	Schema json.RawMessage `json:",omitempty"` // JSON schema, an object, that the reply must match
	Strict bool            `json:",omitempty"` // makes the provider enforce the schema, where enforcement is optional
}

// ToolChoice restricts which tools a reply calls. The zero value leaves the choice to the model.
// At most one field is set.
type ToolChoice struct {
	None     bool   `json:",omitempty"` // no calls
	Required bool   `json:",omitempty"` // at least one call of any tool
	Tool     string `json:",omitempty"` // a call of the tool with this name
}

// Check refuses an output form or a tool choice that no provider supports. The error is an [*events.FieldError].
func (r *CompletionRequest) Check() error {
	if err := r.Output.Check("output"); err != nil {
		return err
	}
	if err := r.Sampling.Validate("sampling"); err != nil {
		return err
	}
	return r.ToolChoice.check(r.Tools)
}

// OutputOf converts the output form of a turn.
func OutputOf(f events.OutputForm) Output {
	return Output{Name: f.Name, Schema: f.Schema, Strict: f.Strict}
}

// Check refuses an invalid form. The error is an [*events.FieldError] for a field below the named one.
func (o Output) Check(field string) error {
	if len(o.Schema) == 0 {
		switch {
		case o.Name != "":
			return invalid(field+".name", "needs a schema")
		case o.Strict:
			return invalid(field+".strict", "needs a schema")
		}
		return nil
	}
	if o.JSON {
		return invalid(field+".json", "is not allowed with a schema")
	}
	if err := events.CheckToken(field+".name", o.Name); err != nil {
		return err
	}
	_, err := o.compiled(field)
	return err
}

func (o Output) compiled(field string) (*jsonschema.Resolved, error) {
	if !bytes.HasPrefix(bytes.TrimLeft(o.Schema, " \t\r\n"), []byte("{")) {
		return nil, invalid(field+".schema", "is not a JSON object")
	}
	s, err := schema.Parse(field+".schema", o.Schema)
	if err != nil {
		return nil, err
	}
	return schema.Compile(field+".schema", s)
}

// Fault says why a text is not JSON that matches the schema, for example "is no JSON". Empty means that it matches.
func (o Output) Fault(text string) string {
	compiled, err := o.compiled("output")
	if err == nil {
		err = events.CheckJSON("it", []byte(text))
	}
	if err != nil {
		return "cannot be checked: " + err.Error()
	}
	var value any
	if json.Unmarshal([]byte(text), &value) != nil {
		return "is no JSON"
	}
	if err := compiled.Validate(value); err != nil {
		return "does not match the schema: " + err.Error()
	}
	return ""
}

func (c *ToolChoice) check(tools []CompletionTool) error {
	if c.None && c.Required || c.Tool != "" && (c.None || c.Required) {
		return invalid("tool_choice", "is more than one")
	}
	if c.Required && len(tools) == 0 {
		return invalid("tool_choice.required", "needs tools")
	}
	named := func(t CompletionTool) bool { return t.Name == c.Tool }
	if c.Tool != "" && !slices.ContainsFunc(tools, named) {
		return invalid("tool_choice.tool", "is not among the tools of the request")
	}
	return nil
}

func invalid(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}
