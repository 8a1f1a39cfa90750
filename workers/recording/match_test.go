package recording_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lash-go/lash/workers/recording"
)

// talk writes a chat: "c a b" is a reply with the calls a and b, "n f" a reply with the legacy call of f, "r a" a
// result for a, "f f" a result of the legacy function f, "u" a user message.
func talk(t *testing.T, script ...string) []recording.Entry {
	t.Helper()
	messages := make([]string, len(script))
	for i, step := range script {
		words := strings.Fields(step)
		switch words[0] {
		case "c":
			calls := make([]string, len(words)-1)
			for j, id := range words[1:] {
				calls[j] = fmt.Sprintf(`{"id":%q,"function":{"name":"t%s"}}`, id, id)
			}
			messages[i] = `{"role":"assistant","tool_calls":[` + strings.Join(calls, ",") + `]}`
		case "n":
			messages[i] = fmt.Sprintf(`{"role":"assistant","function_call":{"name":%q}}`, words[1])
		case "r":
			messages[i] = fmt.Sprintf(`{"role":"tool","tool_call_id":%q}`, words[1])
		case "f":
			messages[i] = fmt.Sprintf(`{"role":"function","name":%q}`, words[1])
		default:
			messages[i] = `{"role":"user"}`
		}
	}
	return chat(t, strings.Join(messages, ","))
}

func TestMatch(t *testing.T) {
	t.Parallel()
	orphan := [2]int{-1, -1}
	tests := map[string]struct {
		script []string
		want   [][2]int // reply and call of each result, in order
	}{
		"in_order":                 {[]string{"u", "c a b", "r a", "r b"}, [][2]int{{1, 0}, {1, 1}}},
		"out_of_order":             {[]string{"c a b", "r b", "u", "r a"}, [][2]int{{0, 1}, {0, 0}}},
		"before_the_call":          {[]string{"r a", "c a"}, [][2]int{orphan}},
		"answered_twice":           {[]string{"c a", "r a", "r a"}, [][2]int{{0, 0}, orphan}},
		"id_reused":                {[]string{"c a", "r a", "c a", "r a"}, [][2]int{{0, 0}, {2, 0}}},
		"latest_reply_first":       {[]string{"c a", "c a", "r a", "r a", "r a"}, [][2]int{{1, 0}, {0, 0}, orphan}},
		"id_twice_in_a_reply":      {[]string{"c a b a", "r a", "r a", "r b"}, [][2]int{{0, 0}, {0, 2}, {0, 1}}},
		"late_after_another_reply": {[]string{"c a", "c b", "r a", "r b"}, [][2]int{{0, 0}, {1, 0}}},
		"legacy":                   {[]string{"n x", "f x", "n x", "n y", "f x", "f y"}, [][2]int{{0, 0}, {2, 0}, {3, 0}}},
		"legacy_latest_first":      {[]string{"n x", "n x", "f x", "f x", "f x"}, [][2]int{{1, 0}, {0, 0}, orphan}},
		"name_takes_from_id":       {[]string{"c a a", "f ta", "r a", "r a"}, [][2]int{{0, 0}, {0, 1}, orphan}},
		"id_takes_from_name":       {[]string{"c a a", "r a", "f ta", "f ta"}, [][2]int{{0, 0}, {0, 1}, orphan}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got [][2]int
			for _, e := range talk(t, tt.script...) {
				if e.Kind == recording.EntryResult {
					got = append(got, [2]int{e.Result.ReplyIndex, e.Result.CallIndex})
					if want := e.Result.ReplyIndex < 0; e.Result.Orphan() != want {
						t.Errorf("got orphan %v, want %v", !want, want)
					}
				}
			}
			same(t, "results", got, tt.want)
		})
	}
}
