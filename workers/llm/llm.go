// Package llm is the model's side of a turn: one small interface, and the adapters below it.
//
// It owns the provider-neutral request, response and error, and the rule of
// what may be retried. Adapters live in packages of their own and pass
// llmtest.TestProvider. It imports events only.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/lash-go/lash/events"
)

// Provider asks a model for one reply.
//
// Complete may be called from many goroutines. It blocks until the reply is
// whole, calling sink (which may be nil) in order, from one goroutine, for
// what streams in before. When ctx ends it returns promptly with an error for
// which errors.Is(err, context.Cause(ctx)) or errors.Is(err, ctx.Err()) holds.
// Every other error is a [*Error]. With an error the response has the usage and
// the model that the provider told by then, and nothing else. It does not retry by itself.
type Provider interface {
	// ID names the provider in configuration and histories: "openai".
	ID() string
	Complete(ctx context.Context, req Request, sink func(Delta)) (Response, error)
}

// Request is everything a model is told.
type Request struct {
	Session   events.SessionID
	Turn      events.TurnID
	Iteration int64
	Effect    events.EffectID // idempotency key, the same in every attempt

	Model           string
	MaxOutputTokens int64  // 0 leaves it to the adapter
	Effort          string // reasoning effort as the provider spells it; empty leaves it out
	Sampling        events.Sampling

	Messages []events.Message // every tool call is followed by its result; system messages may stand anywhere
	Tools    []Tool           // sorted by name

	ToolChoice ToolChoice // without tools it means nothing
	Output     Output     // a form that the provider cannot keep to is an [*Error] of kind invalid_request
}

// ToolChoice is what a reply must do with the tools. The zero value leaves it
// to the model. At most one field is set.
type ToolChoice struct {
	None     bool   // call none
	Required bool   // call one or more, whichever
	Tool     string // call the tool of this name
}

// Forced reports whether the reply must call a tool.
func (c ToolChoice) Forced() bool { return c.Required || c.Tool != "" }

// Output is the form that a reply must have. The zero value is text.
type Output struct {
	JSON   bool            // a JSON object, whatever is in it
	Name   string          // of the schema
	Schema json.RawMessage // JSON schema, an object, of the JSON that the reply must be
	Strict bool            // the schema binds the provider, where it knows schemas that do not
}

// Tool is what a model may call.
type Tool struct {
	Name        string
	Description string
	InputSchema []byte // JSON schema of an object
}

// Response is a whole reply.
type Response struct {
	Parts  []events.Part // text, reasoning and tool_call parts, in the model's order
	Stop   events.StopReason
	Usage  events.Usage
	Model  string // as the provider reported it
	ID     string // of the reply, as the provider names it; empty where it does not
	Detail string // diagnostic of a bad stop, at most 4000 characters
}

// Delta is a piece of a reply in flight: never truth, only company for the eye.
type Delta struct {
	Kind events.PartKind // text or reasoning
	Text string          // whole UTF-8 characters
}

// ErrorKind classifies provider failures.
type ErrorKind string

// The kinds.
const (
	KindTransport ErrorKind = "transport"        // connection refused, reset, cut mid-stream, timed out
	KindRateLimit ErrorKind = "rate_limit"       // 429
	KindServer    ErrorKind = "server"           // 5xx, overloaded
	KindAuth      ErrorKind = "auth"             // 401, 403, no key
	KindRequest   ErrorKind = "invalid_request"  // other 4xx
	KindOverflow  ErrorKind = "context_overflow" // the prompt does not fit the window
	KindMalformed ErrorKind = "malformed"        // the provider broke its own wire format
)

// Error is a failed call.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status, 0 when none came
	Code       string        // the provider's own code
	Message    string        // safe to record: no secrets, at most 4000 characters
	Raw        string        // what the provider sent, where it sent anything; likewise safe to record
	RetryAfter time.Duration // what the provider asked for, 0 when it did not
	Err        error
}

func (e *Error) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("%s (HTTP %d): %s", e.Kind, e.Status, e.Message)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

func (e *Error) Unwrap() error { return e.Err }

// Retryable reports whether the same request may succeed later.
func (e *Error) Retryable() bool {
	switch e.Kind {
	case KindTransport, KindRateLimit, KindServer, KindMalformed:
		return true
	case KindAuth, KindRequest, KindOverflow:
		return false
	}
	return false
}
