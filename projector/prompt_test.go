package projector_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
)

// TestPromptCalls: each call's result follows it, and other results are dropped.
func TestPromptCalls(t *testing.T) {
	t.Parallel()
	reply := func(ids ...events.CallID) events.Message {
		m := message("", events.RoleAssistant, text("r"))
		for _, id := range ids {
			m.Parts = append(m.Parts, call(id))
		}
		return m
	}
	answer := func(parts ...events.Part) events.Message { return message("", events.RoleUser, parts...) }
	user := func(s string) events.Message { return message("", events.RoleUser, text(s)) }
	file := events.Part{Kind: events.PartAttachment, Text: "file"}
	none := projector.UnansweredText
	tests := []struct {
		name string
		list []events.Message
		want []string
	}{
		{"pair", []events.Message{reply("a"), answer(result("a", "1"))}, []string{"assistant r call:a", "user a=1"}},
		{
			"appended_between",
			[]events.Message{reply("a", "b"), user("hm"), answer(result("a", "1"), result("b", "2"))},
			[]string{"assistant r call:a call:b", "user a=1 b=2", "user hm"},
		},
		{
			"reply_appended_between",
			[]events.Message{reply("a"), reply("b"), answer(result("b", "2")), answer(result("a", "1"))},
			[]string{"assistant r call:a", "user a=1", "assistant r call:b", "user b=2"},
		},
		{
			"two_messages",
			[]events.Message{reply("a", "b"), answer(result("a", "1")), answer(result("b", "2"))},
			[]string{"assistant r call:a call:b", "user a=1 b=2"},
		},
		{
			"reversed",
			[]events.Message{reply("a", "b"), answer(result("b", "2"), result("a", "1"))},
			[]string{"assistant r call:a call:b", "user a=1 b=2"},
		},
		{
			"with_text",
			[]events.Message{reply("a"), answer(text("so"), result("a", "1"), text("there"))},
			[]string{"assistant r call:a", "user a=1", "user so there"},
		},
		{
			"attachments",
			[]events.Message{reply("a", "b"), answer(result("a", "1"), file, file, result("b", "2"), text("and"), file)},
			[]string{"assistant r call:a call:b", "user a=1 file file b=2", "user and file"},
		},
		{
			"unanswered",
			[]events.Message{reply("a", "b"), answer(result("b", "2")), user("on")},
			[]string{"assistant r call:a call:b", "user a=" + none + " b=2", "user on"},
		},
		{"never_answered", []events.Message{reply("a")}, []string{"assistant r call:a", "user a=" + none}},
		{"orphan", []events.Message{user("u"), answer(result("a", "1")), user("v")}, []string{"user u", "user v"}},
		{"orphan_with_file", []events.Message{answer(result("a", "1"), file), answer(result("a", "1"), text("x"))}, []string{"user x"}},
		{"before_its_call", []events.Message{answer(result("a", "1")), reply("a")}, []string{"assistant r call:a", "user a=" + none}},
		{
			"answered_twice",
			[]events.Message{reply("a"), answer(result("a", "1")), answer(result("a", "2"))},
			[]string{"assistant r call:a", "user a=1"},
		},
		{
			"same_id_within",
			[]events.Message{reply("a", "a"), answer(result("a", "1"), result("a", "2"))},
			[]string{"assistant r call:a call:a", "user a=1 a=2"},
		},
		{
			"same_id_across",
			[]events.Message{reply("a"), answer(result("a", "1")), reply("a"), answer(result("a", "2"))},
			[]string{"assistant r call:a", "user a=1", "assistant r call:a", "user a=2"},
		},
		{
			"same_id_across_unanswered",
			[]events.Message{reply("a"), reply("a"), answer(result("a", "2"))},
			[]string{"assistant r call:a", "user a=" + none, "assistant r call:a", "user a=2"},
		},
		{
			"empty_ids",
			[]events.Message{reply("", ""), answer(result("", "1"), result("", "2"))},
			[]string{"assistant r call: call:", "user =1 =2"},
		},
		{"call_of_a_user", []events.Message{answer(call("a"), text("x")), answer(result("a", "1"))}, []string{"user x"}},
		{
			"result_of_a_model",
			[]events.Message{reply("a"), message("", events.RoleAssistant, result("a", "1"), text("x"))},
			[]string{"assistant r call:a", "user a=" + none, "assistant x"},
		},
		{"empty_message", []events.Message{answer()}, []string{"user"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			for i, m := range tt.list {
				m.ID = events.MessageID('a' + rune(i))
				h.append(m)
			}
			runtest.EqualLists(t, "prompt", transcript(prompt(t, h.State).Messages), tt.want)
		})
	}
}

