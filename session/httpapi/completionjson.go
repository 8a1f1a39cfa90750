package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// newCompletionJSON requests a direct completion of the session's model.
type newCompletionJSON struct {
	Source     string             `json:"source,omitempty" default:"client" jsonschema:"source of this usage in the session's usage ledger; defaults to client"`
	Model      string             `json:"model,omitempty" jsonschema:"defaults to the session's"`
	Effort     string             `json:"effort,omitempty"`
	Messages   []givenMessageJSON `json:"messages" jsonschema:"the whole prompt"`
	Tools      []givenToolJSON    `json:"tools,omitempty" jsonschema:"tools that the reply may call; nothing runs the calls"`
	ToolChoice toolChoiceJSON     `json:"tool_choice,omitzero"`
	Output     outputFormJSON     `json:"output,omitzero"`
	MaxTokens  int64              `json:"max_tokens,omitempty" jsonschema:"limit of output tokens"`
	Sampling   samplingJSON       `json:"sampling,omitzero"`
}

// givenToolJSON is a tool that a completion may name.
type givenToolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of its arguments"`
}

// toolChoiceJSON says whether a reply must call tools. At most one field is set.
type toolChoiceJSON struct {
	None     bool   `json:"none,omitempty" jsonschema:"true: call no tool"`
	Required bool   `json:"required,omitempty" jsonschema:"true: call one tool or more"`
	Tool     string `json:"tool,omitempty" jsonschema:"name of the tool to call"`
}

// outputFormJSON is the form that a reply must have. Absent: text.
type outputFormJSON struct {
	JSON   bool            `json:"json,omitempty" jsonschema:"true: the reply is a JSON object"`
	Name   string          `json:"name,omitempty" jsonschema:"name of the schema"`
	Schema json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of the reply"`
	Strict bool            `json:"strict,omitempty" jsonschema:"true: the provider enforces the schema"`
}

// completedJSON is the reply to a direct completion.
type completedJSON struct {
	Text  string            `json:"text"`
	Parts []partJSON        `json:"parts"`
	Stop  events.StopReason `json:"stop,omitempty"`
	Model string            `json:"model,omitempty"`
	Usage api.TokenUsage    `json:"usage,omitzero" jsonschema:"missing: the provider did not tell it"`
}
