package recording_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/lash-go/lash/workers/recording"
	"github.com/lash-go/lash/workers/recording/recordingtest"
)

type object = map[string]any

// seen is a recording, as its JSON has it.
type seen struct {
	entries  []object // lines of pi, without the header
	messages []message
}

// message is a message of either format.
type message struct {
	fields object
	role   string // in the words of chats
	parts  []object
	calls  []string // their ids
	answer string   // id of the call; empty for none
	failed bool
}

func list(v any) (out []object) {
	all, _ := v.([]any)
	for _, one := range all {
		o, _ := one.(object)
		out = append(out, o)
	}
	return out
}

func word(o object, key string) string {
	s, _ := o[key].(string)
	return s
}

func messageOf(m object) message {
	out := message{fields: m, role: word(m, "role"), parts: list(m["content"]), answer: word(m, "tool_call_id") + word(m, "toolCallId")}
	out.failed, _ = m["isError"].(bool)
	if out.role == "toolResult" {
		out.role = "tool"
	}
	if text, ok := m["content"].(string); ok {
		out.parts = append(out.parts, object{"type": "text", "text": text})
	}
	for _, p := range append(list(m["tool_calls"]), out.parts...) {
		if word(p, "type") == "function" || word(p, "type") == "toolCall" {
			out.calls = append(out.calls, word(p, "id"))
		}
	}
	return out
}

// texts are those of the message's parts.
func (m *message) texts() (out []string) {
	for _, p := range m.parts {
		if text, ok := p["text"].(string); ok {
			out = append(out, text)
		}
	}
	return out
}

// read reads recordings by their ids.
func read(t *testing.T, data []byte) map[string]*seen {
	t.Helper()
	all := make(map[string]*seen)
	var last *seen
	for line := range bytes.Lines(data) {
		var o object
		if err := json.Unmarshal(line, &o); err != nil {
			t.Fatal(err)
		}
		switch m, _ := o["message"].(object); {
		case o["messages"] != nil:
			one := &seen{}
			for _, m := range list(o["messages"]) {
				one.messages = append(one.messages, messageOf(m))
			}
			all[word(o, "id")] = one
		case o["type"] == "session":
			last = &seen{}
			all[word(o, "id")] = last
		default:
			last.entries = append(last.entries, o)
			if m != nil {
				last.messages = append(last.messages, messageOf(m))
			}
		}
	}
	return all
}

func (s *seen) any(is func(message) bool) bool { return slices.ContainsFunc(s.messages, is) }

// pair reports whether a message of a role directly follows another one of it.
func (s *seen) pair(role string) bool {
	for i := 1; i < len(s.messages); i++ {
		if s.messages[i-1].role == role && s.messages[i].role == role {
			return true
		}
	}
	return false
}

// entry reports whether an entry of pi has a type.
func (s *seen) entry(types ...string) bool {
	return slices.ContainsFunc(s.entries, func(e object) bool { return slices.Contains(types, word(e, "type")) })
}

// results counts the results of each call id, and of none.
func (s *seen) calls() (asked, answered map[string]int, late, orphans int) {
	asked, answered = make(map[string]int), make(map[string]int)
	var newest []string
	for _, m := range s.messages {
		if m.role == "assistant" {
			newest = m.calls
		}
		for _, id := range m.calls {
			asked[id]++
		}
		if m.answer == "" {
			continue
		}
		answered[m.answer]++
		if asked[m.answer] == 0 {
			orphans++
		} else if !slices.Contains(newest, m.answer) {
			late++
		}
	}
	return asked, answered, late, orphans
}

func ofRole(role string, is func(message) bool) func(*seen) bool {
	return func(s *seen) bool { return s.any(func(m message) bool { return m.role == role && is(m) }) }
}

func stopped(reason string, is func(message) bool) func(*seen) bool {
	return ofRole("assistant", func(m message) bool { return word(m.fields, "stopReason") == reason && is(m) })
}

func always(message) bool { return true }

func bare(m message) bool { return len(m.calls) == 0 && strings.Join(m.texts(), "") == "" }

func several(m message) bool { return len(m.texts()) > 1 }

