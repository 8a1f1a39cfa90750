package recording_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/recording"
)

// outline is a conversation in short: what each entry is and says.
func outline(c *recording.Conversation) []string {
	var list []string
	parts := func(all []events.Part) string {
		var texts []string
		for _, p := range all {
			switch p.Kind {
			case events.PartText:
				texts = append(texts, p.Text)
			case events.PartReasoning:
				texts = append(texts, "("+p.Text+")")
			case events.PartToolCall:
				texts = append(texts, fmt.Sprintf("%s:%s(%s)", p.Call, p.Tool, p.Args))
			case events.PartAttachment:
				texts = append(texts, "["+p.MediaType+"]")
			case events.PartToolResult:
			}
		}
		return strings.Join(texts, " | ")
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		line := string(e.Kind) + ": "
		switch e.Kind {
		case recording.EntrySystem, recording.EntryUser, recording.EntryContext:
			line += parts(e.Message.Parts)
		case recording.EntryReply:
			line = fmt.Sprintf("%s %s: %s", e.Reply.Model, e.Reply.Stop, parts(e.Reply.Parts))
		case recording.EntryResult:
			line = fmt.Sprintf("%s of %d.%d: %s", e.Result.Call, e.Result.ReplyIndex, e.Result.CallIndex, e.Result.Text)
			if e.Result.Failed {
				line += " failed"
			}
			if len(e.Result.Attachments) > 0 {
				line += " " + parts(e.Result.Attachments)
			}
		case recording.EntryConfig:
			line += e.Config.Provider + "/" + e.Config.Model
		case recording.EntryCompaction:
			line += fmt.Sprintf("%s, keeps from %d", e.Compaction.Summary, e.Compaction.FirstKept)
		case recording.EntryShell, recording.EntryOther:
			line += e.Type
		}
		if e.Jumps {
			line += " <- " + e.Parent
		}
		list = append(list, strings.ReplaceAll(line, "\n", "\\n"))
	}
	return list
}

