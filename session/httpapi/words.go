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

// JSON types in which the format's empty value has a name, or of which a request takes some only.
type (
	// Outcome is how a call came out.
	Outcome string
	// Effects says whether a call may run again.
	Effects string
	// Level says how far a tool is offered.
	Level string
	// TaskKind says what a background task is.
	TaskKind string
	// TaskState says how a background task stands.
	TaskState string
	// CancelPolicy says what a cancel does to a background task.
	CancelPolicy string
	// ClosePolicy says what becomes of a background task when its session is closed.
	ClosePolicy string
	// MonitorState says how a monitor stands.
	MonitorState string
	// PendingStatus is that of a turn that has not ended.
	PendingStatus string
	// GivenType is what a piece of a message is that a request brings.
	GivenType string
	// GivenOutcome is how a call came out, as a result from outside or of an action says it.
	GivenOutcome string
	// OwnKind says what a background task of the caller's own program is.
	OwnKind string
	// EndState says how such a task ended.
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
	list[of[events.Override]()] = append(slices.Clone(list[of[Level]()]), "") // which lifts the override
	return list
}

// leaves has the hand-written schemas.
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
