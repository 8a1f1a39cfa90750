package chat_test

import (
	"testing"

	"github.com/lash-go/lash/cmd/internal/chat"
	"github.com/lash-go/lash/events"
)

// TestParseLine parses lines with and without a question, and with one that changed while the user typed.
func TestParseLine(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		line          string
		question, now events.EffectID
		want          chat.Action
	}{
		{"", "", "", chat.Action{}},
		{"  \n", "q", "q", chat.Action{}},
		{" hello\nthere ", "", "", chat.Action{Verb: chat.Say, Text: "hello\nthere"}},
		{"y", "", "", chat.Action{Verb: chat.Say, Text: "y"}},
		{"y", "q", "q", chat.Action{Verb: chat.Answer, Effect: "q", Granted: true}},
		{"YES", "q", "q", chat.Action{Verb: chat.Answer, Effect: "q", Granted: true}},
		{"no", "q", "q", chat.Action{Verb: chat.Answer, Effect: "q"}},
		{"n not  that ", "q", "q", chat.Action{Verb: chat.Answer, Effect: "q", Text: "not  that"}},
		{`y {"colour": "red"}`, "q", "q", chat.Action{Verb: chat.Answer, Effect: "q", Granted: true, Text: `{"colour": "red"}`}},
		{"y {ellipsis}", "q", "q", chat.Action{Verb: chat.Say, Text: "y {ellipsis}"}},
		{"yes please", "q", "q", chat.Action{Verb: chat.Say, Text: "yes please"}},
		{"nothing", "q", "q", chat.Action{Verb: chat.Say, Text: "nothing"}},
		{"hello", "q", "r", chat.Action{Verb: chat.Say, Text: "hello"}},
		{"/model  m ", "", "", chat.Action{Verb: chat.Model, Text: "m"}},
		{"/branch", "q", "q", chat.Action{Verb: chat.Branch}},
		{"/quit", "", "", chat.Action{Verb: chat.Quit}},
		{"//etc/passwd", "", "", chat.Action{Verb: chat.Say, Text: "/etc/passwd"}},
	} {
		if got := chat.Parse(tc.line, tc.question, tc.now); got != tc.want {
			t.Errorf("%q: got %+v, want %+v", tc.line, got, tc.want)
		}
	}
	for _, tc := range []struct {
		line          string
		question, now events.EffectID
	}{{"y", "q", "r"}, {"y", "q", ""}, {"y", "", "r"}, {"n", "q", ""}, {"/fly", "", ""}, {"/quit now", "", ""}} {
		if got := chat.Parse(tc.line, tc.question, tc.now); got.Verb != chat.Refuse || got.Text == "" {
			t.Errorf("%q to %q, asked %q: got %+v, want it refused with a reason", tc.line, tc.question, tc.now, got)
		}
	}
}