func foreign(m message) bool {
	return strings.ContainsFunc(strings.Join(m.texts(), ""), func(r rune) bool { return r > unicode.MaxASCII })
}

func hasPart(m message, types ...string) bool {
	return slices.ContainsFunc(m.parts, func(p object) bool { return slices.Contains(types, word(p, "type")) })
}

func picture(m message) bool { return hasPart(m, "image", "image_url") }

func unknownPart(m message) bool {
	return slices.ContainsFunc(m.parts, func(p object) bool {
		return !slices.Contains([]string{"text", "image", "image_url", "thinking", "toolCall"}, word(p, "type"))
	})
}

func both(one, other func(*seen) bool) func(*seen) bool {
	return func(s *seen) bool { return one(s) && other(s) }
}

// isKind decides whether a recording has a kind, by what its format says of it.
var isKind = map[string]func(*seen) bool{
	"several_calls": ofRole("assistant", func(m message) bool { return len(m.calls) > 1 }),
	"unanswered_calls": func(s *seen) bool {
		asked, answered, _, _ := s.calls()
		for id, n := range asked {
			if answered[id] < n {
				return true
			}
		}
		return false
	},
	"call_ids_used_again": func(s *seen) bool {
		before := make(map[string]bool)
		return s.any(func(m message) bool {
			again := slices.ContainsFunc(m.calls, func(id string) bool { return before[id] })
			for _, id := range m.calls {
				before[id] = true
			}
			return again
		})
	},
	"late_results": func(s *seen) bool {
		_, _, late, orphans := s.calls()
		return late > 0 && orphans > 0
	},
	"several_texts":    both(ofRole("user", several), ofRole("tool", several)),
	"empty_texts":      both(ofRole("user", bare), both(ofRole("tool", bare), ofRole("assistant", bare))),
	"unicode_texts":    both(ofRole("user", foreign), both(ofRole("tool", foreign), ofRole("assistant", foreign))),
	"long_texts":       ofRole("tool", func(m message) bool { return len(strings.Join(m.texts(), "")) > 64<<10 }),
	"pictures":         both(ofRole("user", picture), ofRole("tool", picture)),
	"thinking":         ofRole("assistant", func(m message) bool { return m.fields["reasoning_content"] != nil || hasPart(m, "thinking") }),
	"unknown_fields":   func(s *seen) bool { return s.any(unknownField) || slices.ContainsFunc(s.entries, unknownEntryField) },
	"unknown_parts":    both(ofRole("user", unknownPart), ofRole("tool", unknownPart)),
	"users_in_a_row":   func(s *seen) bool { return s.pair("user") },
	"replies_in_a_row": func(s *seen) bool { return s.pair("assistant") },
	"ends_on_user":     func(s *seen) bool { return s.messages[len(s.messages)-1].role == "user" },
	"ends_on_result":   func(s *seen) bool { return s.messages[len(s.messages)-1].role == "tool" },
	"system_messages":  func(s *seen) bool { return ofRole("system", always)(s) || ofRole("developer", always)(s) },
	"functions":        both(ofRole("function", always), ofRole("assistant", func(m message) bool { return m.fields["function_call"] != nil })),
	"aborted_replies":  both(stopped("aborted", bare), stopped("aborted", func(m message) bool { return !bare(m) })),
	"aborted_calls":    stopped("aborted", func(m message) bool { return len(m.calls) > 0 }),
	"failed_replies":   stopped("error", always),
	"failed_results":   ofRole("tool", func(m message) bool { return m.failed }),
	"cut_replies":      stopped("length", always),
	"compactions":      func(s *seen) bool { return s.entry("compaction") },
	"branches": func(s *seen) bool {
		var ids []any
		for _, e := range s.entries {
			if n := len(ids); n > 0 && e["parentId"] != ids[n-1] && slices.Contains(ids, e["parentId"]) {
				return true
			}
			ids = append(ids, e["id"])
		}
		return false
	},
	"shell_commands": ofRole("bashExecution", always),
	"several_models": func(s *seen) bool {
		models := make(map[string]bool)
		for _, m := range s.messages {
			if m.role == "assistant" {
				models[word(m.fields, "model")] = true
			}
		}
		return len(models) > 1 && s.entry("model_change")
	},
	"unknown_entries": func(s *seen) bool {
		unknown := func(e object) bool {
			return !slices.Contains([]string{"message", "compaction", "model_change", "thinking_level_change"}, word(e, "type"))
		}
		return slices.ContainsFunc(s.entries, unknown) && s.any(func(m message) bool {
			return !slices.Contains([]string{"user", "assistant", "tool", "bashExecution"}, m.role)
		})
	},
	"thousand_entries": func(s *seen) bool { return len(s.entries) >= 1000 },
}

