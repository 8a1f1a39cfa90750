package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Part is a part of a message.
type Part struct {
	Type      events.PartKind `json:"type"`
	Text      string          `json:"text,omitempty"`
	CallID    events.CallID   `json:"call_id,omitempty"`
	Tool      string          `json:"tool,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Outcome   Outcome         `json:"outcome,omitempty"`
	MediaType string          `json:"media_type,omitempty"`
	Blob      *Blob           `json:"blob,omitempty"`
}

// Blob names a body by its content.
type Blob struct {
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
}

// Message is a message of the conversation.
type Message struct {
	ID     events.MessageID  `json:"id"`
	Role   events.Role       `json:"role"`
	Parts  []Part            `json:"parts"`
	Origin string            `json:"origin,omitempty"`
	Stop   events.StopReason `json:"stop,omitempty"`
}

// GivenPart is a part of a message in a request.
type GivenPart struct {
	Type      GivenType `json:"type"`
	Text      string    `json:"text,omitempty"`
	MediaType string    `json:"media_type,omitempty"`
	Blob      *Blob     `json:"blob,omitempty"`
}

// GivenMessage is a message in a request.
type GivenMessage struct {
	ID    events.MessageID `json:"id,omitempty"`
	Role  events.Role      `json:"role"`
	Parts []GivenPart      `json:"parts"`
}

// GivenNode is a node to append: a message, or a plugin's or protocol's.
type GivenNode struct {
	Message   *GivenMessage   `json:"message,omitempty"`
	Transient bool            `json:"transient,omitempty"`
	ID        events.NodeID   `json:"id,omitempty"`
	Kind      events.NodeKind `json:"kind,omitempty"`
	Type      string          `json:"type,omitempty"`
	Body      json.RawMessage `json:"body,omitempty"`
}

// SessionConfig is the configuration of a session's turns. The node sets absent fields.
type SessionConfig struct {
	Provider        string        `json:"provider,omitempty"`
	Model           string        `json:"model,omitempty"`
	Effort          string        `json:"effort,omitempty"`
	MaxOutputTokens int64         `json:"max_output_tokens,omitempty"`
	ContextWindow   int64         `json:"context_window,omitempty"`
	MaxIterations   int64         `json:"max_iterations,omitempty"`
	Protocol        string        `json:"protocol,omitempty"`
	RetainMillis    int64         `json:"retain_ms,omitempty"`
	SilenceMillis   int64         `json:"silence_ms,omitempty"`
	Environment     string        `json:"environment,omitempty"`
	Instructions    string        `json:"instructions,omitempty"`
	Sampling        Sampling      `json:"sampling,omitzero"`
	Layers          []PromptLayer `json:"layers,omitempty"`
	Fallbacks       []Fallback    `json:"fallbacks,omitempty"`
}
