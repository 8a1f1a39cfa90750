package httpapi

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// JSON types for words of the format: the empty value has a name, or requests accept only some of the words.
type (
	// outcomeJSON is the outcome of a call.
	outcomeJSON string
	// effectsJSON says whether a call may run again.
	effectsJSON string
	// levelJSON is the level at which a tool is offered.
	levelJSON string
	// taskKindJSON is the kind of a background task.
	taskKindJSON string
	// taskStateJSON is the state of a background task.
	taskStateJSON string
	// cancelPolicyJSON is the effect of a cancel on a background task.
	cancelPolicyJSON string
	// closePolicyJSON is the effect of the session's close on a background task.
	closePolicyJSON string
	// monitorStateJSON is the state of a monitor.
	monitorStateJSON string
	// pendingStatusJSON is the status of a turn that has not ended.
	pendingStatusJSON string
	// givenTypeJSON is the type of a message part in a request.
	givenTypeJSON string
	// givenOutcomeJSON is the outcome in a result from outside or of an action.
	givenOutcomeJSON string
	// ownKindJSON is the kind of a task of the caller's own program.
	ownKindJSON string
	// endStateJSON is the final state of such a task.
	endStateJSON string
	// liveStateJSON is a state that such a task moves to while it lives.
	liveStateJSON string
)

// words has the values of each type. The empty value is not listed: the field is omitted instead.
func words() map[reflect.Type][]string {
	list := map[reflect.Type][]string{
		typeOf[events.Role]():           {"user", "assistant", "system"},
		typeOf[events.PartKind]():       {"text", "reasoning", "tool_call", "tool_result", "attachment"},
		typeOf[events.StopReason]():     {"stop", "tool_use", "output_limit", "context_overflow", "content_filter", "provider_error", "cancelled", "unknown"},
		typeOf[events.Boundary]():       {"before_completion"},
		typeOf[events.CheckpointKind](): {"start", "after_work", "before_completion", "end"},
		typeOf[events.SessionRight]():   {"read", "write", "approve"},
		typeOf[events.WakePolicy]():     {"notify"},
		typeOf[events.Relation]():       {"child", "handoff"},
		typeOf[events.NodeKind]():       {"message", "plugin", "protocol"},
		typeOf[events.Outcome]():        {"failure", "cancelled", "lost"},
		typeOf[events.Effects]():        {"idempotent", "none"},
		typeOf[events.Availability]():   {"off", "searchable", "callable"},
		typeOf[events.TaskKind]():       {"monitor", "subagent", "observer", "tool"},
		typeOf[events.TaskState]():      {"running", "waiting", "cancel_requested", "completed", "failed", "cancelled"},
		typeOf[events.CancelPolicy]():   {"abort_local", "external"},
		typeOf[events.ClosePolicy]():    {"cancel", "transfer"},
		typeOf[events.MonitorState]():   {"running", "stopped", "exited", "failed"},
		typeOf[events.TurnEnd]():        {"finished", "tool_value", "submitted_value", "frame_switch", "cancelled", "incomplete", "invalid_input", "max_turns", "provider_error", "runtime_error", "tool_error", "plugin_abort", "failed", "rejected", "injected", "branched"},
		typeOf[api.WhenBusy]():          {"enqueue", "inject", "reject", "interrupt", "branch"},
		typeOf[api.Start]():             {"current_session", "existing_session", "snapshot"},
		typeOf[api.PluginSource]():      {"current_session_fork"},
		typeOf[api.CancelReceipt]():     {"requested", "already_requested", "completion_won_race"},
		typeOf[api.InputReceipt]():      {"cancelled", "already_claimed", "already_completed", "already_cancelled", "not_found"},
		typeOf[api.OutputState]():       {"usable", "empty_output", "traceback_only", "recovered_from_error"},
		typeOf[api.ActivityType](): {
			"model_request_started", "model_request_completed", "assistant_prose_delta", "reasoning_delta", "model_attempt_reset", "retry_status",
			"code_block_started", "code_block_completed", "tool_call_started", "tool_call_completed", "tool_output", "tool_approval_asked", "tool_approval_given", "message", "plugin_surface",
			"queued_input_accepted", "queued_messages_committed", "usage", "child_usage", "error", "submitted_value", "tool_value", "turn_outcome", "done",
		},
		typeOf[events.Slot]():         {"intro", "execution", "guidance", "project_instructions", "runtime_context", "environment"},
		typeOf[events.LayerOp]():      {"add", "replace", "clear"},
		typeOf[api.TurnStatus]():      {"ended", "running", "asking", "waiting", "scheduled"},
		typeOf[api.OutcomeType]():     {"assistant_message", "submitted_value", "tool_value", "agent_frame_switch", "stopped", "diverted"},
		typeOf[api.EventType]():       {"text_delta", "reasoning_delta", "tool_call_start", "tool_call", "tool_output", "llm_request", "llm_response", "token_usage", "retry_status", "injected_turn_input_accepted", "turn_outcome", "done", "error", "message", "child_token_usage", "injected_messages_committed", "plugin_event", "model_attempt_reset", "tool_approval_asked", "tool_approval_given"},
		typeOf[api.Right]():           {"read", "write", "approve", "configure", "command", "grant"},
		typeOf[projector.Status]():    {"opening", "open", "closed", "erasing", "erased"},
		typeOf[plugin.SessionParam](): {"required", "optional", "forbidden"},
		typeOf[givenTypeJSON]():       {"text", "attachment"},
		typeOf[givenOutcomeJSON]():    {"success", "failure", "cancelled"},
		typeOf[ownKindJSON]():         {"observer", "other"},
		typeOf[endStateJSON]():        {"completed", "failed", "cancelled"},
		typeOf[liveStateJSON]():       {"running", "waiting"},
	}
	for word, row := range zeroWords {
		if row.of != nil {
			list[word] = append(slices.Clone(list[row.of]), row.zero)
		}
	}
	list[typeOf[events.Override]()] = append(slices.Clone(list[typeOf[levelJSON]()]), "") // the empty value removes the override
	return list
}