// TestTranscripts reads transcripts that the named versions of the programs wrote, with the words replaced.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		format   recording.Format
		id, lost string
		want     []string
	}{
		"claude-2.1.332": {
			recording.FormatClaude, "0b1c2d3e-0000-4000-8000-000000000001",
			"22 attachment lines, 4 details of results, 1 api-request lines, 1 api-request-blob lines, 1 api-request-shape lines, 1 atis-latch lines, 1 cost-state lines, 1 last-prompt lines, 1 mode lines, 1 queue-operation lines, 1 tools-used lines",
			[]string{
				"user: Which files are in the garden?",
				`model-one tool_use: (I should list the files.) | Let me look. | toolu_22:Bash({"command":"ls","description":"List files"}) | toolu_32:Read({"file_path":"/home/ann/garden/p.png"})`,
				"toolu_32 of 1.1:  [image/png]",
				`toolu_22 of 1.0: a.txt\nb.txt\np.png <- 00000012-0000-4000-8000-000000000000`,
				`model-one tool_use: toolu_04:Bash({"command":"cat nosuch; exit 3","description":"Fail"})`,
				`toolu_04 of 4.0: Exit code 3\ncat: nosuch: No such file or directory failed`,
				"model-one stop: Done: Which files are in the garden?",
				"user: And what grows?",
				"model-one stop: Done: And what grows?",
				"user: Ask another one.",
				`model-one tool_use: toolu_010:Agent({"description":"look","prompt":"Say hello from the side","subagent_type":"general-purpose"})`,
				"toolu_010 of 10.0: It works in the background.",
				"model-one stop: Done: Ask another one.",
				"user: <task-notification>It says hello.</task-notification>",
				"model-one stop: Done: Ask another one.",
				"user: Tell me a long story.",
				"model-one cancelled: Thinking about it ... ",
				"user: [Request interrupted by user]",
				"<synthetic> stop: No response requested.",
				"user: A short one, then.",
				"model-one stop: Done: A short one, then.",
				`compaction: This session is being continued from a previous conversation.\nSummary:\nThey listed the files of the garden., keeps from 20`,
				"user: <local-command-caveat>It ran here.</local-command-caveat>",
				`user: <command-name>/compact</command-name>\n            <command-message>compact</command-message>\n            <command-args></command-args>`,
				"user: <local-command-stdout>Compacted (ctrl+o to see full summary)</local-command-stdout>",
				"user: What did we plant?",
				"model-one stop: Beans.",
			},
		},
		"codex-0.171.0": {
			recording.FormatCodex, "0b1c2d3e-0000-4000-8000-000000000002",
			"11 item_completed events, 5 thread_settings_applied events, 3 task_complete events, 3 task_started events, 3 world_state lines, 2 items that a compaction retained, 1 base instructions",
			[]string{
				"system: Be brief.",
				`user: <environment_context>\n  <cwd>/home/ann/garden</cwd>\n</environment_context>`,
				"config: fake/fake-1",
				`user: <image name=[Image #1] path="/home/ann/garden/p.png"> | [image/png] | </image> | Which files are in the garden?`,
				`fake-1 tool_use: (I should list the files.) | call_4_0:exec_command({"cmd": "ls"}) | call_4_1:exec_command({"cmd": "cat nosuch; exit 3"})`,
				`call_4_0 of 4.0: Chunk ID: 8bed29\nWall time: 0.0000 seconds\nProcess exited with code 0\nOriginal token count: 5\nOutput:\na.txt\nb.txt\np.png\n`,
				`call_4_1 of 4.1: Chunk ID: 482e73\nWall time: 0.0000 seconds\nProcess exited with code 3\nOriginal token count: 10\nOutput:\ncat: nosuch: No such file or directory\n`,
				`fake-1 stop: Done: <image name=[Image #1] path="/home/ann/gar`,
				"fake-1 stop: They listed the files.",
				`compaction: Here is the summary produced by the other language model:\nThey listed the files., keeps from -1`,
				"user: And what grows?",
				"fake-1 stop: Done: And what grows?",
				"fake-1 stop: They listed the files.",
				`compaction: Here is the summary produced by the other language model:\nThey listed the files., keeps from -1`,
				"user: And what is red?",
				"fake-1 stop: Done: And what is red?",
			},
		},
		"responses": {
			recording.FormatResponses, "responses-1", "1 item_reference items, 1 web_search_call items",
			[]string{
				"system: Be brief.",
				"user: Which files are in the garden? | [image/png] | []",
				` tool_use: (I list.\nI look.) | Let me look. | c1:list_files({"path": "."}) | c2:patch(*** Begin Patch)`,
				"c2 of 2.1: two [image/png]",
				"c1 of 2.0: a.txt",
				" tool_use: mcp_1:water({})",
				"mcp_1 of 5.0: no water failed",
				"model-two stop: There is a.txt. | No more.",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for form, text := range map[string]string{"plain": string(data), "windows": "\xef\xbb\xbf" + strings.ReplaceAll(string(data), "\n", "\r\n")} {
				all, err := recording.Read(name+".jsonl", strings.NewReader(text))
				if err != nil || len(all) != 1 || all[0].Format != tt.format || all[0].ID != tt.id {
					t.Fatalf("%s: got %+v, %v, want one conversation %s of %s", form, all, err, tt.id, tt.format)
				}
				same(t, form, outline(&all[0]), tt.want)
				if got := recording.LostText(all[0].Lost); got != tt.lost {
					t.Errorf("%s: lost: got %q, want %q", form, got, tt.lost)
				}
			}
		})
	}
}