// TestPromptValid checks prompts of random histories against the rules of providers.
func TestPromptValid(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		drive(t, 40, func(s *projector.State, _ events.Entry) {
			p, err := s.Prompt()
			runtest.NoError(t, err)
			checkPrompt(t, p.Messages)
		})
	})
}

// checkPrompt checks that the next message has the results of a reply's calls, in order, and that there are no other
// calls or results.
func checkPrompt(t *rapid.T, list []events.Message) {
	var owed []events.CallID
	for i, m := range list {
		var calls, results []events.CallID
		for _, p := range m.Parts {
			switch p.Kind {
			case events.PartToolCall:
				calls = append(calls, p.Call)
			case events.PartToolResult:
				results = append(results, p.Call)
			case events.PartText, events.PartReasoning, events.PartAttachment:
			}
		}
		if !slices.Equal(results, owed) {
			t.Fatalf("message %d answers %v, want %v", i, results, owed)
		}
		if len(results) > 0 && m.Role != events.RoleUser {
			t.Fatalf("message %d with results is of %s, want user", i, m.Role)
		}
		if len(calls) > 0 && m.Role != events.RoleAssistant {
			t.Fatalf("message %d with calls is of %s, want assistant", i, m.Role)
		}
		owed = calls
	}
	if len(owed) > 0 {
		t.Fatalf("calls %v at the end are not answered", owed)
	}
}

// TestPromptAgain builds a prompt after each step, as a worker does, and once at the end. Caches must not change the
// result.
func TestPromptAgain(t *testing.T) {
	t.Parallel()
	hidden := message("r", events.RoleUser, result("k", "hidden"))
	tests := map[string][]func(*history){
		"hidden_result": {
			func(h *history) { h.append(message("r", events.RoleUser, text("shown"))) },
			func(h *history) { h.append(message("a", events.RoleAssistant, call("k"))) },
			func(h *history) { h.append(hidden) },
			func(h *history) { h.append(message("x", events.RoleUser, result("k", "real"))) },
			func(h *history) { h.say("on") },
		},
		"kept_after_other_seed": {
			func(h *history) { h.say("a", "b") },
			func(h *history) {
				h.add("", &events.FrameOpened{Frame: "f", Reason: "x", Keep: "b", Nodes: []events.NewNode{
					{ID: "s", Kind: events.NodeMessage, Message: message("s", events.RoleUser, text("s"))},
				}})
			},
			func(h *history) { h.branchTo("b").say("s2") },
		},
		"repeated": {
			func(h *history) { h.say("a", "a") },
			func(h *history) { h.say("a", "b") },
			func(h *history) { h.note("p").say("b", "c") },
		},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := begin(t)
			for i, step := range steps {
				step(h)
				got, want := prompt(t, h.State), prompt(t, h.Clone())
				if !slices.Equal(transcript(got.Messages), transcript(want.Messages)) || got.Ref != want.Ref {
					t.Errorf("after step %d: got %q, want %q", i, transcript(got.Messages), transcript(want.Messages))
				}
			}
		})
	}
}

