package result

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// TestHookAnswer reads answers of hooks that are invalid in one place, and valid ones.
func TestHookAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		point  events.HookPoint
		answer string
		want   string // within the error; empty: the answer is valid
	}{
		"no_JSON":                    {events.PointBeforeTurn, `{`, "no JSON of its form"},
		"other_JSON":                 {events.PointBeforeTurn, `{"directives": 1}`, "no JSON of its form"},
		"nothing":                    {events.PointBeforeTurn, ``, "no JSON of its form"},
		"too_large":                  {events.PointBeforeTurn, `{"x":"` + strings.Repeat("x", wire.MaxHookAnswer) + `"}`, "limit is 131072"},
		"error":                      {events.PointBeforeTurn, `{"error":{"code":"internal","message":"the disk is full"}}`, "the disk is full"},
		"unknown_kind":               {events.PointBeforeTurn, `{"directives":[{"kind":"reboot"}]}`, `directives[0]: directive "reboot" is not allowed at before_turn`},
		"session":                    {events.PointBeforeTurn, `{"directives":[{"kind":"create_session"}]}`, "directives[0].kind"},
		"kind_of_another_point":      {events.PointBeforeTurn, `{"directives":[{"kind":"emit_trace","name":"x"},{"kind":"replace_tool_args","args":{}}]}`, "directives[1]: directive"},
		"abort_at_the_end":           {events.PointAfterTurn, `{"directives":[{"kind":"abort_turn"}]}`, "not allowed at after_turn"},
		"short_circuit_without_one":  {events.PointBeforeTool, `{"directives":[{"kind":"short_circuit_tool"}]}`, "result is missing"},
		"unknown_outcome":            {events.PointBeforeTool, `{"directives":[{"kind":"short_circuit_tool","result":{"text":"x","outcome":"great"}}]}`, "directives[0]"},
		"arguments_missing":          {events.PointBeforeTool, `{"directives":[{"kind":"replace_tool_args"}]}`, "arguments are no JSON"},
		"forged_record_of_a_skip":    {events.PointBeforeTurn, `{"directives":[{"kind":"emit_trace","name":"hook_skipped"}]}`, "directives[0].name"},
		"message_of_the_model":       {events.PointBeforeTurn, `{"directives":[{"kind":"enqueue_messages","messages":[{"role":"assistant","text":"x"}]}]}`, "messages[0].role"},
		"too_many":                   {events.PointBeforeTurn, `{"directives":[` + strings.Repeat(`{},`, wire.MaxDirectives) + `{}]}`, "limit is 64"},
		"valid_empty":                {events.PointBeforeTurn, `{}`, ""},
		"valid_abort_of_a_call":      {events.PointBeforeTool, `{"directives":[{"kind":"abort_turn","code":"x","message":"no"}]}`, ""},
		"valid_result":               {events.PointAfterTool, `{"directives":[{"kind":"short_circuit_tool","result":{"text":"x"}}]}`, ""},
		"contribution":               {events.PointBeforeModel, `{"directives":[{"kind":"contribute","contributions":[{"slot":"attic","content":"x"}]}]}`, "directives[0].contributions[0].slot"},
		"blank_prompt":               {events.PointBeforeModel, `{"directives":[{"kind":"system_prompt","text":" "}]}`, "directives[0]: system_prompt: text is empty"},
		"frame_of_another_point":     {events.PointBeforeTurn, `{"directives":[{"kind":"switch_frame","frame":"f","task":"t"}]}`, "not allowed at before_turn"},
		"messages_before_model_call": {events.PointBeforeModel, `{"directives":[{"kind":"enqueue_messages","messages":[{"role":"user","text":"x"}]}]}`, "not allowed at before_model_call"},
		"observer_directs_in_vain":   {"turn_persisted", `{"directives":[{"kind":"abort_turn"}]}`, ""},
		"observer_fails":             {"turn_persisted", `{"error":{"message":"full"}}`, "full"},
		"custom_point_with_a_number": {"custom.a", `1`, "no JSON of its form"},
		"long_error":                 {events.PointBeforeTurn, `{"error":{"message":"` + strings.Repeat("x", 2000) + `"}}`, strings.Repeat("x", 1000)},
		"error_without_text":         {events.PointBeforeTurn, `{"error":{}}`, "failed"},
	} {
		list, err := Directives(c.point, []byte(c.answer))
		switch {
		case c.want == "" && err != nil, c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		case err != nil && (list != nil || len(err.Error()) > 2000):
			t.Errorf("%s: got %d directives, and an error of %d bytes", name, len(list), len(err.Error()))
		case c.point == "turn_persisted" && len(list) > 0:
			t.Errorf("%s: got %v, want that an observer directs nothing", name, list)
		}
	}
}

