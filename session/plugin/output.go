package plugin

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/schema"
)

// Output is the form that a reply must have. The zero value is text. A
// provider that cannot keep to the form refuses the request.
type Output struct {
	JSON   bool            `json:",omitempty"` // a JSON object, whatever is in it. Not beside a schema
	Name   string          `json:",omitempty"` // of the schema: 1 to 64 letters, digits, "_" and "-"
	Schema json.RawMessage `json:",omitempty"` // JSON schema, an object, of the JSON that the reply must be
	Strict bool            `json:",omitempty"` // the schema binds the provider, where it knows schemas that do not
}

// ToolChoice is what a reply must do with the tools of its request. The zero
// value leaves it to the model. At most one field is set.
type ToolChoice struct {
	None     bool   `json:",omitempty"` // call none
	Required bool   `json:",omitempty"` // call one or more, whichever
	Tool     string `json:",omitempty"` // call the tool of this name
}

// Check refuses an output and a tool choice that no provider could keep to.
// The error is an [*events.FieldError].
func (r *CompletionRequest) Check() error {
	if err := r.Output.Check("output"); err != nil {
		return err
	}
	if err := r.Sampling.Validate("sampling"); err != nil {
		return err
	}
	return r.ToolChoice.check(r.Tools)
}

// OutputOf is the form of a turn's answer as one of a reply.
func OutputOf(f events.OutputForm) Output {
	return Output{Name: f.Name, Schema: f.Schema, Strict: f.Strict}
}

// Check refuses what is no form. The error is an [*events.FieldError] of a field below the one that is given.
func (o Output) Check(field string) error {
	if len(o.Schema) == 0 {
		switch {
		case o.Name != "":
			return invalid(field+".name", "stands without a schema")
		case o.Strict:
			return invalid(field+".strict", "stands without a schema")
		}
		return nil
	}
	if o.JSON {
		return invalid(field+".json", "stands beside a schema")
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

// Fault says why a text is not JSON that matches the schema: "is no JSON". Empty: it is.
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

func (c *ToolChoice) check(tools []events.ToolEntry) error {
	if c.None && c.Required || c.Tool != "" && (c.None || c.Required) {
		return invalid("tool_choice", "is more than one")
	}
	if c.Required && len(tools) == 0 {
		return invalid("tool_choice.required", "stands without tools")
	}
	named := func(t events.ToolEntry) bool { return t.Name == c.Tool }
	if c.Tool != "" && !slices.ContainsFunc(tools, named) {
		return invalid("tool_choice.tool", "is not among the tools of the request")
	}
	return nil
}

func invalid(field, reason string) error {
	return &events.FieldError{Field: field, Reason: reason, Err: events.ErrInvalid}
}
