package llm_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/workers/llm"
)

func call(id events.CallID) events.Part {
	return events.Part{Kind: events.PartToolCall, Call: id, Tool: "f", Args: []byte("{}")}
}

func result(id events.CallID, text string) events.Part {
	return events.Part{Kind: events.PartToolResult, Call: id, Tool: "f", Text: text}
}

func say(role events.Role, parts ...events.Part) events.Message {
	return events.Message{Role: role, Parts: parts}
}

// ids are the call ids of messages, and the texts of results by id.
func ids(messages []events.Message) (calls []events.CallID, results map[events.CallID]string) {
	results = map[events.CallID]string{}
	for _, m := range messages {
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartToolCall:
				calls = append(calls, p.Call)
			case events.PartToolResult:
				results[p.Call] = p.Text
			case events.PartText, events.PartReasoning, events.PartAttachment:
			}
		}
	}
	return calls, results
}

func TestDialogPairsCallsAndResults(t *testing.T) {
	t.Parallel()
	got, err := llm.Dialog([]events.Message{
		say(events.RoleAssistant, call("a"), call("b"), call("a"), call("")),
		say(events.RoleSystem, events.Part{Kind: events.PartText, Text: "note"}),
		say(events.RoleUser, result("a", "1"), result("a", "3"), result("x", "orphan")),
		say(events.RoleUser, result("b", "2")),
		say(events.RoleUser),
	})
	runtest.NoError(t, err)
	calls, results := ids(got)
	if want := []events.CallID{"a", "b", "call_3", "call_4"}; !reflect.DeepEqual(calls, want) {
		t.Fatalf("calls: got %q, want %q", calls, want)
	}
	want := map[events.CallID]string{"a": "1", "b": "2", "call_3": "3", "call_4": "No result was recorded for this call."}
	runtest.DeepEqual(t, "results", results, want)
	var roles []events.Role
	for _, m := range got {
		roles = append(roles, m.Role)
	}
	if want := []events.Role{events.RoleUser, events.RoleAssistant, events.RoleUser}; !reflect.DeepEqual(roles, want) {
		t.Errorf("roles: got %q, want %q", roles, want)
	}
	runtest.Contains(t, "result without a call", got[2].Text(), "orphan")
}

// TestDialogCutsNoID: gateways keep signatures in ids. Source: https://github.com/BerriAI/litellm/issues/37849.
func TestDialogCutsNoID(t *testing.T) {
	t.Parallel()
	longest := events.CallID(strings.Repeat("x", 40))
	got, err := llm.Dialog([]events.Message{
		say(events.RoleAssistant, call(longest), call(longest+"y"), call("call_1__thought__"+longest)),
		say(events.RoleUser, result("call_1__thought__"+longest, "3"), result(longest+"y", "2")),
	})
	if err != nil {
		t.Fatal(err)
	}
	calls, results := ids(got)
	if want := []events.CallID{longest, "call_2", "call_3"}; !reflect.DeepEqual(calls, want) || results["call_2"] != "2" || results["call_3"] != "3" {
		t.Errorf("got %q and %q, want the calls %q", calls, results, want)
	}
}

// TestDialogKeepsItsBeginning expects equal ids for the calls that a longer history shares with a shorter one: prompt
// caches need that.
func TestDialogKeepsItsBeginning(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var history []events.Message
		var before []events.CallID
		for i := range rapid.IntRange(1, 12).Draw(t, "turns") {
			id := rapid.SampledFrom([]events.CallID{"", "a", "call_1", "call_2", "call_3"}).Draw(t, "id")
			history = append(history, say(events.RoleAssistant, call(id)), say(events.RoleUser, result(id, strconv.Itoa(i))))
			got, err := llm.Dialog(history)
			runtest.NoError(t, err)
			calls, results := ids(got)
			if !reflect.DeepEqual(calls[:len(before)], append([]events.CallID{}, before...)) || len(calls) != i+1 {
				t.Fatalf("calls: got %q after %q", calls, before)
			}
			for n, id := range calls {
				if results[id] != strconv.Itoa(n) {
					t.Fatalf("result of call %d (%q): got %q", n, id, results[id])
				}
			}
			before = calls
		}
	})
}

func TestRedact(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, secret, want string }{
		{"key sk-12345 and sk-12345", "sk-12345", "key [redacted] and [redacted]"},
		{"unknown url, not tested", "test", "unknown url, not tested"},
		{"unknown url", "k", "unknown url"},
		{"key sk-1234", "sk-1234", "key sk-1234"},
		{" plain \n", "", "plain"},
		{strings.Repeat("é", 5000), "sk", strings.Repeat("é", 4000)},
		{"a\xff", "", "a\uFFFD"},
	} {
		if got := llm.Redact(c.text, c.secret); got != c.want {
			t.Errorf("Redact(%.20q, %q): got %.40q, want %.40q", c.text, c.secret, got, c.want)
		}
	}
}

