package api

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TurnRequest asks for a turn.
type TurnRequest struct {
	ID    events.TurnID    `msgpack:"i,omitempty"` // Defaults to a new one. The same id with the same input is the same turn
	Input events.TurnInput `msgpack:"n,omitempty"`
	// WhenBusy says what becomes of it where another turn runs or waits. Of a retry by its id the first one's counts.
	WhenBusy WhenBusy `msgpack:"b,omitempty"` // Defaults to enqueue
	// Callers on whose behalf it is asked for, where no door says it: plugins' turns have those of the turn that they follow from.
	Callers []string `msgpack:"-"`
}

// WhenBusy is what becomes of a turn that is asked for while another one runs, or waits.
type WhenBusy string

// The policies. Where the session is idle they say nothing: the turn starts.
// Whichever it is, the turn ends once in the history, and nothing of it is lost.
const (
	// WhenBusyEnqueue waits, in the order in which turns were asked for.
	WhenBusyEnqueue WhenBusy = "enqueue"
	// WhenBusyInject lets a turn that runs take the message in, at its next
	// checkpoint: the result then ends in injected, and By names that turn. Where
	// none does it waits, and runs as a turn of its own. Only a message can be
	// injected: with options, an extension, input for plugins or continue it is [events.ErrInvalid].
	WhenBusyInject WhenBusy = "inject"
	// WhenBusyReject refuses it: it ends in rejected, which is a [TurnRejectedError].
	WhenBusyReject WhenBusy = "reject"
	// WhenBusyInterrupt cancels the running turn, whose work so far stays, and goes
	// before the turns that wait, behind those that interrupted earlier.
	WhenBusyInterrupt WhenBusy = "interrupt"
	// WhenBusyBranch goes on in a session of its own, which is this one as it was
	// before the running turn: the result ends in branched, and Session names it.
	// There the turn has the same id.
	WhenBusyBranch WhenBusy = "branch"
)

// TurnResult is how a turn ended.
type TurnResult struct {
	projector.TurnRecord
	Text string // of the last assistant message, or of the tool result that ended the turn; empty when there is none
}

// CancelReceipt says what a cancel met.
type CancelReceipt string

// The receipts (host specification 3.9).
const (
	CancelRequested        CancelReceipt = "requested"
	CancelAlreadyRequested CancelReceipt = "already_requested"
	CancelCompletionWon    CancelReceipt = "completion_won_race"
)

// CancelRequest is the evidence that a cancel leaves.
type CancelRequest struct {
	ID     string `msgpack:"i,omitempty"` // Defaults to a new one
	Origin string `msgpack:"o,omitempty"`
	Reason string `msgpack:"r,omitempty"`
}

// InjectRequest puts a message into a running turn, or before the next one.
type InjectRequest struct {
	ID       events.InputID  `msgpack:"i,omitempty"` // Defaults to a new one. The same id with the same content is the same input
	Role     events.Role     `msgpack:"r,omitempty"` // Defaults to user
	Parts    []events.Part   `msgpack:"p,omitempty"`
	Boundary events.Boundary `msgpack:"b,omitempty"` // the earliest checkpoint that may take it
}

// InputReceipt says what the cancel of an injected input met.
type InputReceipt string

// The receipts (host specification 3.11).
const (
	InputCancelled        InputReceipt = "cancelled"         // it was pending, and will reach no turn
	InputAlreadyClaimed   InputReceipt = "already_claimed"   // the running turn has it
	InputAlreadyCompleted InputReceipt = "already_completed" // a turn that has ended had it
	InputAlreadyCancelled InputReceipt = "already_cancelled"
	InputNotFound         InputReceipt = "not_found" // nobody injected it
)

// AssembledTurn is a finished turn as a whole (host specification 3.6).
type AssembledTurn struct {
	Turn           events.TurnID    `json:"turn"`
	Seq            events.Seq       `json:"seq"` // of the commit that ended it: the state as of then has all the state there
	Outcome        TurnOutcome      `json:"outcome"`
	Output         AssistantOutput  `json:"assistant_output"`
	HadToolCalls   bool             `json:"had_tool_calls"`          // of tools, by the model or by its code
	HadCode        bool             `json:"had_code_execution"`      // the protocol ran code
	StartedAt      events.Millis    `json:"started_at_ms,omitempty"` // 0 when it never started
	DurationMillis int64            `json:"duration_ms"`             // from start to end
	Usage          TokenUsage       `json:"token_usage"`
	ChildrenUsage  []ChildUsage     `json:"children_usage"` // charged while the turn ran, sorted by source and model
	ToolCalls      []ToolCallRecord `json:"tool_calls"`     // in the order of the replies
	Errors         []ErrorEnvelope  `json:"errors"`

	Protocol     string            `json:"protocol"`               // as of its end: "standard" or another
	ModelCalls   []ModelCallRecord `json:"llm_calls"`              // in order, those that failed too
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
	Stop           events.StopReason `json:"stop,omitempty"` // why the reply ended; empty: there was none
	Fault          string            `json:"fault,omitempty"`
	DurationMillis int64             `json:"duration_ms,omitempty"`
	Usage          TokenUsage        `json:"usage"`
	Attempts       int64             `json:"attempts"` // all tries
	Failed         []FailedTry       `json:"failed"`   // those that brought no reply, oldest first; of many the last
}

// FailedTry is one try of a model call that brought no reply.
type FailedTry struct {
	Kind        string  `json:"kind"` // as package llm names it
	Code        string  `json:"code,omitempty"`
	Status      int64   `json:"status,omitempty"` // HTTP status
	Message     string  `json:"message,omitempty"`
	WaitSeconds float64 `json:"wait_seconds,omitempty"` // until the next one
}

// ChildUsage is what child sessions used.
type ChildUsage struct {
	Source string     `json:"source"`
	Model  string     `json:"model"`
	Usage  TokenUsage `json:"usage"`
}

// OutputState says what an assistant's output is good for.
type OutputState string

// The states.
const (
	OutputUsable    OutputState = "usable"
	OutputEmpty     OutputState = "empty_output"
	OutputTraceback OutputState = "traceback_only"       // no text, and the last code that ran failed
	OutputRecovered OutputState = "recovered_from_error" // the turn's answer, after code failed or an answer was not of the form that was asked for
)

// AssistantOutput is the last text that the assistant wrote in the turn.
type AssistantOutput struct {
	SafeText string      `json:"safe_text"` // to be shown: the raw text, as the plugin that projects prose gives it
	RawText  string      `json:"raw_text"`
	State    OutputState `json:"state"`
}

// ToolCallRecord is one call with what came of it.
type ToolCallRecord struct {
	Call           events.EffectID `json:"call,omitempty" jsonschema:"TURN/ITERATION/INDEX, as approvals and output name it"`
	CallID         events.CallID   `json:"call_id,omitempty"` // as the model gave it; may repeat
	Tool           string          `json:"tool"`
	Args           json.RawMessage `json:"args"`              // a JSON string where the model's JSON is broken
	Output         string          `json:"output"`            // what the tool gave, whatever of it the model reads
	Outcome        events.Outcome  `json:"outcome,omitempty"` // empty is success
	DurationMillis int64           `json:"duration_ms"`       // 0 where nobody measured
}
