package recording_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

// piEntries reads one conversation of pi, to which it adds a message: a file without one is refused.
func piEntries(t *testing.T, lines ...string) []recording.Entry {
	t.Helper()
	all := entries(t, append(lines, `{"type":"message","message":{"role":"user"}}`)...)
	return all[:len(all)-1]
}

func TestPiEntries(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		line string
		want recording.Entry
	}{
		"header":          {`{"type":"session","id":"s","version":3,"cwd":"/x"}`, recording.Entry{Kind: recording.EntryConfig}},
		"header_settings": {`{"type":"session","provider":"p","modelId":"m","thinkingLevel":"off"}`, recording.Entry{Kind: recording.EntryConfig, Config: recording.Config{Provider: "p", Model: "m", Thinking: "off"}}},
		"model_change":    {`{"type":"model_change","provider":"p","modelId":"m"}`, recording.Entry{Kind: recording.EntryConfig, Config: recording.Config{Provider: "p", Model: "m"}}},
		"thinking_change": {`{"type":"thinking_level_change","thinkingLevel":"high"}`, recording.Entry{Kind: recording.EntryConfig, Config: recording.Config{Thinking: "high"}}},
		"tree":            {`{"type":"model_change","modelId":"m","id":"b","parentId":"a"}`, recording.Entry{Kind: recording.EntryConfig, ID: "b", Parent: "a", Config: recording.Config{Model: "m"}}},
		"tree_root":       {`{"type":"model_change","modelId":"m","id":"a","parentId":null}`, recording.Entry{Kind: recording.EntryConfig, ID: "a", Config: recording.Config{Model: "m"}}},
		"user":            {`{"type":"message","message":{"role":"user","content":"hi"}}`, recording.Entry{Kind: recording.EntryUser, Message: user(text("hi"))}},
		"user_empty":      {`{"type":"message","message":{"role":"user","content":[]}}`, recording.Entry{Kind: recording.EntryUser, Message: user()}},
		"user_no_content": {`{"type":"message","message":{"role":"user"}}`, recording.Entry{Kind: recording.EntryUser, Message: user()}},
		"user_parts":      {`{"type":"message","message":{"role":"user","content":[{"type":"text","text":"a"},{"type":"image","data":"AAEC","mimeType":"image/png"},{"type":"toolCall", "name":"f"}]}}`, recording.Entry{Kind: recording.EntryUser, Message: user(text("a"), attachment("image/png", "AAEC"), opaque(`{"type":"toolCall","name":"f"}`))}},
		"shell":           {`{"type":"message", "id":"b","message":{"role":"bashExecution","command":"ls","output":"a.txt","exitCode":2}}`, recording.Entry{Kind: recording.EntryContext, ID: "b", Message: user(text("The user ran `ls`:\n\na.txt\n\nThe command exited with code 2."))}},
		"shell_cancelled": {`{"type":"message","message":{"role":"bashExecution","command":"ls","output":"a","cancelled":true}}`, recording.Entry{Kind: recording.EntryContext, Message: user(text("The user ran `ls`:\n\na\n\nThe command was cancelled."))}},
		"shell_left_out":  {`{"type":"message", "id":"b","message":{"role":"bashExecution","command":"ls","excludeFromContext":true}}`, recording.Entry{Kind: recording.EntryShell, ID: "b", Type: "bashExecution", Raw: []byte(`{"type":"message","id":"b","message":{"role":"bashExecution","command":"ls","excludeFromContext":true}}`)}},
		"custom_role":     {`{"type":"message","message":{"role":"custom","content":"a"}}`, recording.Entry{Kind: recording.EntryContext, Message: user(text("a"))}},
		"hook_role":       {`{"type":"message","message":{"role":"hookMessage","content":"a"}}`, recording.Entry{Kind: recording.EntryContext, Message: user(text("a"))}},
		"summary_role":    {`{"type":"message","message":{"role":"branchSummary"}}`, recording.Entry{Kind: recording.EntryOther, Type: "branchSummary", Raw: []byte(`{"type":"message","message":{"role":"branchSummary"}}`)}},
		"label":           {`{"type":"label","id":"b","parentId":"a","targetId":"a","label":"x"}`, recording.Entry{Kind: recording.EntryOther, ID: "b", Parent: "a", Type: "label", Raw: []byte(`{"type":"label","id":"b","parentId":"a","targetId":"a","label":"x"}`)}},
		"branch_summary":  {`{"type":"branch_summary","id":"b","parentId":"a","fromId":"c","summary":"It rained."}`, recording.Entry{Kind: recording.EntryContext, ID: "b", Parent: "a", Message: user(text("Summary of a branch that was left:\n\nIt rained."))}},
		"custom_message":  {`{"type":"custom_message","customType":"beds","content":[{"type":"text","text":"a"}],"display":false}`, recording.Entry{Kind: recording.EntryContext, Message: user(text("a"))}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.want.Line = 1
			same(t, "entries", piEntries(t, tt.line), []recording.Entry{tt.want})
		})
	}
}

