package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
)

// partJSON is a part of a message.
type partJSON struct {
	Kind      events.PartKind `json:"type" jsonschema:"text, reasoning, tool_call, tool_result or attachment"`
	Text      string          `json:"text,omitempty"`
	Call      events.CallID   `json:"call_id,omitempty" jsonschema:"id from the model; may repeat"`
	Tool      string          `json:"tool,omitempty"`
	Args      json.RawMessage `json:"args,omitempty" jsonschema:"arguments of a tool call; a JSON string if the model's JSON is broken"`
	Outcome   outcomeJSON     `json:"outcome,omitempty" jsonschema:"outcome of a tool result"`
	MediaType string          `json:"media_type,omitempty"`
	Blob      *blobJSON       `json:"blob,omitempty" jsonschema:"reference to a large body, in place of it"`
}

// blobJSON names a body by its content.
type blobJSON struct {
	Digest string `json:"digest" jsonschema:"hex sha256"`
	Size   int64  `json:"size" jsonschema:"size in bytes"`
}

// messageJSON is a message of the conversation.
type messageJSON struct {
	ID     events.MessageID  `json:"id"`
	Role   events.Role       `json:"role"`
	Parts  []partJSON        `json:"parts"`
	Origin string            `json:"origin,omitempty" jsonschema:"id of the plugin that wrote it"`
	Stop   events.StopReason `json:"stop,omitempty" jsonschema:"why the model stopped, if it did not end by itself"`
}

// givenPartJSON is a part of a message in a request.
type givenPartJSON struct {
	Kind      givenTypeJSON `json:"type"`
	Text      string        `json:"text,omitempty" jsonschema:"of an attachment: base64 or a URL"`
	MediaType string        `json:"media_type,omitempty" jsonschema:"of an attachment"`
	Blob      *blobJSON     `json:"blob,omitempty" jsonschema:"in place of text: a body that this session's history refers to, for example one from POST /blobs"`
}

// givenMessageJSON is a message in a request.
type givenMessageJSON struct {
	ID    events.MessageID `json:"id,omitempty"`
	Role  events.Role      `json:"role"`
	Parts []givenPartJSON  `json:"parts"`
}

// givenNodeJSON is a node to append: a message, or a plugin's or protocol's.
type givenNodeJSON struct {
	Message   *givenMessageJSON `json:"message,omitempty"`
	Transient bool              `json:"transient,omitempty" jsonschema:"of messages: true: never stored"`
	ID        events.NodeID     `json:"id,omitempty" jsonschema:"of other nodes"`
	Kind      events.NodeKind   `json:"kind,omitempty" jsonschema:"of other nodes: plugin or protocol"`
	Type      string            `json:"type,omitempty" jsonschema:"of other nodes"`
	Body      json.RawMessage   `json:"body,omitempty" jsonschema:"of other nodes"`
}

// sessionConfigJSON is the configuration of a session's turns. The node sets absent fields.
type sessionConfigJSON struct {
	Provider        string `json:"provider,omitempty"`
	Model           string `json:"model,omitempty"`
	Effort          string `json:"effort,omitempty" jsonschema:"effort of reasoning, in the words of the provider"`
	MaxOutputTokens int64  `json:"max_output_tokens,omitempty" jsonschema:"limit of tokens in a reply"`
	ContextWindow   int64  `json:"context_window,omitempty" jsonschema:"size of the context window, in tokens"`
	MaxIterations   int64  `json:"max_iterations,omitempty" jsonschema:"limit of model calls in a turn"`
	Protocol        string `json:"protocol,omitempty" jsonschema:"standard or code"`
	RetainMillis    int64  `json:"retain_ms,omitempty" jsonschema:"milliseconds after the last event until the session is erased; negative: never"`
	SilenceMillis   int64  `json:"silence_ms,omitempty" jsonschema:"milliseconds that a model may send no content, before a reply and within it; the node's limit if absent"`
	Environment     string `json:"environment,omitempty" jsonschema:"where commands and code run, by the name that the operator gave it; default if absent"`

	Instructions string       `json:"instructions,omitempty" jsonschema:"start of the system prompt, before contributions of plugins: at most 64 KiB"`
	Sampling     samplingJSON `json:"sampling,omitzero"`

	Layers []promptLayerJSON `json:"layers,omitempty" jsonschema:"layers of the system prompt, applied after contributions of plugins: at most 32, of 32 KiB together"`

	Fallbacks []fallbackJSON `json:"fallbacks,omitempty" jsonschema:"models to try in order, if a model call fails in a way that another model may not: at most 8"`
}

func (out *partJSON) adjust(from any) {
	p := from.(*events.Part)
	out.Args = nil
	if p.Kind == events.PartToolCall && p.Blob.IsZero() {
		out.Args = eventjson.Raw(p.Args) // also without text
	}
	if p.Kind != events.PartToolResult {
		out.Outcome = ""
	}
}