// FuzzHookAnswer: what an instance sends becomes directives that the point allows, or an error.
func FuzzHookAnswer(f *testing.F) {
	f.Add(`{"directives":[{"kind":"enqueue_messages","messages":[{"role":"user","text":"x"}]}]}`)
	f.Add(`{"directives":[{"kind":"switch_frame","frame":"f","task":"t","messages":[{"role":"user","text":"x"}]},{"kind":"contribute"}]}`)
	f.Add(`{"directives":[{"kind":"ask_approval","message":"?","within_ms":9}]}`)
	f.Fuzz(func(t *testing.T, answer string) {
		for _, point := range []events.HookPoint{events.PointBeforeTurn, events.PointBeforeModel, events.PointBeforeTool, events.PointAfterTool, events.PointCheckpoint, events.PointAfterTurn} {
			list, err := Directives(point, []byte(answer))
			for i := range list {
				if err != nil || list[i].Check(point) != nil || list[i].Create != nil || list[i].Within < 0 {
					t.Errorf("%s: got %+v, %v", point, list[i], err)
				}
			}
		}
	})
}

// TestDirective is each kind of directive as the same one of a plugin in the node.
func TestDirective(t *testing.T) {
	t.Parallel()
	seed := "f-" + fmt.Sprintf("%x", sha256.Sum256([]byte("f/0")))[:32]
	for _, c := range []struct {
		sent string
		want plugin.Directive
	}{
		{`{"kind":"abort_turn","code":"c","message":"m"}`, plugin.Abort("c", "m")},
		{`{"kind":"enqueue_messages","messages":[{"role":"user","text":"a"},{"role":"system","text":"b"}]}`, plugin.Enqueue(plugin.Say(events.RoleUser, "a"), plugin.Say(events.RoleSystem, "b"))},
		{`{"kind":"replace_tool_args","args":{"a":1}}`, plugin.ReplaceArgs(json.RawMessage(`{"a":1}`))},
		{`{"kind":"short_circuit_tool","result":{"text":"r","outcome":"failure"}}`, plugin.ShortCircuit(plugin.Result{Text: "r", Outcome: events.OutcomeFailure})},
		{`{"kind":"emit_events","events":[1,"b"]}`, plugin.Emit(json.RawMessage(`1`), json.RawMessage(`"b"`))},
		{`{"kind":"emit_trace","name":"n","payload":[2]}`, plugin.Trace("n", json.RawMessage(`[2]`))},
		{
			`{"kind":"emit_trace","name":"n","context":{"llm_call":"m","tool_call":"t1/0/0","metadata":{"k":"v"}}}`,
			plugin.TraceIn(api.TraceContext{ModelCall: "m", Origin: "t1/0/0", Metadata: map[string]string{"k": "v"}}, "n", nil),
		},
		{`{"kind":"ask_approval","message":"q"}`, plugin.Ask("q")},
		{
			`{"kind":"contribute","contributions":[{"slot":"intro","title":"t","priority":2,"content":"c","tools":["a"]}]}`,
			plugin.Contribute(events.Contribution{Slot: events.SlotIntro, Title: "t", Priority: 2, Content: "c", Tools: []string{"a"}}),
		},
		{`{"kind":"contribute"}`, plugin.Contribute()},
		{`{"kind":"system_prompt","text":"p"}`, plugin.SystemPrompt("p")},
		{`{"kind":"switch_frame","frame":"f","task":"t","messages":[{"role":"user","text":"a"}]}`, plugin.SwitchFrame(events.FrameSwitch{
			Frame: "f", Task: "t", Nodes: []events.NewNode{{ID: events.NodeID(seed), Kind: events.NodeMessage, Message: events.Message{
				ID: events.MessageID(seed), Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartText, Text: "a"}},
			}}},
		})},
		{`{"kind":"ask_approval","message":"q","within_ms":1500}`, plugin.AskWithin("q", 1500*time.Millisecond)},
	} {
		var d wire.Directive
		if err := json.Unmarshal([]byte(c.sent), &d); err != nil {
			t.Fatal(err)
		}
		if got := directive(&d); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, want %+v", c.sent, got, c.want)
		}
	}
}
