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
	// Outcome is the outcome of a call.
	Outcome string
	// Effects says whether a call may run again.
	Effects string
	// Level is the level at which a tool is offered.
	Level string
	// TaskKind is the kind of a background task.
	TaskKind string
	// TaskState is the state of a background task.
	TaskState string
	// CancelPolicy is the effect of a cancel on a background task.
	CancelPolicy string
	// ClosePolicy is the effect of the session's close on a background task.
	ClosePolicy string
	// MonitorState is the state of a monitor.
	MonitorState string
	// PendingStatus is the status of a turn that has not ended.
	PendingStatus string
	// GivenType is the type of a message part in a request.
	GivenType string
	// GivenOutcome is the outcome in a result from outside or of an action.
	GivenOutcome string
	// OwnKind is the kind of a task of the caller's own program.
	OwnKind string
	// EndState is the final state of such a task.
	EndState string
)

// words has the values of each type. The empty value is not listed: the field is omitted instead.
func words() map[reflect.Type][]string {
	list := map[reflect.Type][]string{
		of[events.Role]():           {"user", "assistant", "system"},
		of[events.PartKind]():       {"text", "reasoning", "tool_call", "tool_result", "attachment"},
		of[events.StopReason]():     {"stop", "tool_use", "output_limit", "context_overflow", "content_filter", "provider_error", "cancelled", "unknown"},
		of[events.Boundary]():       {"before_completion"},
		of[events.CheckpointKind](): {"start", "after_work", "before_completion", "end"},
		of[events.SessionRight]():   {"read", "write", "approve"},
		of[events.WakePolicy]():     {"notify"},
		of[events.Relation]():       {"child", "handoff"},
		of[events.NodeKind]():       {"message", "plugin", "protocol"},
		of[events.Outcome]():        {"failure", "cancelled", "lost"},
		of[events.Effects]():        {"idempotent", "none"},
		of[events.Availability]():   {"off", "searchable", "callable"},
		of[events.TaskKind]():       {"monitor", "subagent", "observer", "tool"},
		of[events.TaskState]():      {"running", "waiting", "cancel_requested", "completed", "failed", "cancelled"},
		of[events.CancelPolicy]():   {"abort_local", "external"},
		of[events.ClosePolicy]():    {"cancel", "transfer"},
		of[events.MonitorState]():   {"running", "stopped", "exited", "failed"},
		of[events.TurnEnd]():        {"finished", "tool_value", "submitted_value", "frame_switch", "cancelled", "incomplete", "invalid_input", "max_turns", "provider_error", "runtime_error", "tool_error", "plugin_abort", "failed", "rejected", "injected", "branched"},
		of[api.WhenBusy]():          {"enqueue", "inject", "reject", "interrupt", "branch"},
		of[api.Start]():             {"current_session", "existing_session", "snapshot"},
		of[api.PluginSource]():      {"current_session_fork"},
		of[api.CancelReceipt]():     {"requested", "already_requested", "completion_won_race"},
		of[api.InputReceipt]():      {"cancelled", "already_claimed", "already_completed", "already_cancelled", "not_found"},
		of[api.OutputState]():       {"usable", "empty_output", "traceback_only", "recovered_from_error"},
		of[api.ActivityType](): {
			"model_request_started", "model_request_completed", "assistant_prose_delta", "reasoning_delta", "model_attempt_reset", "retry_status",
			"code_block_started", "code_block_completed", "tool_call_started", "tool_call_completed", "tool_approval_asked", "tool_approval_given", "message", "plugin_surface",
			"queued_input_accepted", "queued_messages_committed", "usage", "child_usage", "error", "submitted_value", "tool_value", "turn_outcome", "done",
		},
		of[events.Slot]():         {"intro", "execution", "guidance", "project_instructions", "runtime_context", "environment"},
		of[events.LayerOp]():      {"add", "replace", "clear"},
		of[api.TurnStatus]():      {"ended", "running", "asking", "waiting", "scheduled"},
		of[api.OutcomeType]():     {"assistant_message", "submitted_value", "tool_value", "agent_frame_switch", "stopped", "diverted"},
		of[api.EventType]():       {"text_delta", "reasoning_delta", "tool_call_start", "tool_call", "llm_request", "llm_response", "token_usage", "retry_status", "injected_turn_input_accepted", "turn_outcome", "done", "error", "message", "child_token_usage", "injected_messages_committed", "plugin_event", "model_attempt_reset", "tool_approval_asked", "tool_approval_given"},
		of[api.Right]():           {"read", "write", "approve", "configure", "command", "grant"},
		of[projector.Status]():    {"opening", "open", "closed", "erasing", "erased"},
		of[plugin.SessionParam](): {"required", "optional", "forbidden"},
		of[PendingStatus]():       {"pending", "asking"},
		of[GivenType]():           {"text", "attachment"},
		of[GivenOutcome]():        {"success", "failure", "cancelled"},
		of[OwnKind]():             {"observer", "other"},
		of[EndState]():            {"completed", "failed", "cancelled"},
	}
	for word, row := range map[reflect.Type]struct {
		of   reflect.Type
		zero string
	}{
		of[Outcome]():      {of[events.Outcome](), "success"},
		of[Effects]():      {of[events.Effects](), "non_idempotent"},
		of[Level]():        {of[events.Availability](), "showcased"},
		of[TaskKind]():     {of[events.TaskKind](), "other"},
		of[TaskState]():    {of[events.TaskState](), "pending"},
		of[CancelPolicy](): {of[events.CancelPolicy](), "cooperative"},
		of[ClosePolicy]():  {of[events.ClosePolicy](), "keep"},
		of[MonitorState](): {of[events.MonitorState](), "idle"},
	} {
		list[word] = append(slices.Clone(list[row.of]), row.zero)
	}
	list[of[events.Override]()] = append(slices.Clone(list[of[Level]()]), "") // the empty value removes the override
	return list
}

// leaves are the hand-written schemas.
func leaves() map[reflect.Type]*jsonschema.Schema {
	list := map[reflect.Type]*jsonschema.Schema{
		of[json.RawMessage](): {Description: "any JSON value"},
		of[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		of[eventjson.Value](): {Type: "object", AdditionalProperties: &jsonschema.Schema{Description: "any JSON value"}, Description: "see events/FORMAT.md: the fields of the kind, by their names in lower_snake"},
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
