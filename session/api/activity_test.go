package api_test

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// sequence yields events, and then err unless it is nil.
func sequence(err error, list ...api.SessionEvent) iter.Seq2[api.SessionEvent, error] {
	return func(yield func(api.SessionEvent, error) bool) {
		for _, e := range list {
			if e.Turn = "t"; !yield(e, nil) {
				return
			}
		}
		if err != nil {
			yield(api.SessionEvent{}, err)
		}
	}
}

// TestActivities checks correlation ids: of runs of text, of calls whose ids repeat, and of text that a reset
// retracts.
func TestActivities(t *testing.T) {
	t.Parallel()
	call := func(typ api.EventType, id, name string) api.SessionEvent {
		return api.SessionEvent{Type: typ, CallID: events.CallID(id), Name: name}
	}
	started, ended := api.EventToolCallStart, api.EventToolCall
	asked, given := api.EventApprovalAsked, api.EventApprovalGiven
	named := func(typ api.EventType, name events.EffectID) api.SessionEvent {
		return api.SessionEvent{Type: typ, Call: name, CallID: "same", Name: "look"}
	}
	broken := errors.New("broken")
	var got []string
	for a, err := range api.Activities(sequence(broken,
		api.SessionEvent{Type: api.EventLLMRequest},
		api.SessionEvent{Type: api.EventReasoningDelta}, api.SessionEvent{Type: api.EventReasoningDelta}, api.SessionEvent{Type: api.EventTextDelta},
		api.SessionEvent{Type: api.EventAttemptReset}, api.SessionEvent{Type: api.EventTextDelta}, api.SessionEvent{Type: api.EventTextDelta}, api.SessionEvent{Type: api.EventLLMResponse},
		call(started, "c", "look"), call(started, "c", "look"), call(started, "d", "run_code"), call(ended, "d", "run_code"), call(ended, "c", "look"), call(ended, "c", "look"),
		api.SessionEvent{Type: api.EventTextDelta}, api.SessionEvent{Type: api.EventAttemptReset},
		named(started, "t/1/1"), named(started, "t/1/0"), named(asked, "t/1/0"), named(asked, "t/1/1/7"), named(given, "t/1/0"), named(asked, "t/1/10"), named(ended, "t/1/0"), named(ended, "t/1/1"),
		api.SessionEvent{Type: api.EventTurnOutcome, TurnOutcome: &api.TurnOutcome{Type: api.OutcomeSubmittedValue}}, api.SessionEvent{Type: api.EventDone},
	)) {
		if err != nil {
			got = append(got, err.Error())
			continue
		}
		got = append(got, fmt.Sprint(a.Type, " ", a.Correlation, " ", a.Retracted))
	}
	want := []string{
		"model_request_started t/1 []", "reasoning_delta t/2 []", "reasoning_delta t/2 []", "assistant_prose_delta t/4 []",
		"model_attempt_reset t/5 [t/2 t/4]", "assistant_prose_delta t/6 []", "assistant_prose_delta t/6 []", "model_request_completed t/8 []",
		"tool_call_started t/9 []", "tool_call_started t/10 []", "code_block_started t/11 []", "code_block_completed t/11 []", "tool_call_completed t/9 []", "tool_call_completed t/10 []",
		"assistant_prose_delta t/15 []", "model_attempt_reset t/16 [t/15]",
		"tool_call_started t/17 []", "tool_call_started t/18 []", "tool_approval_asked t/18 []", "tool_approval_asked t/17 []", "tool_approval_given t/18 []", "tool_approval_asked t/22 []",
		"tool_call_completed t/18 []", "tool_call_completed t/17 []", "submitted_value t/25 []", "done t/26 []", "broken",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

// TestActivitiesKeepEvents checks that every event appears once, in order, with a unique id and a type.
func TestActivitiesKeepEvents(t *testing.T) {
	t.Parallel()
	types := []api.EventType{
		api.EventTextDelta, api.EventReasoningDelta, api.EventToolCallStart, api.EventToolCall, api.EventLLMRequest, api.EventLLMResponse, api.EventTokenUsage,
		api.EventRetryStatus, api.EventInputAccepted, api.EventTurnOutcome, api.EventDone, api.EventError, api.EventMessage, api.EventChildTokenUsage,
		api.EventMessagesAdded, api.EventPlugin, api.EventAttemptReset, api.EventApprovalAsked, api.EventApprovalGiven,
	}
	rapid.Check(t, func(t *rapid.T) {
		var list []api.SessionEvent
		for _, typ := range rapid.SliceOf(rapid.SampledFrom(types)).Draw(t, "events") {
			list = append(list, api.SessionEvent{Type: typ, CallID: rapid.SampledFrom([]events.CallID{"", "c"}).Draw(t, "call"), TurnOutcome: &api.TurnOutcome{}})
		}
		n := 0
		for a, err := range api.Activities(sequence(nil, list...)) {
			if err != nil || a.Event.Type != list[n].Type || a.ID != fmt.Sprintf("t/%d", n+1) || a.Type == "" || (a.Type == api.ActivityDone) != (list[n].Type == api.EventDone) {
				t.Fatalf("%d: got %+v, %v, want event %s", n, a, err, list[n].Type)
			}
			n++
		}
		if n != len(list) {
			t.Fatalf("got %d activities, want %d", n, len(list))
		}
	})
}