func unknownField(m message) bool {
	return others(m.fields, "role", "content", "name", "tool_calls", "tool_call_id", "function_call", "refusal", "reasoning_content", "timestamp",
		"api", "provider", "model", "usage", "stopReason", "errorMessage", "toolCallId", "toolName", "isError", "details", "display",
		"command", "output", "exitCode", "cancelled", "truncated")
}

func unknownEntryField(e object) bool {
	return word(e, "type") == "message" && others(e, "type", "id", "parentId", "timestamp", "message")
}

// others reports whether an object has other fields than these.
func others(o object, fields ...string) bool {
	for key := range o {
		if !slices.Contains(fields, key) {
			return true
		}
	}
	return false
}

// TestKinds finds each kind of the table in the recordings that should have it, by reading these. No kind is in all.
func TestKinds(t *testing.T) {
	t.Parallel()
	all := make(map[string]*seen)
	for _, data := range [][]byte{recordingtest.Each(recording.FormatChat), recordingtest.Each(recording.FormatPi), recordingtest.Large()} {
		for id, s := range read(t, data) {
			all[id] = s
		}
	}
	if len(recordingtest.Kinds()) != len(isKind) {
		t.Errorf("got %d kinds, want the %d of this test", len(recordingtest.Kinds()), len(isKind))
	}
	for _, k := range recordingtest.Kinds() {
		is := isKind[k.Name]
		if is == nil {
			t.Errorf("kind %s: this test cannot find it", k.Name)
			continue
		}
		formats := []recording.Format{recording.FormatChat, recording.FormatPi}
		if k.Format != "" {
			formats = []recording.Format{k.Format}
		}
		for _, f := range formats {
			id := string(f) + "_" + k.Name
			if s := all[id]; s == nil || !is(s) {
				t.Errorf("%s: got a recording without it", id)
			}
		}
		with := 0
		for _, s := range all {
			if is(s) {
				with++
			}
		}
		if with == len(all) {
			t.Errorf("kind %s: got it in all %d recordings, want it in some", k.Name, with)
		}
	}
}

// TestMake makes recordings again: the same arguments give the same bytes, and other seeds others. A large one has all kinds
// of its format, but for the ends.
func TestMake(t *testing.T) {
	t.Parallel()
	for _, f := range []recording.Format{recording.FormatChat, recording.FormatPi} {
		before := make(map[string]bool)
		for seed := range uint64(20) {
			one := recordingtest.Make(seed, f, 50)
			if !bytes.Equal(one, recordingtest.Make(seed, f, 50)) {
				t.Errorf("%s of seed %d: got different bytes", f, seed)
			}
			s := read(t, one)[fmt.Sprintf("%s_%d", f, seed)]
			if n := max(len(s.messages), len(s.entries)); n < 50 {
				t.Errorf("%s of seed %d: got %d entries, want 50 and more", f, seed, n)
			}
			text := fmt.Sprint(s)
			if before[text] {
				t.Errorf("%s of seed %d: got the recording of another seed", f, seed)
			}
			before[text] = true
		}
		large := read(t, recordingtest.Make(1, f, 1200))[string(f)+"_1"]
		for _, k := range recordingtest.Kinds() {
			if (k.Format == "" || k.Format == f) && !strings.HasPrefix(k.Name, "ends_") && !isKind[k.Name](large) {
				t.Errorf("%s of 1200 entries: got no %s", f, k.Name)
			}
		}
	}
}
