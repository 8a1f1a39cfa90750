package api

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// EventType tags a session event.
type EventType string

// The tags. model_attempt_reset retracts the text of the current model attempt. The two approval tags report that a
// call waits for a person, and the answer.
const (
	EventTextDelta       EventType = "text_delta"
	EventReasoningDelta  EventType = "reasoning_delta"
	EventToolCallStart   EventType = "tool_call_start"
	EventToolCall        EventType = "tool_call"
	EventToolOutput      EventType = "tool_output"
	EventLLMRequest      EventType = "llm_request"
	EventLLMResponse     EventType = "llm_response"
	EventTokenUsage      EventType = "token_usage"
	EventRetryStatus     EventType = "retry_status"
	EventInputAccepted   EventType = "injected_turn_input_accepted"
	EventTurnOutcome     EventType = "turn_outcome"
	EventDone            EventType = "done"
	EventError           EventType = "error"
	EventMessage         EventType = "message"
	EventChildTokenUsage EventType = "child_token_usage"
	EventMessagesAdded   EventType = "injected_messages_committed"
	EventPlugin          EventType = "plugin_event"
	EventAttemptReset    EventType = "model_attempt_reset"
	EventApprovalAsked   EventType = "tool_approval_asked"
	EventApprovalGiven   EventType = "tool_approval_given"
)

// SessionEvent is one event of a turn for display. Its JSON form is the wire format. Type decides which fields are
// set; fields without a comment are set for all types.
type SessionEvent struct {
	Type      EventType     `json:"type"`
	Turn      events.TurnID `json:"turn"`
	Seq       events.Seq    `json:"seq"`       // of the last commit seen: the event's own, or the one before a delta
	Iteration int64         `json:"iteration"` // the model call that it belongs to, from 0

	Content string `json:"content,omitempty"` // text_delta, reasoning_delta, llm_response

	// Of tool_call_start, tool_output, tool_call, tool_approval_asked and tool_approval_given.
	Call   events.EffectID `json:"call,omitempty" jsonschema:"of a call: TURN/ITERATION/INDEX, its id in approvals and output"`
	CallID events.CallID   `json:"call_id,omitempty" jsonschema:"of a call: id from the model; may repeat. A call by code has none"`
	Name   string          `json:"name,omitempty" jsonschema:"of a call: name of its tool"`
	Args   json.RawMessage `json:"args,omitempty" jsonschema:"of a call, not with an answer: its arguments; a JSON string if the model's JSON is broken"`

	Output         string         `json:"output,omitempty"`       // tool_call: the tool's full output, also where the model reads a shortened one
	Outcome        events.Outcome `json:"tool_outcome,omitempty"` // tool_call; empty is success
	DurationMillis int64          `json:"duration_ms,omitempty"`  // tool_call, llm_response; 0: not measured

	MessageCount int      `json:"message_count,omitempty"` // llm_request
	ToolList     []string `json:"tool_list,omitempty"`     // llm_request: by name

	Usage      *TokenUsage      `json:"usage,omitempty"`      // token_usage; child_token_usage: since the last event of the child
	Cumulative *TokenUsage      `json:"cumulative,omitempty"` // token_usage: of the turn so far; child_token_usage: total of the child
	Session    events.SessionID `json:"session_id,omitempty"` // child_token_usage: the child
	Source     string           `json:"source,omitempty"`     // child_token_usage: in the ledger
	Model      string           `json:"model,omitempty"`      // child_token_usage

	WaitSeconds float64 `json:"wait_seconds,omitempty"` // retry_status
	Attempt     int64   `json:"attempt,omitempty"`      // retry_status: the one that failed, from 1; tool_output: the one that runs
	MaxAttempts int64   `json:"max_attempts,omitempty"` // retry_status: in all
	Reason      string  `json:"reason,omitempty"`       // retry_status, tool_approval_given

	// Of tool_approval_asked and tool_approval_given.
	Question string        `json:"question,omitempty" jsonschema:"of tool_approval_asked: text for people. The call waits until a client answers: POST /v1/sessions/{session}/approvals"`
	Until    events.Millis `json:"until_ms,omitempty" jsonschema:"of tool_approval_asked: time in milliseconds since 1970 at which the call is refused if it has no answer; omitted: never"`
	Granted  *bool         `json:"granted,omitempty" jsonschema:"of tool_approval_given; true: the call runs; false: it does not"`
	By       string        `json:"by,omitempty" jsonschema:"of tool_approval_given: caller that answered; timer: no answer came in time"`

	Inputs     []AcceptedInput       `json:"inputs,omitempty"`     // injected_turn_input_accepted
	Messages   []InputMessage        `json:"messages,omitempty"`   // injected_messages_committed: what plugins added
	Checkpoint events.CheckpointKind `json:"checkpoint,omitempty"` // injected_turn_input_accepted, injected_messages_committed

	Plugin string          `json:"plugin_id,omitempty"` // plugin_event; tool_approval_asked: the plugin that asks
	Event  json.RawMessage `json:"event,omitempty"`     // plugin_event: the plugin's data for display
	Text   string          `json:"text,omitempty"`      // message, tool_output: text of running code
	Kind   string          `json:"kind,omitempty"`      // message

	Stream string `json:"stream,omitempty" jsonschema:"of tool_output: stdout, stderr, log, progress or another word"`
	N      int64  `json:"n,omitempty" jsonschema:"of tool_output: number of the text in its attempt, from 1. A missing number is lost text; the result of the call counts"`
	Offset int64  `json:"offset,omitempty" jsonschema:"of tool_output: bytes that the attempt printed to the stream before this text"`

	TurnOutcome *TurnOutcome   `json:"outcome,omitempty"`  // turn_outcome
	Message     string         `json:"message,omitempty"`  // error
	Envelope    *ErrorEnvelope `json:"envelope,omitempty"` // error
}

