package recording_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

// entries reads one conversation and returns its entries.
func entries(t *testing.T, lines ...string) []recording.Entry {
	t.Helper()
	all := conversations(t, strings.Join(lines, "\n"))
	if len(all) != 1 {
		t.Fatalf("got %d conversations, want 1", len(all))
	}
	return all[0].Entries
}

func conversations(t *testing.T, text string) []recording.Conversation {
	t.Helper()
	all, err := recording.Read("dir/talk.jsonl", strings.NewReader(text))
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return all
}

// same compares two lists and reports the first difference.
func same[T any](t *testing.T, what string, got, want []T) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d, want %d\n%+v", what, len(got), len(want), got)
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("%s[%d]:\n got %+v\nwant %+v", what, i, got[i], want[i])
		}
	}
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

func reasoning(s string) events.Part { return events.Part{Kind: events.PartReasoning, Text: s} }

func recordedCall(id, tool, args string) events.Part {
	p := events.Part{Kind: events.PartToolCall, Call: events.CallID(id), Tool: tool}
	if args != "" {
		p.Args = []byte(args)
	}
	return p
}

func attachment(media, body string) events.Part {
	return events.Part{Kind: events.PartAttachment, MediaType: media, Text: body}
}

func opaque(raw string) events.Part {
	return events.Part{Kind: events.PartAttachment, Meta: []byte(raw)}
}

func user(parts ...events.Part) events.Message {
	return events.Message{Role: events.RoleUser, Parts: parts}
}

const chatHi = `{"messages":[{"role":"user","content":"hi"}]}`

