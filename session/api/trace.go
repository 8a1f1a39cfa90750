package api

import (
	"cmp"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TraceSchema is the version of [TraceRecord].
const TraceSchema = 1

// TraceRecord is one line of a trace. It has the times and outcomes of steps. Texts, arguments and attachments stay
// in the history; the context names their place.
type TraceRecord struct {
	Schema  int64         `json:"schema_version"`
	ID      string        `json:"id"` // unique
	At      events.Millis `json:"timestamp_ms"`
	Context TraceContext  `json:"context"`
	Event   TraceEvent    `json:"event"`
}

// TraceContext is the place of a trace event. Every field may be empty.
type TraceContext struct {
	Session   events.SessionID  `json:"session,omitempty"`
	Turn      events.TurnID     `json:"turn,omitempty"`
	TurnIndex int64             `json:"turn_index,omitempty"` // from 1
	Iteration *int64            `json:"iteration,omitempty"`  // from 0
	Effect    events.EffectID   `json:"effect,omitempty"`
	ModelCall string            `json:"llm_call,omitempty"`  // <session>:<turn>:<iteration>:<the turn's attempt>
	Origin    events.EffectID   `json:"tool_call,omitempty"` // the call, or other effect, that made the completion
	Agent     string            `json:"agent,omitempty"`     // capability that created the child session
	Metadata  map[string]string `json:"metadata,omitempty"`

	Client events.TraceParent `json:"client,omitzero"` // the span of the turn's request
}

// TraceContextOf is the trace context of a session: its running turn, if it has one.
func TraceContextOf(s *projector.State) TraceContext {
	c := TraceContext{Session: s.Session, Agent: s.Subagent.Capability}
	if t := s.Turn(); t != nil {
		c.Turn, c.TurnIndex, c.Client = t.ID, t.Index, t.Trace
	}
	return c
}

// In fills in what the context leaves out from the place that the event is emitted from, unless it names another session or turn.
func (c TraceContext) In(place TraceContext) TraceContext {
	if c.Session != "" && c.Session != place.Session || c.Turn != "" && c.Turn != place.Turn {
		c.Session = cmp.Or(c.Session, place.Session)
		return c
	}
	c.Session, c.Turn, c.TurnIndex = place.Session, place.Turn, cmp.Or(c.TurnIndex, place.TurnIndex)
	c.Iteration, c.Effect = cmp.Or(c.Iteration, place.Iteration), cmp.Or(c.Effect, place.Effect)
	c.ModelCall, c.Origin, c.Agent = cmp.Or(c.ModelCall, place.ModelCall), cmp.Or(c.Origin, place.Origin), cmp.Or(c.Agent, place.Agent)
	if c.Client.IsZero() {
		c.Client = place.Client
	}
	return c
}

// Of names the metadata of a plugin after it, so that it replaces none of the node's: plugin.<plugin>.<key>.
func (c TraceContext) Of(plugin string) TraceContext {
	own := make(map[string]string, len(c.Metadata))
	for key, value := range c.Metadata {
		own["plugin."+plugin+"."+key] = value
	}
	c.Metadata = own
	return c
}

// ModelRequest is the parameters of a model call, without the conversation. The provider chooses those that are not
// set.
type ModelRequest struct {
	MaxOutputTokens int64         `json:"max_tokens,omitempty"`
	Temperature     events.Number `json:"temperature,omitempty"`
	TopP            events.Number `json:"top_p,omitempty"`
	Seed            events.Number `json:"seed,omitempty"`
	Stop            []string      `json:"stop_sequences,omitempty"`
	Output          bool          `json:"json,omitempty"`   // the reply must be JSON
	Stream          bool          `json:"stream,omitempty"` // the provider streams the reply
}

// TraceType tags a trace event.
type TraceType string

// Values of [TraceType].
const (
	TraceSessionStarted    TraceType = "session_started" // its first turn starts
	TraceTurnStarted       TraceType = "turn_started"
	TraceTurnCompleted     TraceType = "turn_completed"
	TracePromptBuilt       TraceType = "prompt_built"
	TraceModelStarted      TraceType = "llm_call_started"
	TraceModelCompleted    TraceType = "llm_call_completed"
	TraceModelFailed       TraceType = "llm_call_failed"
	TraceToolCallStarted   TraceType = "tool_call_started"
	TraceToolCallCompleted TraceType = "tool_call_completed"
	TraceProtocolStep      TraceType = "protocol_step" // code that a protocol ran
	TraceTokenUsage        TraceType = "token_usage"   // of a model call, with its failed tries; no event where those used nothing
	TraceCustom            TraceType = "custom"        // by a plugin
)

// TraceEvent is the content of a trace record. Type decides which fields are set.
type TraceEvent struct {
	Type    TraceType       `json:"type"`
	Name    string          `json:"name,omitempty"`    // custom: of a hook's directive "plugin.<plugin>.<name>"
	Payload json.RawMessage `json:"payload,omitempty"` // custom

	Status string         `json:"status,omitempty"` // turn_completed: finished, stopped or failed
	Reason events.TurnEnd `json:"reason,omitempty"` // turn_completed
	Frame  events.FrameID `json:"frame,omitempty"`  // turn_completed: the frame of the follow-on turn
	Kind   string         `json:"kind,omitempty"`   // turn_completed, llm_call_failed: kind of the failure
	Code   string         `json:"code,omitempty"`   // likewise; of a failed call too

	Tool    string         `json:"tool,omitempty"`             // tool_call_*
	About   string         `json:"tool_description,omitempty"` // tool_call_completed: the tool's description for the model
	CallID  events.CallID  `json:"call_id,omitempty"`          // tool_call_*: the model's id of the call
	Outcome events.Outcome `json:"tool_outcome,omitempty"`     // tool_call_completed, protocol_step; empty is success
	Class   string         `json:"class,omitempty"`            // likewise, of failures

	Provider string            `json:"provider,omitempty"`        // llm_call_*, token_usage: its id; turn_completed: of the last reply, or as configured
	Model    string            `json:"model,omitempty"`           // llm_call_*, token_usage: as the provider reported it, else as requested; turn_completed: as configured
	Asked    string            `json:"requested_model,omitempty"` // llm_call_*, token_usage
	Reply    string            `json:"response_id,omitempty"`     // llm_call_completed: the provider's id of the reply
	Request  *ModelRequest     `json:"request,omitempty"`         // llm_call_*
	Server   string            `json:"server_address,omitempty"`  // llm_call_*: that the provider requests
	Port     int64             `json:"server_port,omitempty"`     // likewise
	Source   string            `json:"source,omitempty"`          // llm_call_*, token_usage: in the ledger
	Stop     events.StopReason `json:"stop,omitempty"`            // llm_call_completed
	Usage    *TokenUsage       `json:"usage,omitempty"`           // token_usage, llm_call_completed; turn_completed: of the turn so far
	Prompt   string            `json:"prompt,omitempty"`          // prompt_built: digest, in hex
	Messages int               `json:"messages,omitempty"`        // prompt_built: number of messages
	Tools    int               `json:"tools,omitempty"`           // prompt_built: number of tools

	Attempts int64 `json:"attempts,omitempty"`    // of calls: number of tries; of turn_completed: number of nodes that ran the turn
	Millis   int64 `json:"duration_ms,omitempty"` // of calls; of turn_completed since it started

	FirstMillis *int64 `json:"time_to_first_chunk_ms,omitempty"` // llm_call_completed, of its last try; absent where no text was streamed
}