func TestRetryAfterWithoutDate(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	h := map[string][]string{"Retry-After": {now.Add(90 * time.Second).Format("Mon, 02 Jan 2006 15:04:05 GMT")}}
	runtest.Equal(t, "retry after", llm.RetryAfter(h, now), 90*time.Second)
}

func TestToolNames(t *testing.T) {
	t.Parallel()
	p, err := llm.Prepare("p", "https://host", llm.Request{Tools: []llm.Tool{{Name: "fs.read"}}})
	runtest.NoError(t, err)
	for in, want := range map[string]string{"fs.read": "fs.read", "fs.write": "fs_write", "": "unknown", "é x": "__x"} {
		runtest.Equal(t, fmt.Sprintf("%q", in), p.ToolName(in), want)
	}
}

// TestDialogOrder: whatever a history has, the system is first and once, then the user, who is last too, and no two messages
// in a row have one role; nothing is blank.
func TestDialogOrder(t *testing.T) {
	t.Parallel()
	words := rapid.SampledFrom([]string{"", " \n", "a", "\xff"})
	rapid.Check(t, func(t *rapid.T) {
		var history []events.Message
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			m := say(rapid.SampledFrom([]events.Role{events.RoleSystem, events.RoleUser, events.RoleAssistant}).Draw(t, "role"))
			for range rapid.IntRange(0, 3).Draw(t, "parts") {
				m.Parts = append(m.Parts, rapid.SampledFrom([]events.Part{
					{Kind: events.PartText, Text: words.Draw(t, "text")},
					{Kind: events.PartReasoning, Text: words.Draw(t, "thought")},
					call("a"), result("a", words.Draw(t, "result")),
					{Kind: events.PartAttachment, MediaType: "image/png", Text: words.Draw(t, "data")},
				}).Draw(t, "part"))
			}
			history = append(history, m)
		}
		got, err := llm.Dialog(history)
		runtest.NoError(t, err)
		last := events.Role("")
		for i, m := range got {
			if m.Role == last || m.Role == events.RoleSystem && i > 0 || m.Role == events.RoleAssistant && last != events.RoleUser {
				t.Fatalf("message %d: %s after %q in %+v", i, m.Role, last, got)
			}
			last = m.Role
			for _, p := range m.Parts {
				separator := m.Role == events.RoleAssistant && p.Text == "\n\n"
				if p.Kind != events.PartToolCall && p.Kind != events.PartReasoning && strings.TrimSpace(p.Text) == "" && !separator || !utf8.ValidString(p.Text) {
					t.Fatalf("message %d has a %s of %q", i, p.Kind, p.Text)
				}
			}
		}
		if last != events.RoleUser {
			t.Fatalf("got %+v, want a message of the user", got)
		}
	})
}

func TestValidUnicode(t *testing.T) {
	t.Parallel()
	units := []string{"a", `\\`, `\"`, `\n`, `\u0041`, `\ud83d`, `\uDE00`, `\ud83d\ude00`, `\\ud83d`, "\xff", "é", "\xed\xa0\xbd"}
	rapid.Check(t, func(t *rapid.T) {
		in := `{"x":["` + strings.Join(rapid.SliceOfN(rapid.SampledFrom(units), 0, 8).Draw(t, "units"), "") + `"]}`
		got := llm.ValidUnicode([]byte(in))
		var want, have any // encoding/json reads such halves, and each such byte, as U+FFFD
		runs := regexp.MustCompile("\uFFFD+")
		one := func(text string) []byte { return []byte(runs.ReplaceAllString(text, "\uFFFD")) }
		_ = json.Unmarshal([]byte(in), &want)
		if err := json.Unmarshal(got, &have); err != nil || string(one(fmt.Sprint(have))) != string(one(fmt.Sprint(want))) {
			t.Fatalf("%s: got %s, %v", in, got, err)
		}
		rest := regexp.MustCompile(`\\\\|\\u[dD][89abAB]..\\u[dD][c-fC-F]..`).ReplaceAllString(string(got), "")
		if regexp.MustCompile(`\\u[dD][89a-fA-F]`).MatchString(rest) || !utf8.Valid(got) {
			t.Fatalf("%s: got %s, want no half", in, got)
		}
	})
}
