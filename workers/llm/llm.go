// Package llm is the interface to models: [Provider], its requests, responses and errors, and [Endpoint], a provider for the
// HTTP API of a [Wire]. The adapters are packages of their own and pass llmtest.TestProvider. The package imports events only.
package llm

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/lash-go/lash/events"
)

// Provider requests replies from a model.
//
// Complete may be called from many goroutines. Until the reply is complete it calls sink, which may be nil, for each delta, in
// order, from one goroutine. When ctx ends it returns promptly with an error for which errors.Is(err, context.Cause(ctx)) or
// errors.Is(err, ctx.Err()) holds. Every other error is an [*Error]. With an error the response has at most the usage and the
// model. Complete does not retry.
type Provider interface {
	// ID names the provider in configuration and histories: "openai".
	ID() string
	Complete(ctx context.Context, req Request, sink func(Delta)) (Response, error)
}

// Remote is a [Provider] that requests a server, and receives the replies as streams.
type Remote interface {
	// Server is the address and the port of the requests.
	Server() (address string, port int64)
}

// Request is one request to a model.
type Request struct {
	Session   events.SessionID
	Turn      events.TurnID
	Iteration int64
	Effect    events.EffectID // idempotency key, the same in all attempts

	Model           string
	MaxOutputTokens int64  // 0: the adapter's default
	Effort          string // reasoning effort in the provider's spelling; empty sends none
	Sampling        events.Sampling
	Silence         time.Duration // longest wait for the first content of the reply, and for more; 0: no limit

	Messages   []events.Message // every tool call is followed by its result; system messages may be anywhere
	Tools      []Tool           // sorted by name
	ToolChoice ToolChoice       // ignored without tools
	Output     Output           // a form that the provider does not support is an [*Error] of kind invalid_request
}

// ToolChoice restricts the calls of a reply. The zero value leaves the choice to the model. At most one field is set.
type ToolChoice struct {
	None     bool   // call none
	Required bool   // call one or more
	Tool     string // call the tool of this name
}

// Forced reports whether the reply must call a tool.
func (c ToolChoice) Forced() bool { return c.Required || c.Tool != "" }

// Output is the required form of a reply. The zero value is text.
type Output struct {
	JSON   bool            // any JSON object
	Name   string          // of the schema
	Schema json.RawMessage // JSON schema, an object, of the JSON that the reply must be
	Strict bool            // the provider enforces the schema, if it has schemas that it does not enforce
}

// Tool is a tool that the model may call.
type Tool struct {
	Name        string
	Description string
	InputSchema []byte // JSON schema of an object
}

// Response is a complete reply.
type Response struct {
	Parts  []events.Part // text, reasoning and tool_call parts, in the model's order
	Stop   events.StopReason
	Usage  events.Usage
	Model  string // as the provider reports it, which it may not
	ID     string // of the reply, likewise
	Detail string // diagnostic of a bad stop, at most 4000 characters

	Accepted bool  // a recorded reply that its agent went on with: [Response.Finished] takes it as it is
	Foreign  int64 // parts of the request whose signatures and fields were left out: they are those of another endpoint or model
}

// Delta is a part of a reply, for display. Only the Response is recorded.
type Delta struct {
	Kind events.PartKind // text or reasoning
	Text string          // whole UTF-8 characters
}

// ErrorKind is the class of a provider error.
type ErrorKind string

// Values of [ErrorKind].
const (
	KindTransport ErrorKind = "transport"        // connection refused, reset, cut mid-stream, timed out
	KindRateLimit ErrorKind = "rate_limit"       // 429
	KindServer    ErrorKind = "server"           // 5xx, overloaded
	KindAuth      ErrorKind = "auth"             // 401, 403, no key
	KindRequest   ErrorKind = "invalid_request"  // other 4xx
	KindOverflow  ErrorKind = "context_overflow" // the prompt does not fit the window
	KindMalformed ErrorKind = "malformed"        // the provider violated its own format

	KindUnfinished ErrorKind = "unfinished" // no turn may act on the reply, see [Response.Finished]: it is asked for once more
)

// Error is a failed call.
type Error struct {
	Kind       ErrorKind
	Status     int           // HTTP status; 0 without a response
	Code       string        // the provider's own code
	Message    string        // safe to record: no secrets, at most 4000 characters
	Raw        string        // response body of the provider, if any; safe to record too
	RetryAfter time.Duration // requested by the provider; 0 if it requested none
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
	return slices.Contains([]ErrorKind{KindTransport, KindRateLimit, KindServer, KindMalformed, KindUnfinished}, e.Kind)
}