// TestPromptDigest: the digest changes with every part of a prompt, and with nothing else.
func TestPromptDigest(t *testing.T) {
	t.Parallel()
	base := func() *history {
		return begin(t).say("a", "b").add("", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{{Name: "t"}}})
	}
	digest := func(h *history) string { return prompt(t, h.State).Ref.Digest }
	want := digest(base())
	same := map[string]func(*history){
		"nothing": func(*history) {},
		"asked":   func(h *history) { prompt(t, h.State) },
		"input":   func(h *history) { h.add("", &events.InputInjected{Input: "i", Role: events.RoleUser}) },
		"request": func(h *history) { h.add("t1", &events.TurnRequested{}) },
		"side":    func(h *history) { h.branchTo("a").say("x").branchTo("b") },
		"same_tools": func(h *history) {
			h.add("", &events.ToolStateApplied{Generation: 2, Tools: []events.ToolEntry{{Name: "t"}}})
		},
	}
	for name, change := range same {
		h := base()
		change(h)
		if got := digest(h); got != want {
			t.Errorf("%s: got digest %s, want %s", name, got, want)
		}
	}
	other := map[string]func(*history){
		"message": func(h *history) { h.say("c") },
		"shorter": func(h *history) { h.branchTo("a") },
		"sibling": func(h *history) { h.branchTo("a").append(message("b2", events.RoleUser, text("b"))) },
		"role":    func(h *history) { h.branchTo("a").append(message("b", events.RoleSystem, text("b"))) },
		"text":    func(h *history) { h.branchTo("a").append(message("b", events.RoleUser, text("b!"))) },
		"config":  func(h *history) { h.add("", &events.SessionConfigured{Config: events.Config{Model: "x"}}) },
		"tool": func(h *history) {
			h.add("", &events.ToolStateApplied{Generation: 2, Tools: []events.ToolEntry{{Name: "u"}}})
		},
		"availability": func(h *history) {
			h.add("", &events.ToolStateApplied{Generation: 2, Tools: []events.ToolEntry{{Name: "t", Availability: events.AvailOff}}})
		},
		"frame":     func(h *history) { h.add("", &events.FrameOpened{Frame: "f", Reason: "x"}) },
		"keep":      func(h *history) { h.add("", &events.FrameOpened{Frame: "f", Reason: "x", Keep: "b"}) },
		"keep_more": func(h *history) { h.add("", &events.FrameOpened{Frame: "f", Reason: "x", Keep: "a"}) },
	}
	seen := map[string]string{want: "base"}
	for name, change := range other {
		h := base()
		change(h)
		got := digest(h)
		if seen[got] != "" {
			t.Errorf("%s: got the digest of %s, want another", name, seen[got])
		}
		seen[got] = name
	}
}

// TestPromptTools: a prompt has the callable tools, by name. Where all are callable it has the catalogue's list, and an append to it
// changes no other prompt.
func TestPromptTools(t *testing.T) {
	t.Parallel()
	all := begin(t).add("", &events.ToolStateApplied{Generation: 1, Tools: append(make([]events.ToolEntry, 0, 2), events.ToolEntry{Name: "a"})})
	if list := prompt(t, all.State).Tools; len(list) != 1 || &list[0] != &all.Catalog.Tools[0] || cap(list) != 1 {
		t.Errorf("all callable: got %v with room for %d, want the catalogue's list", list, cap(list))
	}
	h := begin(t).add("", &events.ToolStateApplied{Generation: 1, Tools: []events.ToolEntry{
		{Name: "a", Availability: events.AvailOff},
		{Name: "b", Availability: events.AvailSearchable},
		{Name: "c", Availability: events.AvailCallable},
		{Name: "d", Availability: events.AvailShowcased},
	}})
	var got []string
	for _, tool := range prompt(t, h.State).Tools {
		got = append(got, tool.Name)
	}
	if want := []string{"c", "d"}; !slices.Equal(got, want) {
		t.Errorf("tools: got %v, want %v", got, want)
	}
}

// TestPromptRef: the reference identifies the inputs of the prompt.
func TestPromptRef(t *testing.T) {
	t.Parallel()
	h := begin(t).say("a").add("", &events.ToolStateApplied{Generation: 4})
	h.add("", &events.SessionConfigured{Config: events.Config{Model: "x"}}).add("", &events.FrameOpened{Frame: "f", Reason: "x"}).say("b")
	got := prompt(t, h.State).Ref
	want := events.PromptRef{Digest: got.Digest, Leaf: "b", Frame: "f", Catalog: 4, Config: 4}
	if got != want || len(got.Digest) != 64 {
		t.Errorf("reference: got %v, want %v", got, want)
	}
}
