package playback_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/playback"
	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

// large is a conversation with a user text of 2 MiB, a result of 300 KiB, and calls and replies of these sizes.
func large(t *testing.T) []byte {
	t.Helper()
	long := func(n int) string { return strings.Repeat("0123456789abcdé ", n/17) }
	call := func(id, args string) map[string]any {
		return map[string]any{"id": id, "type": "function", "function": map[string]any{"name": "look", "arguments": args}}
	}
	data, err := json.Marshal(map[string]any{"id": "large", "messages": []map[string]any{
		{"role": "user", "content": long(2 << 20)},
		{"role": "assistant", "content": long(100 << 10), "tool_calls": []any{call("a", "{}"), call("b", `{"q":"`+long(300<<10)+`"}`)}},
		{"role": "tool", "tool_call_id": "a", "content": long(300 << 10)},
		{"role": "tool", "tool_call_id": "b", "content": long(60 << 10)},
		{"role": "user", "content": long(400 << 10)},
		{"role": "assistant", "content": long(1 << 20)},
		{"role": "system", "content": long(300 << 10)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestOneWorker plays a session of a thousand entries, and one with large bodies, with one worker.
func TestOneWorker(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plans := b.plans("long", append(recordingtest.Read(recordingtest.Large()), read(t, "large.jsonl", large(t))...))
	b.work(1)
	b.playAll(t, plans, 1)
}

// TestResumed stops the client after every step; the next client continues.
func TestResumed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	plans := b.plans("resumed", recordingtest.Read(recordingtest.Written()))
	b.work(2)
	for _, plan := range plans {
		t.Run(plan.Conv.ID, func(t *testing.T) {
			t.Parallel()
			stopped := errors.New("stopped")
			for n := 1; n <= len(plan.Steps); n++ {
				ctx, cancel := context.WithCancelCause(t.Context())
				steps := 0
				err := b.player.Play(ctx, plan, func(*playback.Step) {
					if steps++; steps == n {
						cancel(stopped)
					}
				})
				cancel(nil)
				if err != nil && !errors.Is(err, stopped) && !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped after step %d: got %v", n, err)
				}
			}
			b.play(t, plan)
		})
	}
}

// recorded is the base of the mutations. The line of each entry is its index plus one.
const recorded = `{"type":"session","version":3,"id":"m","cwd":"/x"}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"first question"}]}}
{"type":"message","message":{"role":"assistant","content":[{"type":"thinking","thinking":"two at once"},{"type":"text","text":"I look."},{"type":"toolCall","id":"c1","name":"read","arguments":{"path":"x"}},{"type":"toolCall","id":"c2","name":"list","arguments":{"dir":"y"}}],"stopReason":"toolUse"}}
{"type":"message","message":{"role":"toolResult","toolCallId":"c1","toolName":"read","content":[{"type":"text","text":"text of x"}],"isError":false}}
{"type":"message","message":{"role":"toolResult","toolCallId":"c2","toolName":"list","content":[{"type":"text","text":"no such place"}],"isError":true}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"first answer"}],"stopReason":"stop"}}
{"type":"label","label":"here"}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"second question"},{"type":"image","data":"AAAA","mimeType":"image/png"}]}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"second answer"}],"stopReason":"stop"}}
{"type":"compaction","summary":"two questions","firstKeptEntryIndex":7}
{"type":"message","message":{"role":"user","content":[{"type":"text","text":"third question"}]}}
{"type":"message","message":{"role":"assistant","content":[{"type":"text","text":"cut o"}],"stopReason":"length"}}
`

// TestCompareFinds changes one part of a recording after it was played.
func TestCompareFinds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	played := b.plans("mutated", read(t, "m.jsonl", []byte(recorded)))[0]
	b.work(1)
	b.play(t, played)
	for _, tc := range []struct {
		name     string
		line     int
		old, new string // in that line
	}{
		{"user_text", 2, "first question", "first questiom"},
		{"reasoning", 3, "two at once", "two at onse"},
		{"reply_text", 3, "I look.", "I look!"},
		{"argument", 3, `"path":"x"`, `"path":"z"`},
		{"argument_spacing", 3, `{"dir":"y"}`, `{"dir":"Y"}`},
		{"tool", 3, `"name":"read"`, `"name":"reed"`},
		{"result", 4, "text of x", "text of y"},
		{"outcome_failed", 4, `"isError":false`, `"isError":true`},
		{"outcome_succeeded", 5, `"isError":true`, `"isError":false`},
		{"last_of_text", 6, "first answer", "first answer."},
		{"first_of_text", 9, "second answer", "econd answer"},
		{"unknown_entry", 7, "here", "hero"},
		{"attachment", 8, "AAAA", "AAAB"},
		{"media_type", 8, "image/png", "image/gif"},
		{"summary", 10, "two questions", "two Questions"},
		{"end", 12, `"length"`, `"stop"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			lines := bytes.SplitAfter([]byte(recorded), []byte("\n"))
			changed := bytes.Replace(lines[tc.line-1], []byte(tc.old), []byte(tc.new), 1)
			if bytes.Equal(changed, lines[tc.line-1]) {
				t.Fatalf("line %d does not hold %s", tc.line, tc.old)
			}
			lines[tc.line-1] = changed
			b.differs(t, played, bytes.Join(lines, nil), tc.line)
		})
	}
	for _, tc := range []struct {
		name string
		line int
		edit func([]recording.Entry) []recording.Entry
	}{
		{"missing_end", 0, func(e []recording.Entry) []recording.Entry { return e[:10] }},
		{"missing_user", 3, func(e []recording.Entry) []recording.Entry { return append(e[:1:1], e[2:]...) }},
		{"order_of_entries", 6, func(e []recording.Entry) []recording.Entry {
			e[5].Reply.Parts, e[8].Reply.Parts = e[8].Reply.Parts, e[5].Reply.Parts
			return e
		}},
		{"order_of_calls", 3, func(e []recording.Entry) []recording.Entry {
			p := e[2].Reply.Parts
			p[2], p[3] = p[3], p[2]
			return e
		}},
		{"role", 2, func(e []recording.Entry) []recording.Entry { e[1].Message.Role = events.RoleSystem; return e }},
		{"call_id", 3, func(e []recording.Entry) []recording.Entry { e[2].Reply.Parts[2].Call = "c3"; return e }},
		{"one_more", 12, func(e []recording.Entry) []recording.Entry {
			extra := e[10]
			extra.Line = 12
			return append(e[:11:11], append([]recording.Entry{extra}, e[11:]...)...)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conv := read(t, "m.jsonl", []byte(recorded))[0]
			conv.Entries = tc.edit(conv.Entries)
			plan := *played
			plan.Conv = &conv
			if diff := b.compare(t, &plan); diff == nil || diff.Line != tc.line || diff.Session != plan.Session || diff.File != "m.jsonl" {
				t.Errorf("got %v, want a difference at line %d", diff, tc.line)
			}
		})
	}
}

// differs compares the played history with another recording.
func (b *bundle) differs(t *testing.T, played *playback.Plan, data []byte, line int) {
	t.Helper()
	conv := read(t, "m.jsonl", data)[0]
	plan := playback.NewPlan(played.Session, &conv)
	if diff := b.compare(t, plan); diff == nil || diff.Line != line || diff.File != "m.jsonl" {
		t.Errorf("got %v, want a difference at line %d", diff, line)
	}
}
