package api

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TurnRequest requests a turn.
type TurnRequest struct {
	ID    events.TurnID    `msgpack:"i,omitempty"` // Defaults to a new one. A repeat with the same input is the same turn
	Input events.TurnInput `msgpack:"n,omitempty"`
	// WhenBusy is the policy where another turn runs or waits. For a repeat of the id the policy of the first request
	// counts.
	WhenBusy WhenBusy `msgpack:"b,omitempty"` // Defaults to enqueue
	// Callers on whose behalf code of this process requests the turn. A turn of a plugin has those of the turn that
	// it follows from.
	Callers []string `msgpack:"-"`
	// Answers is the pending call of the parent that the end of the turn resolves, for code of this process.
	Answers events.EffectID `msgpack:"-"`
}

// WhenBusy is the policy for a turn request while another turn runs or waits.
type WhenBusy string

// The policies. In an idle session the turn starts under each of them. Under each of them the turn ends exactly once
// in the history.
const (
	// WhenBusyEnqueue waits, in the order of the requests.
	WhenBusyEnqueue WhenBusy = "enqueue"
	// WhenBusyInject injects the message into the running turn, which consumes it at its next checkpoint. The new
	// turn then ends as injected, and By names the running one. Where no turn runs, or it has no further checkpoint,
	// the new turn waits and runs by itself. Only a message can be injected: with options, an extension, input for
	// plugins or continue the error is [events.ErrInvalid].
	WhenBusyInject WhenBusy = "inject"
	// WhenBusyReject refuses the turn: it ends as rejected, which is a [TurnRejectedError].
	WhenBusyReject WhenBusy = "reject"
	// WhenBusyInterrupt cancels the running turn, whose work so far stays. The new turn starts before the waiting
	// turns, after earlier interrupts.
	WhenBusyInterrupt WhenBusy = "interrupt"
	// WhenBusyBranch starts the turn, with the same id, in a new session: a copy of this one as it was before the
	// running turn. The turn ends here as branched, and Session names the new session.
	WhenBusyBranch WhenBusy = "branch"
)

// TurnResult is the result of an ended turn.
type TurnResult struct {
	projector.TurnRecord
	Text string // of the last assistant message, or of the tool result that ended the turn; may be empty
}

// CancelReceipt is the outcome of a cancel.
type CancelReceipt string

// Values of [CancelReceipt].
const (
	CancelRequested        CancelReceipt = "requested"
	CancelAlreadyRequested CancelReceipt = "already_requested"
	CancelCompletionWon    CancelReceipt = "completion_won_race"
)

// CancelRequest is the evidence of a cancel.
type CancelRequest struct {
	ID     string `msgpack:"i,omitempty"` // Defaults to a new one
	Origin string `msgpack:"o,omitempty"`
	Reason string `msgpack:"r,omitempty"`
}

// InjectRequest injects a message into a running turn, or before the next one.
type InjectRequest struct {
	ID       events.InputID  `msgpack:"i,omitempty"` // Defaults to a new one. A repeat with the same content is the same input
	Role     events.Role     `msgpack:"r,omitempty"` // Defaults to user
	Parts    []events.Part   `msgpack:"p,omitempty"`
	Boundary events.Boundary `msgpack:"b,omitempty"` // the earliest checkpoint that may take it
}

// InputReceipt is the outcome of a cancel of an injected input.
type InputReceipt string

// Values of [InputReceipt].
const (
	InputCancelled        InputReceipt = "cancelled"         // it was pending, and no turn will consume it
	InputAlreadyClaimed   InputReceipt = "already_claimed"   // the running turn consumed it
	InputAlreadyCompleted InputReceipt = "already_completed" // a turn that has ended consumed it
	InputAlreadyCancelled InputReceipt = "already_cancelled"
	InputNotFound         InputReceipt = "not_found" // the session has no such input
)