// TestPiUnknownEntries reads entries of types that pi does not have: a file with a header keeps them as they are.
func TestPiUnknownEntries(t *testing.T) {
	t.Parallel()
	for line, kind := range map[string]string{`{"type":"zz","id":[],"parentId":5,"message":1.0}`: "zz", `{"type":""}`: ""} {
		got := piEntries(t, `{"type":"session","id":"s"}`, line)
		same(t, line, got[1:], []recording.Entry{{Kind: recording.EntryOther, Line: 2, Index: 1, Type: kind, Raw: []byte(line)}})
	}
}

func TestPiReplies(t *testing.T) {
	t.Parallel()
	withMeta := func(p events.Part, meta string) events.Part { p.Meta = []byte(meta); return p }
	reply := func(stop events.StopReason, parts ...events.Part) recording.Reply {
		return recording.Reply{Stop: stop, Parts: parts}
	}
	tests := map[string]struct {
		message string
		want    recording.Reply
	}{
		"full": {
			`"provider":"p","model":"m","stopReason":"stop","usage":{"input":1,"output":2,"cacheRead":3,"cacheWrite":4,"cost":{"input":0.1}},"content":[{"type":"text","text":"hi"}]`,
			recording.Reply{
				Parts: []events.Part{text("hi")}, Stop: events.StopEnd, Model: "m", Provider: "p",
				Usage: events.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4},
			},
		},
		"order": {
			`"stopReason":"toolUse","content":[{"type":"thinking","thinking":"hm"},{"type":"toolCall","id":"a","name":"f","arguments":{}},{"type":"text","text":"x"}]`,
			reply(events.StopToolUse, reasoning("hm"), recordedCall("a", "f", "{}"), text("x")),
		},
		"signatures": {
			`"stopReason":"stop","content":[{"type":"thinking","thinking":"","thinkingSignature":"s<","redacted":true},{"type":"toolCall","name":"f","thoughtSignature":"t"}]`,
			reply(events.StopEnd, withMeta(reasoning(""), `{"thinkingSignature":"s<","redacted":true}`), withMeta(recordedCall("", "f", ""), `{"thoughtSignature":"t"}`)),
		},
		"arguments": {
			`"stopReason":"toolUse","content":[{"type":"toolCall","id":"a","name":"f","arguments":{ "b": 1.50, "a": [1e3, "<\u00e9"], "b": null }}]`,
			reply(events.StopToolUse, recordedCall("a", "f", `{"b":1.50,"a":[1e3,"<\u00e9"],"b":null}`)),
		},
		"unknown_part":       {`"stopReason":"stop","content":[{"type":"x"}]`, reply(events.StopEnd, opaque(`{"type":"x"}`))},
		"text":               {`"stopReason":"stop","content":"hi"`, reply(events.StopEnd, text("hi"))},
		"length":             {`"stopReason":"length"`, reply(events.StopOutputLimit)},
		"aborted":            {`"stopReason":"aborted","errorMessage":"stopped","content":[]`, recording.Reply{Stop: events.StopCancelled, Error: "stopped"}},
		"error":              {`"stopReason":"error","errorMessage":"overloaded","content":[]`, recording.Reply{Stop: events.StopProviderError, Error: "overloaded"}},
		"no_reason":          {`"content":null`, reply(events.StopUnknown)},
		"reason_of_tomorrow": {`"stopReason":"bored"`, reply(events.StopUnknown)},
		"numbers":            {`"usage":{"input":-1,"output":2.9,"cacheRead":1e3,"cacheWrite":null}`, recording.Reply{Stop: events.StopUnknown, Usage: events.Usage{Output: 2, CacheRead: 1000}}},
		"null_usage":         {`"usage":null`, reply(events.StopUnknown)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := entries(t, `{"type":"message","message":{"role":"assistant",`+tt.message+`}}`)
			same(t, "entries", got, []recording.Entry{{Kind: recording.EntryReply, Line: 1, Reply: tt.want}})
		})
	}
}

func TestPiResults(t *testing.T) {
	t.Parallel()
	const asks = `{"type":"message","message":{"role":"assistant","content":[{"type":"toolCall","id":"a","name":"f"}]}}`
	tests := map[string]struct {
		message string
		want    recording.Result
	}{
		"text":       {`"toolCallId":"a","toolName":"f","content":[{"type":"text","text":"x"}],"isError":false`, recording.Result{Call: "a", Tool: "f", Text: "x"}},
		"failed":     {`"toolCallId":"a","toolName":"f","content":[{"type":"text","text":"x"}],"isError":true`, recording.Result{Call: "a", Tool: "f", Text: "x", Failed: true}},
		"parts":      {`"toolCallId":"a","content":[{"type":"text","text":"x"},{"type":"image","data":"AA","mimeType":"image/png"},{"type":"text","text":"y"}]`, recording.Result{Call: "a", Tool: "f", Text: "x\ny", Attachments: []events.Part{attachment("image/png", "AA")}}},
		"no_content": {`"toolCallId":"a","isError":null`, recording.Result{Call: "a", Tool: "f"}},
		"orphan":     {`"toolCallId":"b","toolName":"g"`, recording.Result{Call: "b", Tool: "g", ReplyIndex: -1, CallIndex: -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := piEntries(t, asks, `{"type":"message","message":{"role":"toolResult",`+tt.message+`}}`)[1]
			want := recording.Entry{Kind: recording.EntryResult, Line: 2, Index: 1, Result: tt.want}
			same(t, "result", []recording.Entry{got}, []recording.Entry{want})
		})
	}
}