// TokenUsage counts tokens. Reasoning is part of output.
type TokenUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_tokens,omitempty"`
	CacheWrite int64 `json:"cache_write_tokens,omitempty"`
	Reasoning  int64 `json:"reasoning_tokens,omitempty"`
}

// UsageOf converts usage to the form for clients and traces. It is nil for one that no provider told.
func UsageOf(u events.Usage) *TokenUsage {
	if u.IsZero() {
		return nil
	}
	return &TokenUsage{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Reasoning: u.Reasoning}
}

// AcceptedInput is an injected input that a turn consumed.
type AcceptedInput struct {
	ID      events.InputID `json:"id"`
	Message InputMessage   `json:"message"`
}

// InputMessage is a message that a host or a plugin injected.
type InputMessage struct {
	Role  events.Role `json:"role"`
	Parts []InputPart `json:"parts"`
}

// InputPart is a part of an injected message. A body outside the log is named by its digest.
type InputPart struct {
	Type      events.PartKind `json:"type"`
	Text      string          `json:"text,omitempty"`
	MediaType string          `json:"media_type,omitempty"`
	Blob      string          `json:"blob,omitempty"` // hex sha256
}

// OutcomeType is how a turn ended.
type OutcomeType string

// Values of [OutcomeType].
const (
	OutcomeAssistantMessage OutcomeType = "assistant_message"
	OutcomeSubmittedValue   OutcomeType = "submitted_value"
	OutcomeToolValue        OutcomeType = "tool_value"
	OutcomeFrameSwitch      OutcomeType = "agent_frame_switch"
	OutcomeStopped          OutcomeType = "stopped"
	OutcomeDiverted         OutcomeType = "diverted" // the turn did not start, because another one ran
)

// TurnOutcome is how a turn ended, with its data.
type TurnOutcome struct {
	Type     OutcomeType    `json:"type"`
	Text     string         `json:"text,omitempty"`      // of an assistant message, may be empty
	Reason   events.TurnEnd `json:"reason,omitempty"`    // of a stop; of a diverted turn: rejected, injected or branched
	ToolName string         `json:"tool_name,omitempty"` // of a tool's value or error
	Value    string         `json:"value,omitempty"`     // likewise: the tool's value; of a submitted value: that value
	FrameID  events.FrameID `json:"frame_id,omitempty"`  // of a frame switch: the frame of the follow-on turn
	Task     string         `json:"task,omitempty"`      // likewise: its input

	By      events.TurnID    `json:"by,omitempty"`         // of a diverted turn: the turn that ran, or that consumed its message
	Session events.SessionID `json:"session_id,omitempty"` // of a branched turn: the session in which it continues
}

// ErrorEnvelope is the machine-readable form of an error.
type ErrorEnvelope struct {
	Kind                string            `json:"kind"`
	Code                string            `json:"code,omitempty"`
	TerminalReason      events.StopReason `json:"terminal_reason,omitempty"` // of the reply that ended the turn; empty for a normal end
	UserMessage         string            `json:"user_message"`
	ProviderFailureKind string            `json:"provider_failure_kind,omitempty"` // as package llm names it
	Raw                 string            `json:"raw,omitempty"`                   // the provider's message, without secrets; at most 4000 characters
	Retryable           *bool             `json:"retryable,omitempty"`             // of a failed model call: whether the same request may succeed later
}