// AssembledTurn is the full record of an ended turn.
type AssembledTurn struct {
	Turn           events.TurnID    `json:"turn"`
	Seq            events.Seq       `json:"seq"` // of the commit that ended it; the state at that sequence is the turn's final state
	Outcome        TurnOutcome      `json:"outcome"`
	Output         AssistantOutput  `json:"assistant_output"`
	HadToolCalls   bool             `json:"had_tool_calls"`          // tool calls, by the model or by its code
	HadCode        bool             `json:"had_code_execution"`      // the protocol ran code
	StartedAt      events.Millis    `json:"started_at_ms,omitempty"` // 0 when it never started
	DurationMillis int64            `json:"duration_ms"`             // from start to end
	Usage          TokenUsage       `json:"token_usage,omitzero"`    // missing: no provider told it
	ChildrenUsage  []ChildUsage     `json:"children_usage"`          // charged during the turn, sorted by source and model
	ToolCalls      []ToolCallRecord `json:"tool_calls"`              // in the order of the replies
	Errors         []ErrorEnvelope  `json:"errors"`

	Protocol     string            `json:"protocol"`               // at its end: "standard" or another
	ModelCalls   []ModelCallRecord `json:"llm_calls"`              // in order, with the failed ones
	Cancellation *Cancellation     `json:"cancellation,omitempty"` // of a turn that was cancelled: the first request
}

// Cancellation is the evidence of a cancel.
type Cancellation struct {
	ID     string `json:"id"`
	Origin string `json:"origin,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ModelCallRecord is one model call of a turn, with its tries.
type ModelCallRecord struct {
	Iteration      int64             `json:"iteration"` // from 0
	Provider       string            `json:"provider,omitempty"`
	Model          string            `json:"model,omitempty"`
	Stop           events.StopReason `json:"stop,omitempty"` // why the reply ended; empty: no reply
	Fault          string            `json:"fault,omitempty"`
	DurationMillis int64             `json:"duration_ms,omitempty"`
	Usage          TokenUsage        `json:"usage,omitzero"` // missing: the provider did not tell it
	Attempts       int64             `json:"attempts"`       // all tries
	Failed         []FailedTry       `json:"failed"`         // tries without a reply, oldest first; a long list has the last ones
}

// FailedTry is one try of a model call without a reply.
type FailedTry struct {
	Kind        string  `json:"kind"` // as package llm names it
	Code        string  `json:"code,omitempty"`
	Status      int64   `json:"status,omitempty"` // HTTP status
	Message     string  `json:"message,omitempty"`
	WaitSeconds float64 `json:"wait_seconds,omitempty"` // until the next one
}

// ChildUsage is the token usage of child sessions.
type ChildUsage struct {
	Source string     `json:"source"`
	Model  string     `json:"model"`
	Usage  TokenUsage `json:"usage"`
}

// OutputState classifies an assistant's output.
type OutputState string

// Values of [OutputState].
const (
	OutputUsable    OutputState = "usable"
	OutputEmpty     OutputState = "empty_output"
	OutputTraceback OutputState = "traceback_only"       // no text, and the last code that ran failed
	OutputRecovered OutputState = "recovered_from_error" // the turn's answer, after failed code or an answer of the wrong form
)

// AssistantOutput is the last text of the assistant in the turn.
type AssistantOutput struct {
	SafeText string      `json:"safe_text"` // for display: the raw text after the plugin's prose projection
	RawText  string      `json:"raw_text"`
	State    OutputState `json:"state"`
}

// ToolCallRecord is one call with its outcome.
type ToolCallRecord struct {
	Call           events.EffectID `json:"call,omitempty" jsonschema:"TURN/ITERATION/INDEX, its id in approvals and output"`
	CallID         events.CallID   `json:"call_id,omitempty"` // the model's id of the call; may repeat
	Tool           string          `json:"tool"`
	Args           json.RawMessage `json:"args"`              // a JSON string where the model's JSON is invalid
	Output         string          `json:"output"`            // the tool's full output, also where the model reads a shortened one
	Outcome        events.Outcome  `json:"outcome,omitempty"` // empty is success
	DurationMillis int64           `json:"duration_ms"`       // 0: not measured
}