func TestConversations(t *testing.T) {
	t.Parallel()
	type head struct {
		ID      string
		Format  recording.Format
		Line    int
		Entries int
	}
	const chat, pi = recording.FormatChat, recording.FormatPi
	const said = `{"type":"message","message":{"role":"user"}}`
	tests := map[string]struct {
		text string
		want []head
	}{
		"ids": {
			`{"id":"a/b c","messages":[{"role":"user"}]}` + "\n" + chatHi + "\n" + `{"id":17,"messages":[{"role":"user"}]}` + "\n" +
				`{"id":null,"messages":[{"role":"user"}]}` + "\n" + `{"id":"","messages":[{"role":"user"}]}`,
			[]head{{"a/b c", chat, 1, 1}, {"talk-2", chat, 2, 1}, {"17", chat, 3, 1}, {"talk-4", chat, 4, 1}, {"talk-5", chat, 5, 1}},
		},
		"line_endings": {
			"\xef\xbb\xbf\r\n \t\n" + chatHi + "\r\n\n" + chatHi + "\r\n\r\n",
			[]head{{"talk-3", chat, 3, 1}, {"talk-5", chat, 5, 1}},
		},
		"byte_order_mark":  {"\xef\xbb\xbf" + chatHi, []head{{"talk-1", chat, 1, 1}}},
		"no_last_newline":  {chatHi + "\n" + chatHi, []head{{"talk-1", chat, 1, 1}, {"talk-2", chat, 2, 1}}},
		"chat_with_a_type": {`{"type":"sample","messages":[{"role":"user"}]}`, []head{{"talk-1", chat, 1, 1}}},
		"other_keys_and_duplicate_keys": {
			`{"reward":1.5,"ID":"no","id":"x","id":"y","messages":[{"role":"user"}]}`,
			[]head{{"y", chat, 1, 1}},
		},
		"pi_no_header":   {"\n" + `{"type":"label"}` + "\n" + said, []head{{"talk-2", pi, 2, 2}}},
		"pi_no_id":       {`{"type":"session"}` + "\n" + said, []head{{"talk-1", pi, 1, 2}}},
		"pi_two_headers": {`{"type":"session","id":"s1"}` + "\n" + said + "\n" + `{"type":"session","id":"s2"}` + "\n" + said, []head{{"s1", pi, 1, 2}, {"s2", pi, 3, 2}}},
		"pi_one_empty":   {`{"type":"session","id":"s1"}` + "\n" + `{"type":"session","id":"s2"}` + "\n" + said, []head{{"s2", pi, 2, 2}}},
		"mixed": {
			`{"type":"session","id":"s1"}` + "\n" + chatHi + "\n" + said,
			[]head{{"s1", pi, 1, 2}, {"talk-2", chat, 2, 1}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []head
			for _, c := range conversations(t, tt.text) {
				if c.File != "dir/talk.jsonl" {
					t.Errorf("got file %q", c.File)
				}
				got = append(got, head{c.ID, c.Format, c.Line, len(c.Entries)})
			}
			same(t, "conversations", got, tt.want)
		})
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	const in = `{"messages":[{"role":"user"},`
	tests := map[string]struct{ text, want string }{
		"log_lines":               {`{"type":"request","level":"info","message":"GET /"}`, `f:1: no message: 1 request lines`},
		"pi_without_message":      {`{"type":"session","id":"s"}` + "\n" + `{"type":"label"}` + "\n" + `{"type":"label"}`, "f:1: no message: 2 label entries, 1 config entries"},
		"items_without_message":   {`{"type":"function_call","name":"f","arguments":"{}","call_id":"a"}` + "\n" + `{"type":"function_call_output","call_id":"a","output":"ok"}`, "f:1: no message: 1 reply entries, 1 result entries"},
		"claude_without_message":  {`{"type":"summary","summary":"s","leafUuid":"a"}` + "\n" + `{"type":"mode","mode":"x","sessionId":"b"}`, "f:1: no message: 1 mode lines, 1 summary lines"},
		"codex_without_message":   {`{"timestamp":"t","type":"session_meta","payload":{"id":"a"}}` + "\n" + `{"timestamp":"t","type":"event_msg","payload":{"type":"task_started"}}`, "f:1: no message: 1 task_started events"},
		"empty":                   {"", "f:1: the file is empty"},
		"only_blank_lines":        {"\n \r\n\n", "f:1: the file is empty"},
		"only_byte_order_mark":    {"\xef\xbb\xbf", "f:1: the file is empty"},
		"not_json":                {chatHi + "\nhello\n", "f:2: not JSON: "},
		"byte_order_mark_later":   {chatHi + "\n\xef\xbb\xbf" + chatHi, "f:2: not JSON: "},
		"two_values":              {chatHi + chatHi, "f:1: not JSON: "},
		"raw_nul":                 {"{\"type\":\"a\x00b\"}", "f:1: not JSON: "},
		"truncated_last_line":     {chatHi + "\n\n" + chatHi[:20], "f:3: truncated JSON: "},
		"invalid_utf8":            {"{\"type\":\"a\xff\"}", "f:1: invalid UTF-8"},
		"array":                   {`[1]`, "f:1: items[0]: message: unexpected number"},
		"null":                    {`null`, "f:1: not an object"},
		"neither":                 {`{"role":"user"}`, "f:1: of no known form: neither messages nor a type, but role"},
		"keys_have_a_case":        {`{"Messages":[{"role":"user"}]}`, "f:1: of no known form: neither messages nor a type, but Messages"},
		"type_number":             {`{"type":1}`, "f:1: type: unexpected number"},
		"type_null":               {`{"type":null}`, "f:1: of no known form: neither messages nor a type, but type"},
		"messages_null":           {`{"type":"x","messages":null}`, "f:1: messages: empty"},
		"messages_object":         {`{"messages":{}}`, "f:1: messages: unexpected object"},
		"messages_empty":          {`{"messages":[]}`, "f:1: messages: empty"},
		"chat_id":                 {`{"id":{},"messages":[{"role":"user"}]}`, "f:1: id: unexpected object"},
		"message_string":          {in + `"hi"]}`, "f:1: messages[1]: unexpected string"},
		"no_role":                 {in + `{"content":"hi"}]}`, "f:1: messages[1]: unknown role \"\""},
		"role_number":             {in + `{"role":1}]}`, "f:1: messages[1]: role: unexpected number"},
		"unknown_role":            {in + `{"role":"critic"}]}`, `f:1: messages[1]: unknown role "critic"`},
		"content_number":          {in + `{"role":"user","content":1}]}`, "f:1: messages[1]: content: neither a string nor an array"},
		"content_object":          {in + `{"role":"tool","tool_call_id":"a","content":{}}]}`, "f:1: messages[1]: content: neither a string nor an array"},
		"part_string":             {in + `{"role":"user","content":["hi"]}]}`, "f:1: messages[1]: content: a part is not an object"},
		"tool_without_id":         {in + `{"role":"tool","content":"x"}]}`, "f:1: messages[1]: no tool_call_id"},
		"tool_id_number":          {in + `{"role":"tool","tool_call_id":3}]}`, "f:1: messages[1]: tool_call_id: unexpected number"},
		"tool_calls_object":       {in + `{"role":"assistant","tool_calls":{}}]}`, "f:1: messages[1]: tool_calls: unexpected object"},
		"call_string":             {in + `{"role":"assistant","tool_calls":["x"]}]}`, "f:1: messages[1]: tool_calls: unexpected string"},
		"call_without_function":   {in + `{"role":"assistant","tool_calls":[{"id":"a"}]}]}`, "f:1: messages[1]: call 0: no name of a function"},
		"call_without_name":       {in + `{"role":"assistant","tool_calls":[{"function":{}}]}]}`, "f:1: messages[1]: call 0: no name of a function"},
		"call_id_number":          {in + `{"role":"assistant","tool_calls":[{"id":1}]}]}`, "f:1: messages[1]: tool_calls.id: unexpected number"},
		"function_call_string":    {in + `{"role":"assistant","function_call":"f"}]}`, "f:1: messages[1]: function_call: unexpected string"},
		"function_call_no_name":   {in + `{"role":"assistant","function_call":{}}]}`, "f:1: messages[1]: call 0: no name of a function"},
		"refusal_number":          {in + `{"role":"assistant","refusal":1}]}`, "f:1: messages[1]: refusal: unexpected number"},
		"pi_header_id":            {`{"type":"session","id":[]}`, "f:1: session: id: unexpected array"},
		"pi_header_model":         {`{"type":"session","modelId":1}`, "f:1: session: modelId: unexpected number"},
		"pi_no_message":           {`{"type":"message"}`, "f:1: message: no message"},
		"pi_message_string":       {`{"type":"message","message":"hi"}`, "f:1: message: message: unexpected string"},
		"pi_no_role":              {`{"type":"message","message":{}}`, "f:1: message: message: no role"},
		"pi_parent_number":        {`{"type":"model_change","parentId":1}`, "f:1: model_change: parentId: unexpected number"},
		"pi_content_number":       {`{"type":"message","message":{"role":"user","content":7}}`, "f:1: message: content: neither a string nor an array"},
		"pi_usage_array":          {`{"type":"message","message":{"role":"assistant","usage":[]}}`, "f:1: message: message.usage: unexpected array"},
		"pi_usage_string":         {`{"type":"message","message":{"role":"assistant","usage":{"input":"1"}}}`, "f:1: message: message.usage.input: unexpected string"},
		"pi_usage_too_large":      {`{"type":"message","message":{"role":"assistant","usage":{"input":1e30}}}`, "f:1: message: message.usage.input: unexpected number 1e30"},
		"pi_stop_number":          {`{"type":"message","message":{"role":"assistant","stopReason":1}}`, "f:1: message: message.stopReason: unexpected number"},
		"pi_result_without_call":  {`{"type":"message","message":{"role":"toolResult"}}`, "f:1: message: no toolCallId"},
		"pi_result_error_string":  {`{"type":"message","message":{"role":"toolResult","toolCallId":"a","isError":"no"}}`, "f:1: message: message.isError: unexpected string"},
		"pi_model_number":         {`{"type":"model_change","modelId":1}`, "f:1: model_change: modelId: unexpected number"},
		"pi_level_number":         {`{"type":"thinking_level_change","thinkingLevel":1}`, "f:1: thinking_level_change: thinkingLevel: unexpected number"},
		"pi_summary_number":       {`{"type":"compaction","summary":1}`, "f:1: compaction: summary: unexpected number"},
		"pi_first_kept_string":    {`{"type":"compaction","firstKeptEntryIndex":"1"}`, "f:1: compaction: firstKeptEntryIndex: unexpected string"},
		"pi_tokens_before_string": {`{"type":"compaction","tokensBefore":"1"}`, "f:1: compaction: tokensBefore: unexpected string"},
		"too_deep":                {`{"type":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`, "f:1: not JSON: "},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := recording.Read("f", strings.NewReader(tt.text))
			if all != nil || err == nil {
				t.Fatalf("got %d conversations and error %v, want an error", len(all), err)
			}
			// Reasons that end with a colon continue with the text of encoding/json.
			got := err.Error()
			if strings.HasSuffix(tt.want, ": ") && strings.HasPrefix(got, tt.want) {
				got = tt.want
			}
			if got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if _, ok := errors.AsType[*recording.LineError](err); !ok {
				t.Errorf("got a %T, want a LineError", err)
			}
		})
	}
}

