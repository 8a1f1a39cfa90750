package events

import (
	"fmt"
	"strings"
)

// Role says who speaks in a message. There is no role of tools: results are user messages with tool_result parts.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleSystem    Role = "system"
)

// PartKind says what a part of a message holds.
type PartKind string

// The kinds of parts and the fields of [Part] that each uses.
const (
	PartText       PartKind = "text"        // Text
	PartReasoning  PartKind = "reasoning"   // Text, Meta
	PartToolCall   PartKind = "tool_call"   // Call, Tool, Args, Meta
	PartToolResult PartKind = "tool_result" // Call, Tool, Text, Outcome
	PartAttachment PartKind = "attachment"  // MediaType and Text (base64 or URL) or Blob
)

// Outcome is how a tool call ended.
type Outcome string

// The outcomes. The zero value is success.
const (
	OutcomeSuccess   Outcome = ""
	OutcomeFailure   Outcome = "failure"
	OutcomeCancelled Outcome = "cancelled"
	OutcomeLost      Outcome = "lost" // a non-idempotent call whose fate is unknown
)

// BlobRef points at a body kept outside the log, by content. The zero value points nowhere.
type BlobRef struct {
	Digest string `msgpack:"d"` // hex sha256 of the body
	Size   int64  `msgpack:"z"` // bytes
}

// IsZero reports whether r points nowhere.
func (r BlobRef) IsZero() bool { return r == BlobRef{} }

// Validate refuses a reference that names no body that can be stored, with [ErrInvalid].
func (r BlobRef) Validate(field string) error {
	const digits = 64
	if len(r.Digest) != digits || strings.Trim(r.Digest, "0123456789abcdef") != "" {
		return invalid(field+".digest", "is no hex sha256")
	}
	if r.Size < 0 || r.Size > MaxBlobBytes {
		return invalid(field+".size", fmt.Sprintf("is %d, limit is %d", r.Size, MaxBlobBytes))
	}
	return nil
}

// Part is one piece of a message. Which fields are set depends on Kind.
type Part struct {
	Kind      PartKind `msgpack:"k"`
	Text      string   `msgpack:"x,omitempty"` // UTF-8
	Blob      BlobRef  `msgpack:"b,omitempty"` // instead of Text or Args when the body is above the inline cap
	Call      CallID   `msgpack:"c,omitempty"` // as the model gave it; may repeat, may be empty
	Tool      string   `msgpack:"n,omitempty"`
	Args      []byte   `msgpack:"a,omitempty"` // JSON as the model gave it, not necessarily valid
	Outcome   Outcome  `msgpack:"o,omitempty"`
	MediaType string   `msgpack:"m,omitempty"`
	Meta      []byte   `msgpack:"r,omitempty"` // provider's own JSON, handed back to the same provider (signatures)
}

// Message is one utterance: what a host shows and a model reads.
type Message struct {
	ID     MessageID  `msgpack:"i,omitempty"`
	Role   Role       `msgpack:"r"`
	Parts  []Part     `msgpack:"p"`
	Origin string     `msgpack:"o,omitempty"` // plugin that wrote it; empty for hosts and models
	Stop   StopReason `msgpack:"s,omitempty"` // of assistant messages, where the reply did not end by itself
}

// Text joins the text parts, without separators.
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

// The stop reasons (host specification, section 9).
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

// Total is every token paid for: input, output, cache reads and cache writes.
func (u Usage) Total() int64 { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// IsZero reports whether nothing was used.
func (u Usage) IsZero() bool { return u == Usage{} }

// Add returns the sum of u and v.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		Input: u.Input + v.Input, Output: u.Output + v.Output,
		CacheRead: u.CacheRead + v.CacheRead, CacheWrite: u.CacheWrite + v.CacheWrite,
		Reasoning: u.Reasoning + v.Reasoning,
	}
}

// Sub returns u without v.
func (u Usage) Sub(v Usage) Usage {
	return Usage{
		Input: u.Input - v.Input, Output: u.Output - v.Output,
		CacheRead: u.CacheRead - v.CacheRead, CacheWrite: u.CacheWrite - v.CacheWrite,
		Reasoning: u.Reasoning - v.Reasoning,
	}
}
