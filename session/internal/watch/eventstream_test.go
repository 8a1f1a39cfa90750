package watch_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/watch"
)

// script is the list of observations of turn t1: commits ([]events.Event) and deltas.
type script []any

func TestEventStream(t *testing.T) {
	t.Parallel()
	tools := []events.ToolEntry{{Name: "add", Effects: events.EffectsNone}}
	for _, c := range []struct {
		name   string
		script script
		want   []string
	}{
		{"plain", script{
			started(), piece(1, 0, "Hel"), piece(1, 1, "lo"), of(says(0, texts("Hello")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "Hel"`, `text_delta 0 "lo"`, `llm_response 0 "Hello"`,
			`token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message Hello`, `done`,
		}},
		{"no-deltas", script{
			started(), of(says(0, events.Part{Kind: events.PartReasoning, Text: "hm"}, texts("Hello")[0]), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `reasoning_delta 0 "hm"`, `text_delta 0 "Hello"`, `llm_response 0 "Hello"`,
			`token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message Hello`, `done`,
		}},
		{"tail-and-hole", script{ // delta 1 is lost: the text after it comes with the commit
			started(), piece(1, 0, "a"), piece(1, 2, "c"), piece(1, 3, "d"), piece(1, 0, "a"), of(says(0, texts("ab", "cde")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "a"`, `text_delta 0 "bcde"`, `llm_response 0 "abcde"`,
			`token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message abcde`, `done`,
		}},
		{"other-text", script{ // the recorded reply differs from the streamed one
			started(), thought(0, "hm"), piece(1, 1, "Hey"), of(says(0, texts("Hello")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `reasoning_delta 0 "hm"`, `text_delta 0 "Hey"`, `model_attempt_reset`, `text_delta 0 "Hello"`,
			`llm_response 0 "Hello"`, `token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message Hello`, `done`,
		}},
		{"retry", script{
			started(), piece(1, 0, "Hel"), retry(1), retry(2), piece(1, 1, "lo"), piece(3, 1, "By"), of(says(0, texts("Bye")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "Hel"`, `model_attempt_reset`, `retry_status 1/4 1.5s busy`, `retry_status 2/4 1.5s busy`,
			`text_delta 0 "By"`, `text_delta 0 "e"`, `llm_response 0 "Bye"`, `token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message Bye`, `done`,
		}},
		{"takeover", script{
			started(), piece(1, 0, "Hel"), of(&events.TurnStarted{Attempt: 2, Worker: "w2"}), of(says(0, texts("Bye")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "Hel"`, `model_attempt_reset`, `llm_request 0 messages=1 tools=[]`, `text_delta 0 "Bye"`,
			`llm_response 0 "Bye"`, `token_usage 0 10/5 of 10/5`, `turn_outcome assistant_message Bye`, `done`,
		}},
		{"tools", script{
			append(of(&events.ToolStateApplied{Generation: 1, Tools: tools}), started()...),
			of(says(0, texts("Let me see.")[0], toolCall("c1", `{"a":1}`), toolCall("c2", `{`), toolCall("", ``))),
			of(&events.ToolReturned{Results: []events.ToolResult{{Call: 1, Text: "two", Outcome: events.OutcomeFailure, Millis: 3}}}),
			api.Delta{Turn: "t1", Iteration: 1, Call: 2, Attempt: 1, Kind: events.PartText, Text: "Th"}, // ahead of the results
			of(&events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "one", Millis: 4}}}, &events.ToolLost{Calls: []int64{2}}),
			of(says(1, texts("Three.")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[add]`, `text_delta 0 "Let me see."`, `llm_response 0 "Let me see."`, `token_usage 0 10/5 of 10/5`,
			`tool_call_start c1 add{"a":1}`, `tool_call_start c2 add"{"`, `tool_call_start  add{}`,
			`tool_call c2 add"{" = "two" failure 3ms`, `tool_call c1 add{"a":1} = "one"  4ms`,
			`tool_call  add{} = "` + projector.LostText + `" lost 0ms`,
			`llm_request 1 messages=3 tools=[add]`, `text_delta 1 "Th"`, `text_delta 1 "ree."`, `llm_response 1 "Three."`,
			`token_usage 1 10/5 of 20/10`, `turn_outcome assistant_message Three.`, `done`,
		}},
		{"approval", script{ // of a call, and of a nested call; the first request and the first answer count
			started(), of(says(0, toolCall("c1", `{}`), toolCall("c1", `{"a":1}`))),
			of(asks("t1/0/1", `{"a":2}`, 7), asks("t1/0/1", `{}`, 8), asks("t1/0/0/3", `{`, 0)),
			[]events.Event{events.Of("t2", asks("t2/0/0", `{}`, 0))},
			of(answers("t1/0/9", true)), of(answers("t1/0/0/3", true), answers("t1/0/1", false), answers("t1/0/1", true)),
			of(&events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "one"}, {Call: 1, Text: "no", Outcome: events.OutcomeFailure}}}, ends(events.EndMaxTurns)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `llm_response 0 ""`, `token_usage 0 10/5 of 10/5`, `tool_call_start c1 add{}`, `tool_call_start c1 add{"a":1}`,
			`tool_approval_asked t1/0/1 c1 add{"a":2} gate asks "really?" until 7`, `tool_approval_asked t1/0/0/3  add"{" gate asks "really?" until 0`,
			`tool_approval_given t1/0/0/3  add granted=true by ann: I say so`, `tool_approval_given t1/0/1 c1 add granted=false by ann: I say so`,
			`tool_call c1 add{} = "one"  0ms`, `tool_call c1 add{"a":1} = "no" failure 0ms`, `turn_outcome stopped max_turns`, `done`,
		}},
		{"one-commit", script{ // the next reply came before the results were appended
			started(), of(says(0, toolCall("c1", `{}`))),
			api.Delta{Turn: "t1", Iteration: 1, Call: 2, Attempt: 1, Kind: events.PartText, Text: "Th"},
			of(&events.ToolReturned{Results: []events.ToolResult{{Text: "one"}}}, says(1, texts("Three.")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `llm_response 0 ""`, `token_usage 0 10/5 of 10/5`, `tool_call_start c1 add{}`,
			`tool_call c1 add{} = "one"  0ms`, `llm_request 1 messages=3 tools=[]`, `text_delta 1 "Three."`, `llm_response 1 "Three."`,
			`token_usage 1 10/5 of 20/10`, `turn_outcome assistant_message Three.`, `done`,
		}},
		{"injected", script{
			[]events.Event{events.Of("", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: texts("also")})},
			started(),
			of(says(0, texts("Hello")...), &events.InputAccepted{Inputs: []events.InputID{"i1"}, At: events.AtBeforeCompletion}),
			of(says(1, texts("Also.")...), ends(events.EndFinished)),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "Hello"`, `llm_response 0 "Hello"`, `token_usage 0 10/5 of 10/5`,
			`injected_turn_input_accepted i1 user "also" at before_completion`, `llm_request 1 messages=3 tools=[]`,
			`text_delta 1 "Also."`, `llm_response 1 "Also."`, `token_usage 1 10/5 of 20/10`, `turn_outcome assistant_message Also.`, `done`,
		}},
		{"provider-error", script{
			started(), piece(1, 0, "Hel"),
			of(&events.ModelFailed{Error: "auth", Message: "no key"}, &events.TurnCompleted{End: events.EndProviderError, Issue: events.Issue{Kind: "provider", Code: "auth", Message: "no key"}}),
			of(ends(events.EndFinished)), piece(1, 1, "late"),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `text_delta 0 "Hel"`, `model_attempt_reset`, `error provider auth  auth: no key`,
			`turn_outcome stopped provider_error`, `done`,
		}},
		{"content-filter", script{
			started(),
			of(&events.ModelReplied{Stop: events.StopContentFilter}, &events.TurnCompleted{End: events.EndProviderError, Issue: events.Issue{Kind: "provider", Code: "content_filter"}}),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `llm_response 0 ""`, `error provider content_filter content_filter : content_filter`,
			`turn_outcome stopped provider_error`, `done`,
		}},
		{"tool-value", script{
			started(), of(says(0, toolCall("c1", `{}`), toolCall("c2", `{}`))),
			of(&events.ToolReturned{Results: []events.ToolResult{{Call: 0, Text: "one"}, {Call: 1, Text: "two", Control: events.ControlFinish}}},
				&events.TurnCompleted{End: events.EndToolValue, Tool: "add", Call: 1}),
		}, []string{
			`llm_request 0 messages=1 tools=[]`, `llm_response 0 ""`, `token_usage 0 10/5 of 10/5`, `tool_call_start c1 add{}`, `tool_call_start c2 add{}`,
			`tool_call c1 add{} = "one"  0ms`, `tool_call c2 add{} = "two"  0ms`, `turn_outcome tool_value add two`, `done`,
		}},
		{"cancelled-in-queue", script{
			of(&events.TurnRequested{}), of(&events.TurnCancelRequested{Request: "x"}), of(ends(events.EndCancelled)),
		}, []string{`turn_outcome stopped cancelled`, `done`}},
		{"invalid-input", script{
			append(started(), of(&events.TurnCompleted{End: events.EndInvalidInput, Issue: events.Issue{Kind: "input_validation", Code: "invalid_turn_input", Message: "no body"}})...),
		}, []string{`error input_validation invalid_turn_input  : no body`, `turn_outcome stopped invalid_input`, `done`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range c.script.play(t) {
				got = append(got, line(e))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("events:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			}
		})
	}
}

// emits are the display events of hooks at a point, JSON each.
func emits(point events.HookPoint, at events.CheckpointKind, list ...string) *events.HookRan {
	ran := &events.HookRan{Point: point, At: at}
	for _, s := range list {
		ran.Decisions = append(ran.Decisions, events.Decision{Plugin: "p", Kind: events.DirectiveEmitEvents, Body: []byte("[" + s + "]")})
	}
	return ran
}

// shows is what a hook shows during a model call.
func shows(attempt, n int64, data string) api.Delta {
	d := piece(attempt, n, "")
	d.Kind, d.Event = "", api.PluginEvent{Plugin: "p", Data: []byte(data)}
	return d
}

// adds is a message that a plugin adds.
func adds(id events.NodeID, text string) *events.GraphAppended {
	m := events.Message{ID: events.MessageID(id), Role: events.RoleSystem, Parts: texts(text), Origin: "p"}
	return &events.GraphAppended{Nodes: []events.NewNode{{ID: id, Kind: events.NodeMessage, Message: m}}}
}

// charges is the total usage of a child with one model, at its commit at.
func charges(at events.Seq, in, out int64) []events.Event {
	entries := []events.UsageEntry{{Model: "m", Usage: events.Usage{Input: in, Output: out}}}
	return []events.Event{events.Of("", &events.UsageCharged{Child: "s2", Source: "subagent", At: at, Entries: entries})}
}

func TestEventStreamBeside(t *testing.T) {
	t.Parallel()
	request := func(n int) string { return fmt.Sprintf("llm_request 0 messages=%d tools=[]", n) }
	hello := []string{`text_delta 0 "Hello"`, `llm_response 0 "Hello"`, `token_usage 0 10/5 of 10/5`}
	for _, c := range []struct {
		name   string
		script script
		want   []string
	}{
		{"plugins", script{
			[]events.Event{events.Of("", &events.InputInjected{Input: "i1", Role: events.RoleUser, Parts: texts("also")})},
			of(&events.TurnRequested{Input: events.TurnInput{Parts: texts("hi")}}, &events.TurnStarted{
				Attempt: 1, Worker: "w1", Points: []events.HookPoint{events.PointBeforeTurn, events.PointCheckpoint, events.PointAfterTurn},
			}),
			of(emits(events.PointBeforeTurn, "", `{"a":1}, "b"`), adds("n1", "before")),
			of(says(0, texts("Hello")...), emits(events.PointReply, "", "2"), &events.TurnCheckpointed{At: events.AtBeforeCompletion}),
			of(emits(events.PointCheckpoint, events.AtBeforeCompletion, "3", "4"), adds("n2", "note"),
				&events.InputAccepted{Inputs: []events.InputID{"i1"}, At: events.AtBeforeCompletion}),
			of(says(1, texts("Also.")...), &events.TurnCheckpointed{At: events.AtEnd, Ending: *ends(events.EndFinished)}),
			of(emits(events.PointAfterTurn, events.AtEnd, "5"), adds("n3", "after"), ends(events.EndFinished)),
		}, slices.Concat([]string{`plugin_event p {"a":1}`, `plugin_event p "b"`, request(2)}, hello, []string{
			`plugin_event p 2`, `injected_turn_input_accepted i1 user "also" at before_completion`, `plugin_event p 3`, `plugin_event p 4`,
			`injected_messages_committed system "note" at before_completion`, `llm_request 1 messages=5 tools=[]`,
			`text_delta 1 "Also."`, `llm_response 1 "Also."`, `token_usage 1 10/5 of 20/10`, `plugin_event p 5`,
			`turn_outcome assistant_message Also.`, `done`,
		})},
		{"plugins-live", script{ // the second reply lost a delta, the third is of another try
			started(), piece(1, 0, "Hel"), shows(1, 1, `"a"`), shows(1, 2, `"b"`),
			of(says(0, texts("Hello")[0], toolCall("c1", `{}`)), emits(events.PointReply, "", `"a"`, `"b"`, `"end"`)),
			of(&events.ToolReturned{Results: []events.ToolResult{{Text: "one"}}}, emits(events.PointAfterTool, "", `"a"`)),
			api.Delta{Turn: "t1", Iteration: 1, Call: 1, Attempt: 1, Event: api.PluginEvent{Plugin: "p", Data: []byte(`"a"`)}},
			api.Delta{Turn: "t1", Iteration: 1, Call: 1, Attempt: 1, N: 2, Event: api.PluginEvent{Plugin: "p", Data: []byte(`"c"`)}},
			of(says(1, toolCall("c2", `{}`)), emits(events.PointReply, "", `"a"`, `"b"`, `"c"`)),
			of(&events.ToolReturned{Iteration: 1, Results: []events.ToolResult{{Text: "two"}}}),
			api.Delta{Turn: "t1", Iteration: 2, Call: 1, Attempt: 1, Event: api.PluginEvent{Plugin: "p", Data: []byte(`"a"`)}},
			api.Delta{Turn: "t1", Iteration: 2, Call: 1, Attempt: 2, Retry: api.RetryStatus{Attempt: 1, Attempts: 2, Reason: "no"}},
			of(says(2, texts("Bye.")...), emits(events.PointReply, "", `"a"`), ends(events.EndFinished)),
		}, []string{
			request(1), `text_delta 0 "Hel"`, `plugin_event p "a"`, `plugin_event p "b"`, `text_delta 0 "lo"`, `llm_response 0 "Hello"`,
			`token_usage 0 10/5 of 10/5`, `tool_call_start c1 add{}`, `plugin_event p "end"`, `tool_call c1 add{} = "one"  0ms`, `plugin_event p "a"`,
			`llm_request 1 messages=3 tools=[]`, `plugin_event p "a"`, `llm_response 1 ""`, `token_usage 1 10/5 of 20/10`, `tool_call_start c2 add{}`,
			`plugin_event p "b"`, `plugin_event p "c"`, `tool_call c2 add{} = "two"  0ms`,
			`llm_request 2 messages=5 tools=[]`, `plugin_event p "a"`, `model_attempt_reset`, `retry_status 1/2 0s no`, `text_delta 2 "Bye."`, `llm_response 2 "Bye."`,
			`token_usage 2 10/5 of 30/15`, `plugin_event p "a"`, `turn_outcome assistant_message Bye.`, `done`,
		}},
		{"plugin-abort", script{
			of(&events.TurnRequested{}, &events.TurnStarted{Attempt: 1, Worker: "w1", Points: []events.HookPoint{events.PointBeforeTurn}}),
			of(emits(events.PointBeforeTurn, "", "1"), &events.TurnCompleted{
				End: events.EndPluginAbort, Issue: events.Issue{Kind: "plugin", Code: "not_now", Message: "come back later"},
			}),
		}, []string{`plugin_event p 1`, `error plugin not_now  : come back later`, `turn_outcome stopped plugin_abort`, `done`}},
		{"failed", script{
			started(), of(&events.TurnCompleted{End: events.EndFailed, Issue: events.Issue{Kind: "protocol", Code: "protocol_before_llm_call", Message: "no"}}),
		}, []string{request(1), `error protocol protocol_before_llm_call  : no`, `turn_outcome stopped failed`, `done`}},
		{"switch", script{
			started(),
			of(&events.TurnCompleted{End: events.EndSwitched, Switch: events.FrameSwitch{Frame: "f2", Task: "the rest"}}, &events.FrameOpened{Frame: "f2", Reason: "continue_as"}),
		}, []string{request(1), `turn_outcome agent_frame_switch f2 the rest`, `done`}},
		{"submitted", script{
			started(), of(says(0, toolCall("c1", `{}`))),
			api.Delta{Turn: "t1", Message: api.SideMessage{Text: "half way", Kind: "progress"}},
			of(&events.ToolReturned{Results: []events.ToolResult{{Text: `{"x":1}`, Control: events.ControlSubmit}}}, &events.TurnCompleted{End: events.EndSubmitted, Tool: "add"}),
		}, []string{
			request(1), `llm_response 0 ""`, `token_usage 0 10/5 of 10/5`, `tool_call_start c1 add{}`, `message progress "half way"`,
			`tool_call c1 add{} = "{\"x\":1}"  0ms`, `turn_outcome submitted_value {"x":1}`, `done`,
		}},
		{"children", script{ // the first charge is before the turn, the last after it
			charges(3, 10, 1), started(), charges(5, 30, 2), charges(4, 20, 1), charges(9, 31, 2),
			of(says(0, texts("Hello")...), ends(events.EndFinished)), charges(10, 99, 9),
		}, slices.Concat(
			[]string{request(1), `child_token_usage s2 subagent m 20/1 of 30/2`, `child_token_usage s2 subagent m 1/0 of 31/2`},
			hello, []string{`turn_outcome assistant_message Hello`, `done`})},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, e := range c.script.play(t) {
				got = append(got, line(e))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("events:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(c.want, "\n     "))
			}
		})
	}
}

func TestEventStreamOrder(t *testing.T) {
	t.Parallel()
	stream := watch.NewEventStream("t1", projector.New("s1"))
	_, err := stream.Next(api.Observed{Seq: 2, Commit: &events.Commit{Session: "s1", Events: opened()}})
	runtest.WantError(t, "commit after a hole", err, projector.ErrOutOfOrder)
}

func TestSessionEventJSON(t *testing.T) {
	t.Parallel()
	list := script{
		started(), of(says(0, toolCall("c1", `{"a":1}`))),
		of(asks("t1/0/0", `{"a":1}`, 0)), of(answers("t1/0/0", false)),
		of(&events.ToolReturned{Results: []events.ToolResult{{Text: "one", Millis: 4}}}, ends(events.EndMaxTurns)),
	}.play(t)
	want := []string{
		`{"type":"llm_request","turn":"t1","seq":2,"iteration":0,"message_count":1}`,
		`{"type":"llm_response","turn":"t1","seq":3,"iteration":0,"duration_ms":7}`,
		`{"type":"token_usage","turn":"t1","seq":3,"iteration":0,"usage":{"input_tokens":10,"output_tokens":5},"cumulative":{"input_tokens":10,"output_tokens":5}}`,
		`{"type":"tool_call_start","turn":"t1","seq":3,"iteration":0,"call":"t1/0/0","call_id":"c1","name":"add","args":{"a":1}}`,
		`{"type":"tool_approval_asked","turn":"t1","seq":4,"iteration":0,"call":"t1/0/0","call_id":"c1","name":"add","args":{"a":1},"question":"really?","plugin_id":"gate"}`,
		`{"type":"tool_approval_given","turn":"t1","seq":5,"iteration":0,"call":"t1/0/0","call_id":"c1","name":"add","reason":"I say so","granted":false,"by":"ann"}`,
		`{"type":"tool_call","turn":"t1","seq":6,"iteration":0,"call":"t1/0/0","call_id":"c1","name":"add","args":{"a":1},"output":"one","duration_ms":4}`,
		`{"type":"turn_outcome","turn":"t1","seq":6,"iteration":0,"outcome":{"type":"stopped","reason":"max_turns"}}`,
		`{"type":"done","turn":"t1","seq":6,"iteration":0}`,
	}
	for i, e := range list {
		got, err := json.Marshal(e)
		runtest.NoError(t, err)
		if i >= len(want) || string(got) != want[i] {
			t.Errorf("event %d: got %s, want %q", i, got, append(want, "none")[min(i, len(want))])
		}
	}
	runtest.Equal(t, "events", len(list), len(want))
}

// TestBranchOf checks an id that existing histories have.
func TestBranchOf(t *testing.T) {
	t.Parallel()
	if got, want := session.BranchOf("s1", "t2"), events.SessionID("branch-5ae7409b9ba5b24f3a0e83bbeac1cdfd"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
