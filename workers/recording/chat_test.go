package recording_test

import (
	"reflect"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

// chat reads the entries of a chat with these messages.
func chat(t *testing.T, messages string) []recording.Entry {
	t.Helper()
	return entries(t, `{"messages":[`+messages+`]}`)
}

func TestChatMessages(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		message string
		kind    recording.EntryKind
		want    events.Message
	}{
		"user":          {`{"role":"user","content":"hi"}`, recording.EntryUser, user(text("hi"))},
		"system":        {`{"role":"system","content":"be"}`, recording.EntrySystem, events.Message{Role: events.RoleSystem, Parts: []events.Part{text("be")}}},
		"developer":     {`{"role":"developer","content":"be"}`, recording.EntrySystem, events.Message{Role: events.RoleSystem, Parts: []events.Part{text("be")}}},
		"absent":        {`{"role":"user"}`, recording.EntryUser, user()},
		"null":          {`{"role":"user","content":null}`, recording.EntryUser, user()},
		"empty_string":  {`{"role":"user","content":""}`, recording.EntryUser, user()},
		"empty_array":   {`{"role":"user","content":[]}`, recording.EntryUser, user()},
		"empty_part":    {`{"role":"user","content":[{"type":"text","text":""}]}`, recording.EntryUser, user(text(""))},
		"nul":           {`{"role":"user","content":"a\u0000b"}`, recording.EntryUser, user(text("a\x00b"))},
		"surrogate":     {`{"role":"user","content":"a\ud800b"}`, recording.EntryUser, user(text("a\ufffdb"))},
		"pair":          {`{"role":"user","content":"\ud83d\ude00"}`, recording.EntryUser, user(text("😀"))},
		"keys_twice":    {`{"role":"user","content":"a","content":"b"}`, recording.EntryUser, user(text("b"))},
		"texts":         {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, recording.EntryUser, user(text("a"), text("b"))},
		"image":         {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png","detail":"low"}}]}`, recording.EntryUser, user(attachment("image/*", "https://x/y.png"))},
		"image_string":  {`{"role":"user","content":[{"type":"image_url","image_url":"https://x/y.png"}]}`, recording.EntryUser, user(attachment("image/*", "https://x/y.png"))},
		"image_data":    {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAEC"}}]}`, recording.EntryUser, user(attachment("image/png", "AAEC"))},
		"image_escaped": {`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/svg+xml,%3Csvg"}}]}`, recording.EntryUser, user(attachment("image/*", "data:image/svg+xml,%3Csvg"))},
		"audio":         {`{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"AAEC","format":"wav"}}]}`, recording.EntryUser, user(attachment("audio/wav", "AAEC"))},
		"unknown_part":  {`{"role":"user","content":[{"type":"file", "file":{"b":1.0, "a":"<"}}]}`, recording.EntryUser, user(opaque(`{"type":"file","file":{"b":1.0,"a":"<"}}`))},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			same(t, "entries", chat(t, tt.message), []recording.Entry{{Kind: tt.kind, Line: 1, Message: tt.want}})
		})
	}
}

func TestChatReplies(t *testing.T) {
	t.Parallel()
	const end, toolUse = events.StopEnd, events.StopToolUse
	calls := func(list string) string { return `{"role":"assistant","content":null,"tool_calls":[` + list + `]}` }
	tests := map[string]struct {
		message string
		stop    events.StopReason
		want    []events.Part
	}{
		"text":              {`{"role":"assistant","content":"hi"}`, end, []events.Part{text("hi")}},
		"nothing":           {`{"role":"assistant"}`, end, nil},
		"empty_lists":       {`{"role":"assistant","content":[],"tool_calls":[],"function_call":null}`, end, nil},
		"refusal":           {`{"role":"assistant","content":null,"refusal":"no"}`, end, []events.Part{text("no")}},
		"refusal_part":      {`{"role":"assistant","content":[{"type":"refusal","refusal":"no"}]}`, end, []events.Part{text("no")}},
		"reasoning":         {`{"role":"assistant","content":"hi","reasoning":"hm"}`, end, []events.Part{reasoning("hm"), text("hi")}},
		"reasoning_content": {`{"role":"assistant","content":"hi","reasoning_content":"hm","reasoning":"other"}`, end, []events.Part{reasoning("hm"), text("hi")}},
		"call":              {calls(`{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}`), toolUse, []events.Part{recordedCall("a", "f", "{}")}},
		"call_without_id":   {calls(`{"function":{"name":"f","arguments":"{}"}}`), toolUse, []events.Part{recordedCall("", "f", "{}")}},
		"arguments_bytes":   {calls(`{"id":"a","function":{"name":"f","arguments":" {\"b\": 1.50,\n\"a\":\"<\\u00e9\" "}}`), toolUse, []events.Part{recordedCall("a", "f", " {\"b\": 1.50,\n\"a\":\"<\\u00e9\" ")}},
		"arguments_empty":   {calls(`{"id":"a","function":{"name":"f","arguments":""}}`), toolUse, []events.Part{recordedCall("a", "f", "")}},
		"arguments_absent":  {calls(`{"id":"a","function":{"name":"f"}}`), toolUse, []events.Part{recordedCall("a", "f", "")}},
		"arguments_object":  {calls(`{"id":"a","function":{"name":"f","arguments":{"b": 1.50, "a": 2}}}`), toolUse, []events.Part{recordedCall("a", "f", `{"b":1.50,"a":2}`)}},
		"custom_tool":       {calls(`{"id":"a","type":"custom","custom":{"name":"f","input":"free text"}}`), toolUse, []events.Part{recordedCall("a", "f", "free text")}},
		"legacy_call":       {`{"role":"assistant","content":"hi","function_call":{"name":"f","arguments":"{"}}`, toolUse, []events.Part{text("hi"), recordedCall("", "f", "{")}},
		"everything": {
			`{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}},{"id":"b","function":{"name":"g"}}],"refusal":"no","content":[{"type":"text","text":"x"}],"reasoning":"hm"}`,
			toolUse,
			[]events.Part{reasoning("hm"), text("x"), text("no"), recordedCall("a", "f", ""), recordedCall("b", "g", "")},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := chat(t, tt.message)
			same(t, "parts", got[0].Reply.Parts, tt.want)
			want := recording.Reply{Parts: got[0].Reply.Parts, Stop: tt.stop}
			if got[0].Kind != recording.EntryReply || !reflect.DeepEqual(got[0].Reply, want) {
				t.Errorf("got %+v, want %+v", got[0], want)
			}
		})
	}
}

func TestChatResults(t *testing.T) {
	t.Parallel()
	const asks = `{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f"}}],"function_call":{"name":"g"}},`
	answers := func(r recording.Result) recording.Result { r.ReplyIndex = 0; return r }
	tests := map[string]struct {
		message string
		want    recording.Result
	}{
		"text":         {`{"role":"tool","tool_call_id":"a","content":"x"}`, answers(recording.Result{Call: "a", Tool: "f", Text: "x"})},
		"named":        {`{"role":"tool","tool_call_id":"a","name":"other","content":"x"}`, answers(recording.Result{Call: "a", Tool: "other", Text: "x"})},
		"null":         {`{"role":"tool","tool_call_id":"a","content":null}`, answers(recording.Result{Call: "a", Tool: "f"})},
		"several":      {`{"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"x"},{"type":"y"},{"type":"text","text":"z"}]}`, answers(recording.Result{Call: "a", Tool: "f", Text: "x\nz", Attachments: []events.Part{opaque(`{"type":"y"}`)}})},
		"orphan":       {`{"role":"tool","tool_call_id":"b","content":"x"}`, recording.Result{Call: "b", Text: "x", ReplyIndex: -1, CallIndex: -1}},
		"function":     {`{"role":"function","name":"g","content":"x"}`, recording.Result{Tool: "g", Text: "x", ReplyIndex: 0, CallIndex: 1}},
		"by_name":      {`{"role":"function","name":"f","content":"x"}`, answers(recording.Result{Call: "a", Tool: "f", Text: "x"})},
		"unknown_name": {`{"role":"function","name":"h","content":"x"}`, recording.Result{Tool: "h", Text: "x", ReplyIndex: -1, CallIndex: -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := chat(t, asks+tt.message)[1]
			want := recording.Entry{Kind: recording.EntryResult, Line: 1, Index: 1, Result: tt.want}
			same(t, "result", []recording.Entry{got}, []recording.Entry{want})
		})
	}
}

func TestChatSystemInTheMiddle(t *testing.T) {
	t.Parallel()
	got := chat(t, `{"role":"user","content":"a"},{"role":"system","content":"b"},{"role":"user","content":"c"}`)
	system := events.Message{Role: events.RoleSystem, Parts: []events.Part{text("b")}}
	same(t, "entries", got, []recording.Entry{
		{Kind: recording.EntryUser, Line: 1, Message: user(text("a"))},
		{Kind: recording.EntrySystem, Line: 1, Index: 1, Message: system},
		{Kind: recording.EntryUser, Line: 1, Index: 2, Message: user(text("c"))},
	})
}
