package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Rewritten is the new list of messages of the history.
type Rewritten struct {
	Messages []RewrittenMessage `json:"messages"`
}

// RewrittenMessage is a message of a rewritten history.
type RewrittenMessage struct {
	ID        events.MessageID `json:"id,omitempty"`
	Role      events.Role      `json:"role"`
	Parts     []GivenPart      `json:"parts"`
	Transient bool             `json:"transient,omitempty"`
}

// FirstInput is the first turn's input.
type FirstInput struct {
	Message *Message `json:"message,omitempty"`
}

// ProtocolOptions are the protocol's durable options for turns.
type ProtocolOptions struct {
	Options   json.RawMessage `json:"options"`
	AllFrames bool            `json:"all_frames,omitempty"`
}

// Extension is an extension of a session's or a turn's protocol.
type Extension struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Extensions are the session's extensions, in the order in which its protocol receives them.
type Extensions struct {
	Extensions []Extension `json:"extensions"`
}

// ToolCatalog is the list of searchable tools.
type ToolCatalog struct {
	Tools []json.RawMessage `json:"tools"`
}

// ExternalPlugins are the plugins that run as programs of their own.
type ExternalPlugins struct {
	Plugins []api.ExternalPlugin `json:"plugins"`
}

// Actions are the actions of a session's plugins.
type Actions struct {
	Actions []Action `json:"actions"`
}

// Action is an action of a plugin.
type Action struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Kind        string              `json:"kind,omitempty"`
	Session     plugin.SessionParam `json:"session"`
	Needs       api.Right           `json:"needs"`
	Input       json.RawMessage     `json:"input,omitempty"`
	Output      json.RawMessage     `json:"output,omitempty"`
}

// Invocation invokes an action.
type Invocation struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// ActionResult is the outcome of an action.
type ActionResult struct {
	Text        string       `json:"text"`
	Outcome     GivenOutcome `json:"outcome"`
	Class       string       `json:"class,omitempty"`
	Code        string       `json:"code,omitempty"`
	Pending     bool         `json:"pending,omitempty"`
	Attachments []Part       `json:"attachments,omitempty"`
}

// NewCompletion requests a direct completion of the session's model.
type NewCompletion struct {
	Source     string         `json:"source,omitempty"`
	Model      string         `json:"model,omitempty"`
	Effort     string         `json:"effort,omitempty"`
	Messages   []GivenMessage `json:"messages"`
	Tools      []GivenTool    `json:"tools,omitempty"`
	ToolChoice ToolChoice     `json:"tool_choice,omitzero"`
	Output     OutputForm     `json:"output,omitzero"`
	MaxTokens  int64          `json:"max_tokens,omitempty"`
	Sampling   Sampling       `json:"sampling,omitzero"`
}

// GivenTool is a tool that a completion may name.
type GivenTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty"`
}

// ToolChoice says whether a reply must call tools. At most one field is set.
type ToolChoice struct {
	None     bool   `json:"none,omitempty"`
	Required bool   `json:"required,omitempty"`
	Tool     string `json:"tool,omitempty"`
}

// OutputForm is the form that a reply must have. Absent: text.
type OutputForm struct {
	JSON   bool            `json:"json,omitempty"`
	Name   string          `json:"name,omitempty"`
	Schema json.RawMessage `json:"schema,omitempty"`
	Strict bool            `json:"strict,omitempty"`
}

// Completed is the reply to a direct completion.
type Completed struct {
	Text  string            `json:"text"`
	Parts []Part            `json:"parts"`
	Stop  events.StopReason `json:"stop,omitempty"`
	Model string            `json:"model,omitempty"`
	Usage api.TokenUsage    `json:"usage"`
}