func TestPiCompaction(t *testing.T) {
	t.Parallel()
	const header = `{"type":"session","id":"s"}`
	const a, b = `{"type":"label","id":"a"}`, `{"type":"label","id":"b","parentId":"a"}`
	said := func(id, parent string) string {
		return fmt.Sprintf(`{"type":"message","id":%q,"parentId":%q,"message":{"role":"user"}}`, id, parent)
	}
	tests := map[string]struct {
		lines []string
		want  recording.Compaction
	}{
		"by_id":           {[]string{header, a, b, `{"type":"compaction","summary":"s","firstKeptEntryId":"b","tokensBefore":7}`}, recording.Compaction{Summary: "s", FirstKept: 2, TokensBefore: 7}},
		"id_unknown":      {[]string{header, a, `{"type":"compaction","firstKeptEntryId":"z"}`}, recording.Compaction{FirstKept: -1}},
		"id_of_its_own":   {[]string{header, `{"type":"compaction","id":"c","firstKeptEntryId":"c"}`}, recording.Compaction{FirstKept: -1}},
		"id_twice":        {[]string{header, a, a, `{"type":"compaction","firstKeptEntryId":"a"}`}, recording.Compaction{FirstKept: 2}},
		"neither":         {[]string{header, a, `{"type":"compaction"}`}, recording.Compaction{FirstKept: -1}},
		"by_index":        {[]string{header, a, b, `{"type":"compaction","firstKeptEntryIndex":2}`}, recording.Compaction{FirstKept: 2}},
		"index_of_header": {[]string{header, a, `{"type":"compaction","firstKeptEntryIndex":0}`}, recording.Compaction{FirstKept: -1}},
		"index_no_header": {[]string{a, `{"type":"compaction","firstKeptEntryIndex":0}`}, recording.Compaction{FirstKept: 0}},
		"index_negative":  {[]string{header, a, `{"type":"compaction","firstKeptEntryIndex":-1}`}, recording.Compaction{FirstKept: -1}},
		"index_beyond":    {[]string{header, a, `{"type":"compaction","firstKeptEntryIndex":2}`}, recording.Compaction{FirstKept: -1}},
		"tail":            {[]string{header, said("a", ""), said("b", "a"), `{"type":"label","id":"l","parentId":"b"}`, said("c", "l"), `{"type":"compaction","id":"d","parentId":"c","summary":"s","retainedTail":[{"role":"user"},{"role":"user"}]}`}, recording.Compaction{Summary: "s", FirstKept: 2}},
		"tail_too_long":   {[]string{header, said("a", ""), `{"type":"compaction","parentId":"a","retainedTail":[{},{}]}`}, recording.Compaction{FirstKept: -1}},
		"tail_empty":      {[]string{header, said("a", ""), `{"type":"compaction","parentId":"a","retainedTail":[]}`}, recording.Compaction{FirstKept: -1}},
		"index_only_line": {[]string{`{"type":"compaction","firstKeptEntryIndex":0}`}, recording.Compaction{FirstKept: -1}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := piEntries(t, tt.lines...)
			got := all[len(all)-1]
			if got.Kind != recording.EntryCompaction || got.Compaction != tt.want {
				t.Errorf("got %s %+v, want %+v", got.Kind, got.Compaction, tt.want)
			}
		})
	}
}

// TestPiJumps reads trees: an entry jumps if its parent is in the file, and another one than the entry before it.
func TestPiJumps(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		tree string // an entry's id, a slash and its parent's id, for each entry
		want []bool
	}{
		"linear":         {"a/ b/a c/b", []bool{false, false, false}},
		"branch":         {"a/ b/a c/a d/c", []bool{false, false, true, false}},
		"second_root":    {"a/ b/", []bool{false, true}},
		"unknown_parent": {"a/x b/x", []bool{false, false}},
		"later_parent":   {"a/b b/a", []bool{false, false}},
		"no_ids":         {"/ /", []bool{false, false}},
		"without_id":     {"a/ / b/a", []bool{false, false, false}},
		"own_parent":     {"a/ b/b", []bool{false, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			for _, entry := range strings.Fields(tt.tree) {
				id, parent, _ := strings.Cut(entry, "/")
				lines = append(lines, fmt.Sprintf(`{"type":"label","id":%q,"parentId":%q}`, id, parent))
			}
			var got []bool
			for _, e := range piEntries(t, lines...) {
				got = append(got, e.Jumps)
			}
			same(t, "jumps", got, tt.want)
		})
	}
}
