package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Sampling has a model's sampling parameters. The provider chooses absent ones.
type Sampling struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	Seed        *int64   `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty"`
}

// TurnGeneration has the generation settings of one turn. Absent ones are the session's.
type TurnGeneration struct {
	Effort          string   `json:"effort,omitempty"`
	MaxOutputTokens int64    `json:"max_output_tokens,omitempty"`
	Sampling        Sampling `json:"sampling,omitzero"`
}

// PromptLayer changes one slot of the system prompt.
type PromptLayer struct {
	Slot    events.Slot    `json:"slot"`
	Op      events.LayerOp `json:"op"`
	Title   string         `json:"title,omitempty"`
	Content string         `json:"content,omitempty"`
}

// Fallback is a model to use where those before it fail.
type Fallback struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
}

// AnswerForm is the form of a turn's answer. Absent: text.
type AnswerForm struct {
	Name   string          `json:"name"`
	Schema json.RawMessage `json:"schema"`
	Strict bool            `json:"strict,omitempty"`
}
