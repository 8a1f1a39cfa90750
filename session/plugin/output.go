package plugin

import (
	"bytes"
	"encoding/json"
	"slices"

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
	if err := r.Output.check(); err != nil {
		return err
	}
	if err := r.Sampling.Validate("sampling"); err != nil {
		return err
	}
	return r.ToolChoice.check(r.Tools)
}

func (o *Output) check() error {
	if len(o.Schema) == 0 {
		switch {
		case o.Name != "":
			return invalid("output.name", "stands without a schema")
		case o.Strict:
			return invalid("output.strict", "stands without a schema")
		}
		return nil
	}
	if o.JSON {
		return invalid("output.json", "stands beside a schema")
	}
	if err := events.CheckToken("output.name", o.Name); err != nil {
		return err
	}
	if !bytes.HasPrefix(bytes.TrimLeft(o.Schema, " \t\r\n"), []byte("{")) {
		return invalid("output.schema", "is not a JSON object")
	}
	s, err := schema.Parse("output.schema", o.Schema)
	if err != nil {
		return err
	}
	_, err = schema.Compile("output.schema", s)
	return err
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
