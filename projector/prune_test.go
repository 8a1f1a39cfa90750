package projector_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// TestPrune: whatever a prompt has, its pruned messages fit, or only what must stay is left: the last turn's words and
// calls, and heads of the last results. Calls keep their results, and the input does not change.
func TestPrune(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var list []events.Message
		size := rapid.IntRange(0, 5000)
		say := func(role events.Role, parts ...events.Part) { list = append(list, message("", role, parts...)) }
		words := func(name string) events.Part { return text(strings.Repeat("w", size.Draw(t, name)%600)) }
		for turn := range rapid.IntRange(1, 4).Draw(t, "turns") {
			say(events.RoleUser, words("user"), events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: "x"})
			for i := range rapid.IntRange(0, 4).Draw(t, "iterations") {
				var calls, results []events.Part
				for n := range rapid.IntRange(1, 3).Draw(t, "calls") {
					id := events.CallID(fmt.Sprint(turn, "-", i, "-", n))
					one := call(id)
					one.Args = []byte(`{"a":"` + strings.Repeat("a", size.Draw(t, "args")) + `"}`)
					calls, results = append(calls, one), append(results, result(id, strings.Repeat("r", size.Draw(t, "result"))))
				}
				say(events.RoleAssistant, calls...)
				say(events.RoleUser, results...)
			}
			if rapid.Bool().Draw(t, "answered") {
				say(events.RoleAssistant, words("answer"))
			}
		}
		before := fmt.Sprint(list)
		most := rapid.Int64Range(0, 6000).Draw(t, "most")
		got, changes := projector.Prune(list, most)
		if fmt.Sprint(list) != before {
			t.Fatal("the input has changed")
		}
		if (changes == 0) != reflect.DeepEqual(got, list) {
			t.Fatalf("%d changes, equal: %v", changes, changes != 0)
		}
		var calls, results []events.CallID
		for _, m := range got {
			for _, p := range m.Parts {
				switch p.Kind {
				case events.PartToolCall:
					calls = append(calls, p.Call)
				case events.PartToolResult:
					results = append(results, p.Call)
				default:
				}
			}
		}
		if !reflect.DeepEqual(calls, results) {
			t.Fatalf("calls %q have results %q", calls, results)
		}
		if projector.Tokens(got) <= most {
			return
		}
		again, n := projector.Prune(got, most)
		if n != 0 && projector.Tokens(again) < projector.Tokens(got) {
			t.Fatalf("%d tokens of %d are left, and a second pruning leaves %d", projector.Tokens(got), most, projector.Tokens(again))
		}
		begin := len(got) - 1
		for begin > 0 && !projector.BeginsTurn(&got[begin]) {
			begin--
		}
		if note := projector.Tokens([]events.Message{projector.LeftOut(99)}); projector.Tokens(got[:begin]) > note {
			t.Fatalf("%d tokens of %d are left, of which earlier turns have %d", projector.Tokens(got), most, projector.Tokens(got[:begin]))
		}
	})
}

// TestPruneSays: what takes the place of parts says what is missing.
func TestPruneSays(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 4000)
	ask := func(s string) events.Message { return message("", events.RoleUser, text(s)) }
	list := []events.Message{
		ask("one"), message("", events.RoleAssistant, text(strings.Repeat("first ", 100))), ask("two"),
		message("", events.RoleAssistant, call("a")), message("", events.RoleUser, result("a", long)),
		message("", events.RoleAssistant, call("b")), message("", events.RoleUser, result("b", long)),
	}
	for most, want := range map[int64][]string{
		5000: {"one", "first", "two", long, long},
		1500: {"one", "first", "two", "[the result of t, 4000 bytes, is no longer shown]", long},
		900:  {"[2 earlier messages of this conversation are left out: the context window is full. A compaction summarises them.]", "two", "[cut: "},
	} {
		got, _ := projector.Prune(list, most)
		all := fmt.Sprint(got)
		for _, w := range want {
			before, after, found := strings.Cut(all, w)
			if !found {
				t.Errorf("%d tokens: got %.2000s, want %.200q after %.100q", most, all, w, before)
				break
			}
			all = after
		}
	}
}