// TestTranscriptForms reads what transcripts may have beside the common: each is one conversation, or several.
func TestTranscriptForms(t *testing.T) {
	t.Parallel()
	claude := func(id, parent, rest string) string {
		return fmt.Sprintf(`{"type":"user","sessionId":"s","uuid":%q,"parentUuid":%q,%s}`, id, parent, rest)
	}
	asks := func(text string) string { return fmt.Sprintf(`"message":{"role":"user","content":%q}`, text) }
	says := func(id, parent, message, block string) string {
		return fmt.Sprintf(`{"type":"assistant","sessionId":"s","uuid":%q,"parentUuid":%q,"message":{"id":%q,"role":"assistant","model":"m","content":[%s],"stop_reason":"end_turn"}}`, id, parent, message, block)
	}
	say := func(text string) string { return fmt.Sprintf(`{"type":"text","text":%q}`, text) }
	item := func(text string) string { return fmt.Sprintf(`{"type":"message","role":"user","content":%q}`, text) }
	codex := func(kind, payload string) string {
		return fmt.Sprintf(`{"timestamp":"t","type":%q,"payload":%s}`, kind, payload)
	}
	tests := map[string]struct {
		lines []string
		lost  string
		want  []string
	}{
		"claude_edited": {
			[]string{claude("a", "", asks("one")), says("b", "a", "m1", say("1")), claude("c", "b", asks("two")), says("d", "c", "m2", say("2")), claude("e", "b", asks("three"))},
			"",
			[]string{"user: one", "m stop: 1", "user: two", "m stop: 2", "user: three <- b"},
		},
		"claude_sidechain": {
			[]string{claude("a", "", asks("one")), claude("x", "", `"isSidechain":true,`+asks("aside")), says("b", "a", "m1", say("1"))},
			"1 entries of subagents",
			[]string{"user: one", "m stop: 1"},
		},
		"claude_sidechain_alone": {[]string{claude("x", "", `"isSidechain":true,"agentId":"g",`+asks("aside"))}, "", []string{"user: aside"}},
		"claude_result_between_blocks": {
			[]string{
				claude("a", "", asks("one")), says("b", "a", "m1", `{"type":"tool_use","id":"t1","name":"f","input":{}}`),
				claude("c", "b", `"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"r1"}]}`),
				says("d", "b", "m1", `{"type":"tool_use","id":"t2","name":"g","input":{}}`),
				claude("e", "d", `"message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"r2"}],"is_error":true}]}`),
				says("f", "e", "m2", say("done")),
			},
			"",
			[]string{"user: one", "m stop: t1:f({}) | t2:g({})", "t1 of 1.0: r1", "t2 of 1.1: r2 failed <- b", "m stop: done"},
		},
		"claude_through_other_lines": {
			[]string{
				claude("a", "", asks("one")), `{"type":"attachment","sessionId":"s","uuid":"p","parentUuid":"a"}`,
				`{"type":"progress","sessionId":"s","uuid":"q","parentUuid":"p"}`, says("b", "q", "m1", say("1")),
			}, "1 attachment lines, 1 progress lines", []string{"user: one", "m stop: 1"},
		},
		"claude_resumed": {
			[]string{claude("a", "", asks("one")), strings.Replace(claude("b", "a", asks("two")), `"s"`, `"other"`, 1)},
			"",
			[]string{"user: one", "user: two"},
		},
		"claude_two_sessions": {
			[]string{claude("a", "", asks("one")), strings.Replace(claude("b", "", asks("two")), `"s"`, `"other"`, 1)},
			"",
			[]string{"user: one", "--", "user: two"},
		},
		"claude_twice": {[]string{claude("a", "", asks("one")), claude("a", "", asks("one"))}, "1 repeated lines", []string{"user: one"}},
		"claude_failed": {
			[]string{claude("a", "", asks("one")), strings.Replace(says("b", "a", "m1", say("API Error: 529")), `"uuid"`, `"isApiErrorMessage":true,"uuid"`, 1)},
			"",
			[]string{"user: one", "m provider_error: API Error: 529"},
		},
		"claude_redacted": {
			[]string{claude("a", "", asks("one")), says("b", "a", "m1", `{"type":"redacted_thinking","data":"x"},{"type":"server_tool_use","id":"w"}`)},
			"",
			[]string{"user: one", "m stop: () | []"},
		},
		"claude_unreadable": {
			[]string{
				claude("a", "", asks("one")), claude("b", "a", `"message":{"role":"user","content":7}`),
				claude("c", "b", `"message":{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain","data":"two"}}]}`), says("d", "c", "m1", say("1")),
			},
			"1 unreadable lines",
			[]string{"user: one", "user: two", "m stop: 1"},
		},
		"pi_unreadable": {
			[]string{`{"type":"session","version":3,"id":"s"}`, `{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":7}}`, `{"type":"message","id":"b","parentId":"a","message":{"role":"user","content":"one"}}`},
			"1 unreadable lines",
			[]string{"config: /", "user: one"},
		},
		"codex_unreadable": {
			[]string{codex("session_meta", `{"id":"a"}`), codex("response_item", item("one")), codex("response_item", `{"type":"message","role":"critic","content":"no"}`), codex("response_item", item("two"))},
			"1 unreadable lines",
			[]string{"user: one", "user: two"},
		},
		"items_of_a_chat":     {[]string{`[` + item("one") + `,{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]},{"role":"tool","tool_call_id":"c","content":"r"}]`}, "1 calls in the form of chats, 1 unreadable items", []string{"user: one"}},
		"items_unreadable":    {[]string{`{"input":[` + item("one") + `,5,` + item("two") + `]}`}, "1 unreadable items", []string{"user: one", "user: two"}},
		"claude_unknown_line": {[]string{claude("a", "", asks("one")), `{"type":"weather","rain":true}`}, "1 weather lines", []string{"user: one"}},
		"pi_context": {
			[]string{
				`{"type":"session","version":3,"id":"s"}`, `{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}`,
				`{"type":"custom_message","id":"b","parentId":"a","customType":"x","content":"aside","display":true}`,
				`{"type":"message","id":"c","parentId":"b","message":{"role":"assistant","content":[{"type":"text","text":"1"}],"model":"m","stopReason":"stop"}}`,
				`{"type":"context_edit","id":"d","parentId":"c","targetId":"a","replacement":null}`, `{"type":"usage","id":"e","parentId":"d","kind":"cache_warm"}`,
				`{"type":"compaction","id":"f","parentId":"e","summary":"sum","retainedTail":[{"role":"user","content":"aside"},{"role":"assistant"}]}`,
			},
			"1 effects of context edits",
			[]string{"config: /", "user: one", "context: aside", "m stop: 1", "other: context_edit", "other: usage", "compaction: sum, keeps from 2"},
		},
		"codex_fork": {
			[]string{codex("session_meta", `{"id":"b","forked_from_id":"a"}`), codex("session_meta", `{"id":"a"}`), codex("response_item", item("one"))},
			"",
			[]string{"user: one"},
		},
		"codex_two_sessions": {
			[]string{codex("session_meta", `{"id":"a"}`), codex("response_item", item("one")), codex("session_meta", `{"id":"b"}`), codex("response_item", item("two"))},
			"",
			[]string{"user: one", "--", "user: two"},
		},
		"codex_old": {
			[]string{`{"id":"a","timestamp":"t","instructions":null}`, item("one"), `{"record_type":"state"}`, `{"type":"local_shell_call","call_id":"c","status":"completed","action":{"type":"exec","command":["ls"]}}`, `{"type":"function_call_output","call_id":"c","output":"{\"output\":\"a\"}"}`},
			"1 other lines",
			[]string{"user: one", ` tool_use: c:local_shell({"type":"exec","command":["ls"]})`, `c of 1.0: {"output":"a"}`},
		},
		"codex_rolled_back": {
			[]string{
				codex("session_meta", `{"id":"a"}`), codex("response_item", item("<environment_context>x</environment_context>")), codex("response_item", item("one")), codex("response_item", item("two")),
				codex("response_item", `{"type":"message","role":"assistant","content":"2"}`), codex("event_msg", `{"type":"thread_rolled_back","num_turns":1}`), codex("response_item", item("three")),
			},
			"",
			[]string{"user: <environment_context>x</environment_context>", "user: one", "user: two", " stop: 2", "user: three <- 1"},
		},
		"codex_rolled_back_whole": {
			[]string{codex("session_meta", `{"id":"a"}`), codex("response_item", item("one")), codex("event_msg", `{"type":"thread_rolled_back","num_turns":3}`), codex("response_item", item("two"))},
			"",
			[]string{"user: one", "user: two <- "},
		},
		"codex_failed_call": {
			[]string{codex("session_meta", `{"id":"a"}`), codex("response_item", item("one")), codex("response_item", `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`), codex("response_item", `{"type":"function_call_output","call_id":"c","output":{"content":"no","success":false}}`)},
			"",
			[]string{"user: one", " tool_use: c:f({})", "c of 1.0: no failed"},
		},
		"items_of_responses": {
			[]string{
				`{"instructions":"Be brief.","input":[` + item("one") + `]}`,
				`{"instructions":"Be brief.","model":"m","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[{"type":"message","role":"assistant","content":"1"}]}`,
				`{"instructions":"Be long.","input":[` + item("two") + `]}`,
				`{"model":"m","status":"failed","error":{"code":"server_error","message":"overloaded"},"output":[{"type":"message","role":"assistant","content":"2"}]}`,
				`{"model":"m","status":"cancelled","output":[{"type":"message","role":"assistant","content":"3"}]}`,
				`{"model":"m","status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[{"type":"message","role":"assistant","content":"4"}]}`,
			},
			"",
			[]string{"system: Be brief.", "user: one", "m output_limit: 1", "system: Be long.", "user: two", "m provider_error: 2", "m cancelled: 3", "m content_filter: 4"},
		},
		"claude_broken": {
			[]string{claude("a", "", asks("one")), claude("b", "a", asks("two"))[:40] + claude("c", "a", asks("two")), says("d", "a", "m1", say("1")), "\x00\x00", "{\"type\":\"x\xff\"}", says("e", "d", "m2", say("2"))[:50]},
			"4 broken lines",
			[]string{"user: one", "m stop: 1"},
		},
		"pi_broken":       {[]string{`{"type":"session","version":3,"id":"s"}`, `{"type":"message","id":"a","parentId":null,"message":{"role":"user","content":"one"}}`, `{"type":"message","id":"b","par`}, "1 broken lines", []string{"config: /", "user: one"}},
		"codex_broken":    {[]string{codex("session_meta", `{"id":"a"}`), codex("response_item", item("one")), codex("response_item", item("two"))[:30]}, "1 broken lines", []string{"user: one"}},
		"items_indented":  {[]string{"[", " " + item("one") + ",", " " + item("two"), "]"}, "", []string{"user: one", "user: two"}},
		"pi_indented":     {[]string{"{", ` "type": "message", "id": "a",`, ` "message": {"role": "bashExecution", "command": "ls", "output": "a"}`, "}"}, "", []string{"context: The user ran `ls`:\\n\\na"}},
		"items_both":      {[]string{`{"input":[` + item("one") + `],"output":[{"type":"message","role":"assistant","content":"1"}]}`}, "", []string{"user: one", " stop: 1"}},
		"items_of_a_text": {[]string{`{"model":"m","input":"one"}`}, "", []string{"user: one"}},
		"items_outputs": {
			[]string{
				item("one"), `{"type":"computer_call","call_id":"a","action":{"type":"click"}}`, `{"type":"computer_call_output","call_id":"a","output":{"type":"computer_screenshot","image_url":"data:image/png;base64,AQID"}}`,
				`{"type":"shell_call","call_id":"b","action":{"commands":["ls"]}}`, `{"type":"shell_call_output","call_id":"b","output":[{"stdout":"x","outcome":{"type":"exit","exit_code":0}}]}`,
				`{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, `{"type":"function_call_output","call_id":"c","output":{"rows":[1]}}`,
			},
			"",
			[]string{
				"user: one", ` tool_use: a:computer({"type":"click"})`, "a of 1.0:  [image/png]", ` tool_use: b:shell({"commands":["ls"]})`,
				`b of 3.0: [{"stdout":"x","outcome":{"type":"exit","exit_code":0}}]`, " tool_use: c:f({})", `c of 5.0: {"rows":[1]}`,
			},
		},
		"codex_no_header":   {[]string{codex("response_item", item("one"))}, "", []string{"user: one"}},
		"items_in_a_list":   {[]string{`[` + item("one") + `,` + item("two") + `]`}, "", []string{"user: one", "user: two"}},
		"items_of_request":  {[]string{`{"model":"m","input":[` + item("one") + `]}`}, "", []string{"user: one"}},
		"items_page":        {[]string{`{"object":"list","data":[` + item("one") + `]}`}, "", []string{"user: one"}},
		"items_unanswered":  {[]string{item("one"), `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"}`, item("two")}, "", []string{"user: one", " tool_use: c:f({})", "user: two"}},
		"items_unknown":     {[]string{item("one"), `{"type":"weather_report","rain":true}`}, "1 weather_report items", []string{"user: one"}},
		"items_orphan":      {[]string{item("one"), `{"type":"function_call_output","call_id":"c","output":{"content":"x","success":true}}`}, "", []string{"user: one", "c of -1.-1: x"}},
		"items_object_args": {[]string{item("one"), `{"type":"shell_call","call_id":"c","action":{"commands":["ls"]}}`}, "", []string{"user: one", ` tool_use: c:shell({"commands":["ls"]})`}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := conversations(t, strings.Join(tt.lines, "\n"))
			var got []string
			for i := range all {
				if i > 0 {
					got = append(got, "--")
				}
				got = append(got, outline(&all[i])...)
			}
			same(t, "entries", got, tt.want)
			if lost := recording.LostText(all[0].Lost); lost != tt.lost {
				t.Errorf("lost: got %q, want %q", lost, tt.lost)
			}
		})
	}
}
