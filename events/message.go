package events

import (
	"fmt"
)

// Role is the author of a message. Tools have no role: their results are user messages with tool_result parts.
type Role string

// Roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// PartKind is the type of a message part.
type PartKind string

// Kinds of parts and the fields of [Part] that each uses.
const (
	PartText       PartKind = "text"        // Text
	PartReasoning  PartKind = "reasoning"   // Text, Meta
	PartToolCall   PartKind = "tool_call"   // Call, Tool, Args, Meta
	PartToolResult PartKind = "tool_result" // Call, Tool, Text, Outcome
	PartAttachment PartKind = "attachment"  // MediaType and Text (base64 or URL) or Blob
)

// Outcome is how a tool call ended.
type Outcome string

// Outcomes. The zero value is success.
const (
	OutcomeSuccess   Outcome = ""
	OutcomeFailure   Outcome = "failure"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost" // a non-idempotent call with unknown outcome
)

// BlobRef refers to a body outside the log by its content. The zero value refers to none.
type BlobRef struct {
	Digest string `msgpack:"d"` // hex sha256 of the body
	Size   int64  `msgpack:"z"` // bytes
}

// IsZero reports whether r refers to no body.
func (r BlobRef) IsZero() bool { return r == BlobRef{} }

// Validate refuses a malformed digest and a size out of range, with [ErrInvalid].
func (r BlobRef) Validate(field string) error {
	if err := CheckDigest(field+".digest", r.Digest); err != nil {
		return err
	}
	if r.Size < 0 || r.Size > MaxBlobBytes {
		return invalid(field+".size", fmt.Sprintf("is %d, limit is %d", r.Size, MaxBlobBytes))
	}
	return nil
}

// Part is one piece of a message. Kind determines which fields are set.
type Part struct {
	Kind      PartKind `msgpack:"k"`
	Text      string   `msgpack:"x,omitempty"` // UTF-8
	Blob      BlobRef  `msgpack:"b,omitempty"` // replaces Text or Args above the inline limit
	Call      CallID   `msgpack:"c,omitempty"` // from the model's reply; may repeat, may be empty
	Tool      string   `msgpack:"n,omitempty"`
	Args      []byte   `msgpack:"a,omitempty"` // JSON from the model's reply, not necessarily valid
	Outcome   Outcome  `msgpack:"o,omitempty"`
	MediaType string   `msgpack:"m,omitempty"`
	Meta      []byte   `msgpack:"r,omitempty"` // JSON of the provider, sent back to the same provider (signatures)
}

// Message is one message of the conversation.
type Message struct {
	ID     MessageID  `msgpack:"i,omitempty"`
	Role   Role       `msgpack:"r"`
	Parts  []Part     `msgpack:"p"`
	Origin string     `msgpack:"o,omitempty"` // plugin that wrote it; empty for hosts and models
	Stop   StopReason `msgpack:"s,omitempty"` // of assistant messages with an abnormal stop
}

// Text joins the text parts without separators.
func (m Message) Text() string {
	text := ""
	for _, p := range m.Parts {
		if p.Kind == PartText {
			text += p.Text
		}
	}
	return text
}

// StopReason is why a model stopped.
type StopReason string

// Stop reasons.
const (
	StopEnd             StopReason = "stop"
	StopToolUse         StopReason = "tool_use"
	StopOutputLimit     StopReason = "output_limit"
	StopContextOverflow StopReason = "context_overflow"
	StopContentFilter   StopReason = "content_filter"
	StopProviderError   StopReason = "provider_error"
	StopCancelled       StopReason = "cancelled"
	StopUnknown         StopReason = "unknown"
)

// Usage counts tokens. Reasoning is part of Output.
type Usage struct {
	Input      int64 `msgpack:"i,omitempty"`
	Output     int64 `msgpack:"o,omitempty"`
	CacheRead  int64 `msgpack:"r,omitempty"`
	CacheWrite int64 `msgpack:"w,omitempty"`
	Reasoning  int64 `msgpack:"n,omitempty"`
}

// Total is the number of billed tokens: input, output, cache reads and cache writes.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// IsZero reports whether all counts are 0.
func (u Usage) IsZero() bool { return u == Usage{} }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Reasoning: u.Reasoning + v.Reasoning,
	}
}

// Sub returns u minus v.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		Input: u.Input - v.Input, Output: u.Output - v.Output,
		CacheRead: u.CacheRead - v.CacheRead, CacheWrite: u.CacheWrite - v.CacheWrite,
		Reasoning: u.Reasoning - v.Reasoning,
	}
}