// zeroWord is the name of a type's zero value, which has none in the format.
type zeroWord struct {
	of   reflect.Type // has the other words; nil: words lists all
	zero string
}

//nolint:gochecknoglobals // read-only
var zeroWords = map[reflect.Type]zeroWord{
	typeOf[outcomeJSON]():       {typeOf[events.Outcome](), "success"},
	typeOf[givenOutcomeJSON]():  {nil, "success"},
	typeOf[effectsJSON]():       {typeOf[events.Effects](), "non_idempotent"},
	typeOf[levelJSON]():         {typeOf[events.Availability](), "showcased"},
	typeOf[taskKindJSON]():      {typeOf[events.TaskKind](), "other"},
	typeOf[ownKindJSON]():       {nil, "other"},
	typeOf[pendingStatusJSON](): {typeOf[api.TurnStatus](), "pending"},
	typeOf[taskStateJSON]():     {typeOf[events.TaskState](), "pending"},
	typeOf[cancelPolicyJSON]():  {typeOf[events.CancelPolicy](), "cooperative"},
	typeOf[closePolicyJSON]():   {typeOf[events.ClosePolicy](), "keep"},
	typeOf[monitorStateJSON]():  {typeOf[events.MonitorState](), "idle"},
}

// leaves are the hand-written schemas.
func leaves() map[reflect.Type]*jsonschema.Schema {
	list := map[reflect.Type]*jsonschema.Schema{
		typeOf[json.RawMessage](): {Description: "any JSON value"},
		typeOf[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		typeOf[eventjson.Value](): {Type: "object", AdditionalProperties: &jsonschema.Schema{Description: "any JSON value"}, Description: "see events/FORMAT.md: the fields of the kind, by their names in lower_snake"},
	}
	for t, words := range words() {
		s := &jsonschema.Schema{Type: "string"}
		for _, word := range words {
			s.Enum = append(s.Enum, word)
		}
		list[t] = s
	}
	return list
}
