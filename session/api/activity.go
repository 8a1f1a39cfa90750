package api

import (
	"fmt"
	"iter"
	"strings"

	"github.com/lash-go/lash/events"
)

// ActivityType is the subject of an activity.
type ActivityType string

// The activities. Each contains the session event that it comes from.
const (
	ActivityModelRequest   ActivityType = "model_request_started"
	ActivityModelResponse  ActivityType = "model_request_completed"
	ActivityProse          ActivityType = "assistant_prose_delta"
	ActivityReasoning      ActivityType = "reasoning_delta"
	ActivityReset          ActivityType = "model_attempt_reset"
	ActivityRetry          ActivityType = "retry_status"
	ActivityCodeStarted    ActivityType = "code_block_started"
	ActivityCodeCompleted  ActivityType = "code_block_completed"
	ActivityCallStarted    ActivityType = "tool_call_started"
	ActivityCallCompleted  ActivityType = "tool_call_completed"
	ActivityCallOutput     ActivityType = "tool_output"
	ActivityApprovalAsked  ActivityType = "tool_approval_asked"
	ActivityApprovalGiven  ActivityType = "tool_approval_given"
	ActivityMessage        ActivityType = "message"
	ActivityPlugin         ActivityType = "plugin_surface"
	ActivityInputAccepted  ActivityType = "queued_input_accepted"
	ActivityMessagesAdded  ActivityType = "queued_messages_committed"
	ActivityUsage          ActivityType = "usage"
	ActivityChildUsage     ActivityType = "child_usage"
	ActivityError          ActivityType = "error"
	ActivitySubmittedValue ActivityType = "submitted_value"
	ActivityToolValue      ActivityType = "tool_value"
	ActivityOutcome        ActivityType = "turn_outcome" // any other
	ActivityDone           ActivityType = "done"
)

// ToolCode is the tool name of code that a protocol runs. No catalogue has it.
const ToolCode = "run_code"

// TurnActivity is a turn's event in a form for display. Activities that belong together have one correlation id: the
// deltas of one run of text, or the start, the approval and the end of a call.
type TurnActivity struct {
	ID          string       `json:"id"` // unique in its turn's stream: the turn, a slash and the activity's number from 1
	Correlation string       `json:"correlation_id"`
	Type        ActivityType `json:"type"`
	Retracted   []string     `json:"retracted,omitempty"` // model_attempt_reset: correlation ids of text to hide
	Event       SessionEvent `json:"event"`
}

// Activities maps a turn's events to activities, one for each, in their order. An error ends the sequence.
func Activities(list iter.Seq2[SessionEvent, error]) iter.Seq2[TurnActivity, error] {
	return func(yield func(TurnActivity, error) bool) {
		var a activities
		for e, err := range list {
			if err != nil {
				yield(TurnActivity{}, err)
				return
			}
			if !yield(a.next(e), nil) {
				return
			}
		}
	}
}

// activities is the state that links an activity to earlier ones.
type activities struct {
	n     int
	run   string       // of the current run of text; empty: none
	kind  ActivityType // of the run
	shown []string     // correlation ids of the text that the current attempt has streamed
	open  []openCall   // in the order of their starts
}

type openCall struct {
	call        events.EffectID // empty: of an earlier node
	id          events.CallID
	name        string
	iteration   int64
	correlation string
}

func (a *activities) next(e SessionEvent) TurnActivity {
	a.n++
	id := fmt.Sprintf("%s/%d", e.Turn, a.n)
	t := TurnActivity{ID: id, Correlation: id, Type: activityOf(&e), Event: e}
	switch e.Type { //nolint:exhaustive // the other types have no links
	case EventTextDelta, EventReasoningDelta:
		if a.run == "" || a.kind != t.Type {
			a.run, a.kind = id, t.Type
			a.shown = append(a.shown, id)
		}
		t.Correlation = a.run
		return t
	case EventAttemptReset:
		t.Retracted, a.shown = a.shown, nil
	case EventLLMResponse:
		a.shown = nil
	case EventToolCallStart:
		a.open = append(a.open, openCall{e.Call, e.CallID, e.Name, e.Iteration, id})
	case EventToolCall:
		t.Correlation = a.ended(&e, id)
	case EventApprovalAsked, EventApprovalGiven, EventToolOutput:
		t.Correlation = a.about(e.Call, id)
	}
	a.run = ""
	return t
}

// about returns the correlation id of the open call that an approval or output refers to; otherwise where no such call is open.
func (a *activities) about(call events.EffectID, otherwise string) string {
	for _, c := range a.open {
		if c.call != "" && (c.call == call || strings.HasPrefix(string(call), string(c.call)+"/")) {
			return c.correlation
		}
	}
	return otherwise
}

// ended returns the correlation id of a call that returned. Model call ids can repeat: for a call without a name the
// first open call with the id counts.
func (a *activities) ended(e *SessionEvent, otherwise string) string {
	for i, c := range a.open {
		if c.call == e.Call && c.id == e.CallID && c.name == e.Name && c.iteration == e.Iteration {
			a.open = append(a.open[:i:i], a.open[i+1:]...)
			return c.correlation
		}
	}
	return otherwise
}

func activityOf(e *SessionEvent) ActivityType {
	switch code := e.Name == ToolCode; {
	case e.Type == EventToolCallStart && code:
		return ActivityCodeStarted
	case e.Type == EventToolCall && code:
		return ActivityCodeCompleted
	case e.Type == EventTurnOutcome && e.TurnOutcome.Type == OutcomeSubmittedValue:
		return ActivitySubmittedValue
	case e.Type == EventTurnOutcome && e.TurnOutcome.Type == OutcomeToolValue:
		return ActivityToolValue
	}
	return activityTypes[e.Type]
}

// activityTypes has the activity of each event, where its content makes no other one of it.
//
//nolint:gochecknoglobals // read-only
var activityTypes = map[EventType]ActivityType{
	EventToolCallStart: ActivityCallStarted, EventToolCall: ActivityCallCompleted, EventToolOutput: ActivityCallOutput,
	EventTurnOutcome: ActivityOutcome, EventTextDelta: ActivityProse, EventReasoningDelta: ActivityReasoning,
	EventLLMRequest: ActivityModelRequest, EventLLMResponse: ActivityModelResponse,
	EventTokenUsage: ActivityUsage, EventChildTokenUsage: ActivityChildUsage, EventRetryStatus: ActivityRetry,
	EventInputAccepted: ActivityInputAccepted, EventMessagesAdded: ActivityMessagesAdded, EventPlugin: ActivityPlugin,
	EventAttemptReset: ActivityReset, EventApprovalAsked: ActivityApprovalAsked, EventApprovalGiven: ActivityApprovalGiven,
	EventMessage: ActivityMessage, EventError: ActivityError, EventDone: ActivityDone,
}
