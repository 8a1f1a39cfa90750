package wire

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// HookCall calls a [Hook] of an instance. It is answered once, with a [HookResult].
type HookCall struct {
	Hook       string           `json:"hook"`
	Point      string           `json:"point"`
	Invocation string           `json:"invocation"` // the same for every attempt: a repeat may follow a lost answer
	Session    events.SessionID `json:"session"`
	Turn       events.TurnID    `json:"turn,omitempty"`
	Epoch      int64            `json:"epoch,omitempty"` // see [Call]
	Term       string           `json:"term,omitempty"`  // see [Call]
	DeadlineMS int64            `json:"deadline_ms"`     // from now; an answer after it has no reader
	// Redelivered means that an observing hook may have had this event before.
	Redelivered bool `json:"redelivered,omitempty"`
	// Iteration is the index of the model call in the turn, from 0, at before_model_call.
	Iteration int64 `json:"iteration,omitempty"`
	// LastPrompt are the tokens of the session's last prompt, 0 before the first, at before_model_call.
	LastPrompt int64 `json:"last_prompt,omitempty"`
	// Window is that of the model in tokens, 0 if unknown, at before_model_call.
	Window int64 `json:"window,omitempty"`
	// Messages is the number of messages of the conversation, at before_turn and before_model_call.
	Messages int `json:"messages,omitempty"`
	// Input is the text of the turn's input, at before_turn.
	Input string `json:"input,omitempty"`
	// Call is the tool call, at before_tool_call and after_tool_call.
	Call *HookedCall `json:"call,omitempty"`
	// At is the checkpoint: "after_work" or "before_completion".
	At events.CheckpointKind `json:"at,omitempty"`
	// Ending is how the turn ends, at after_turn, turn_finalized and turn_persisted.
	Ending *Ending `json:"ending,omitempty"`
	// FiredBy is the plugin that fired a custom point. The node takes it from the sender's credentials.
	FiredBy string `json:"fired_by,omitempty"`
	// Data is what a plugin fired at a custom point, and what the event of an observing hook has.
	Data json.RawMessage `json:"data,omitempty"`
}

// HookedCall is the tool call that a hook is called for.
type HookedCall struct {
	Call   events.EffectID `json:"call"`
	Model  events.CallID   `json:"model_call"`
	Key    string          `json:"key,omitempty"`   // that of the tool's [Call]; empty from a node that does not send it yet
	Again  bool            `json:"again,omitempty"` // an earlier node may have started the call
	Once   bool            `json:"once,omitempty"`  // see [Call]
	Inner  bool            `json:"inner,omitempty"` // another call made it, or it runs in the background
	Tool   string          `json:"tool"`
	Args   json.RawMessage `json:"args"`
	Result *HookedResult   `json:"result,omitempty"` // at after_tool_call
	Millis int64           `json:"millis,omitempty"` // at after_tool_call
}

// Ending is how a turn ends.
type Ending struct {
	End     events.TurnEnd `json:"end"`
	Kind    string         `json:"kind,omitempty"`    // of the turn's error
	Code    string         `json:"code,omitempty"`    // likewise
	Message string         `json:"message,omitempty"` // likewise
	Tool    string         `json:"tool,omitempty"`    // whose result ended the turn
}

// HookedResult is the result of a tool call.
type HookedResult struct {
	Text    string         `json:"text"`
	Outcome events.Outcome `json:"outcome,omitempty"` // empty is success
}

// HookResult answers a [HookCall]. An error is a failure of the hook.
type HookResult struct {
	Directives []Directive `json:"directives,omitempty"`
	Error      *Error      `json:"error,omitempty"`
}

// Directive is an instruction of a hook to the turn. Package session/plugin has the table of the points that each kind
// is for.
type Directive struct {
	Kind          events.DirectiveKind `json:"kind"`                    // all but create_session, for which there are callbacks
	Code          string               `json:"code,omitempty"`          // of abort_turn
	Message       string               `json:"message,omitempty"`       // of abort_turn and ask_approval
	WithinMS      int64                `json:"within_ms,omitempty"`     // of ask_approval; 0 means no limit
	Messages      []Said               `json:"messages,omitempty"`      // of enqueue_messages, and the first ones of the frame of switch_frame
	Args          json.RawMessage      `json:"args,omitempty"`          // of replace_tool_args
	Result        *HookedResult        `json:"result,omitempty"`        // of short_circuit_tool
	Events        []json.RawMessage    `json:"events,omitempty"`        // of emit_events
	Name          string               `json:"name,omitempty"`          // of emit_trace
	Payload       json.RawMessage      `json:"payload,omitempty"`       // of emit_trace
	Context       *TraceContext        `json:"context,omitempty"`       // of emit_trace
	Contributions []Fragment           `json:"contributions,omitempty"` // of contribute
	Text          string               `json:"text,omitempty"`          // of system_prompt
	Frame         events.FrameID       `json:"frame,omitempty"`         // of switch_frame
	Task          string               `json:"task,omitempty"`          // of switch_frame
}

// Said is a message with one text.
type Said struct {
	Role events.Role `json:"role"` // "user" or "system"
	Text string      `json:"text"`
}

// Fire is a request of an instance: nodes call the hooks of all other plugins at the custom point. It is answered with
// [Fired].
type Fire struct {
	Point   string           `json:"point"`             // "custom.NAME"
	Session events.SessionID `json:"session,omitempty"` // any one: the node does not check that the plugin has to do with it
	Data    json.RawMessage  `json:"data,omitempty"`
}

// Fired answers a [Fire].
type Fired struct {
	Error   *Error   `json:"error,omitempty"`
	Reached []string `json:"reached"` // plugins whose hooks returned
}
