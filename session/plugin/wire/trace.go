package wire

import (
	"cmp"
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// TraceOperation is the name by which the operator lets the calls of a plugin write trace events, and TracePath the path of the
// callback, with method POST, a [Trace] as its body and status 204. It is no operation of the HTTP API: a node adds the place
// of the call.
const (
	TraceOperation = "trace"
	TracePath      = "/v1/trace"
)

// Limits of a [Trace].
const (
	maxTraceName     = 100
	MaxTracePayload  = 32 << 10
	MaxTraceMetadata = 16 // entries
)

// Trace is a trace event of a plugin, for the operator. The record has the name "plugin.PLUGIN.NAME".
type Trace struct {
	Name    string          `json:"name"`
	Payload json.RawMessage `json:"payload,omitempty"`
	Context *TraceContext   `json:"context,omitempty"`
}

// TraceContext is what a program says of the place of a trace event. The node adds the session, the turn and the effect.
type TraceContext struct {
	ModelCall string            `json:"llm_call,omitempty"`  // that the event is about
	Origin    events.EffectID   `json:"tool_call,omitempty"` // likewise
	Metadata  map[string]string `json:"metadata,omitempty"`  // the record has each as "plugin.PLUGIN.KEY"
}

// Validate checks the limits. Errors: [*events.FieldError].
func (t *Trace) Validate() error {
	if len(t.Payload) > MaxTracePayload {
		return refuse("payload", "has %d bytes, limit is %d", len(t.Payload), MaxTracePayload)
	}
	if err := cmp.Or(events.CheckToken("name", t.Name), checkTraceName("name", t.Name)); err != nil {
		return err
	}
	return t.Context.validate("context")
}

func checkTraceName(field, name string) error {
	if name == "" || len(name) > maxTraceName || name == SkippedHook {
		return refuse(field, "is %.100q, want 1 to %d bytes, and not %s", name, maxTraceName, SkippedHook)
	}
	return nil
}

func (c *TraceContext) validate(field string) error {
	if c == nil {
		return nil
	}
	if n := max(len(c.ModelCall), len(c.Origin)); n > events.MaxIDBytes {
		return refuse(field, "has an id of %d bytes, limit is %d", n, events.MaxIDBytes)
	}
	if n := len(c.Metadata); n > MaxTraceMetadata {
		return refuse(field+".metadata", "are %d, limit is %d", n, MaxTraceMetadata)
	}
	for key, value := range c.Metadata {
		if key == "" || max(len(key), len(value)) > events.MaxIDBytes {
			return refuse(field+".metadata", "has a name or a value of %d bytes, want 1 to %d", max(len(key), len(value)), events.MaxIDBytes)
		}
	}
	return nil
}
