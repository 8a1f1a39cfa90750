package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// samplingJSON has a model's sampling parameters. The provider chooses absent ones.
type samplingJSON struct {
	Temperature *float64 `json:"temperature,omitempty" jsonschema:"0 to 2"`
	TopP        *float64 `json:"top_p,omitempty" jsonschema:"0 to 1"`
	Seed        *int64   `json:"seed,omitempty"`
	Stop        []string `json:"stop,omitempty" jsonschema:"texts that end a reply: at most 16, of 256 bytes each"`
}

// turnGenerationJSON has the generation settings of one turn. Absent ones are the session's.
type turnGenerationJSON struct {
	Effort          string       `json:"effort,omitempty" jsonschema:"effort of reasoning, in the words of the provider"`
	MaxOutputTokens int64        `json:"max_output_tokens,omitempty" jsonschema:"limit of tokens in a reply"`
	Sampling        samplingJSON `json:"sampling,omitzero"`
}

// promptLayerJSON changes one slot of the system prompt.
type promptLayerJSON struct {
	Slot    events.Slot    `json:"slot" jsonschema:"intro, execution, guidance, project_instructions, runtime_context or environment: the order of slots in the prompt"`
	Op      events.LayerOp `json:"op" jsonschema:"add: append to the contributions of plugins to the slot; replace: replace them; clear: empty the slot"`
	Title   string         `json:"title,omitempty" jsonschema:"heading over the content"`
	Content string         `json:"content,omitempty" jsonschema:"content of add and replace"`
}

// fallbackJSON is a model to use where those before it fail.
type fallbackJSON struct {
	Provider string `json:"provider,omitempty" jsonschema:"defaults to the session's"`
	Model    string `json:"model"`
}

// answerFormJSON is the form of a turn's answer. Absent: text.
type answerFormJSON struct {
	Name   string          `json:"name" jsonschema:"name of the schema: 1 to 64 of A-Z a-z 0-9 _ -"`
	Schema json.RawMessage `json:"schema" jsonschema:"JSON schema of the answer; the schema itself is an object of up to 32 KiB"`
	Strict bool            `json:"strict,omitempty" jsonschema:"true: the provider enforces the schema"`
}