// TestIncompleteParts reads parts that are not what their type says: they are kept as they are.
func TestIncompleteParts(t *testing.T) {
	t.Parallel()
	for _, part := range []string{
		`{"text":"hi"}`, `{"type":"text"}`, `{"type":"text","text":1}`, `{"type":"image_url","image_url":{}}`, `{"type":"image_url","image_url":1}`,
		`{"type":"input_audio"}`, `{"type":"input_audio","input_audio":{"format":"wav"}}`, `{"type":"image","data":"AA"}`, `{"type":"image","mimeType":"image/png"}`,
		`{"type":"toolCall","id":"a"}`,
	} {
		got := entries(t, `{"messages":[{"role":"user","content":[`+part+`]}]}`)
		same(t, part, got[0].Message.Parts, []events.Part{opaque(part)})
		got = entries(t, `{"type":"message","message":{"role":"assistant","content":[`+part+`]}}`)
		same(t, part, got[0].Reply.Parts, []events.Part{opaque(part)})
	}
}

func TestReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk on fire")
	_, err := recording.Read("f", io.MultiReader(strings.NewReader(chatHi+"\n"), iotest.ErrReader(broken)))
	line, ok := errors.AsType[*recording.LineError](err)
	if !ok || !errors.Is(err, broken) {
		t.Fatalf("got %v, want a LineError of %v", err, broken)
	}
	if line.File != "f" || line.Line != 2 || line.Reason != "read: disk on fire" {
		t.Errorf("got %+v", line)
	}
}

func TestBaseNames(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ file, want string }{
		"plain":     {"talk", "talk-1"},
		"folder":    {"/a/b.c/talk.v2.jsonl", "talk.v2-1"},
		"extension": {"a/.jsonl", ".jsonl-1"},
		"none":      {"", ".-1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all, err := recording.Read(tt.file, strings.NewReader(chatHi))
			if err != nil || all[0].ID != tt.want {
				t.Errorf("got %+v, %v, want ID %q", all, err, tt.want)
			}
		})
	}
}

// TestNewTypesFirst imports transcripts that begin with a line of an unknown type: it is counted, and the rest is read.
func TestNewTypesFirst(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(files) < 3 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		want, err := recording.Read(name, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		got, err := recording.Read(name, strings.NewReader(`{"type":"from-next-year","x":1}`+"\n"+string(data)))
		if err != nil || len(got) != len(want) || len(got[0].Entries) != len(want[0].Entries) || got[0].Lost["from-next-year lines"] != 1 {
			t.Errorf("%s: got %d conversations and %v, want %d, and the line counted", name, len(got), err, len(want))
		}
	}
}
