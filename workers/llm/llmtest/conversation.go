package llmtest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// testRequest checks everything of a request except its messages.
func (w *wireTest) testRequest(t *testing.T) {
	t.Parallel()
	p, e := w.start(t, Text("ok"))
	req := request()
	req.MaxOutputTokens = 777
	req.Tools = append(req.Tools, llm.Tool{Name: "zero"}, // no description, no schema
		llm.Tool{Name: "zz", Description: "Big.", InputSchema: []byte(`{"type":"object","properties":{"n":{"maximum":9007199254740993}},"$defs":{"a":{"type":"string"}},"additionalProperties":false}`)})
	if _, err := p.Complete(t.Context(), req, nil); err != nil {
		t.Fatalf("Complete: %v", err)
	}
	sent := e.requests(t)
	if len(sent) != 1 {
		t.Fatalf("requests: got %d, want 1", len(sent))
	}
	got := sent[0]
	if got.Model != req.Model || got.MaxOutputTokens != 777 {
		t.Errorf("got model %q and limit %d, want %q and 777", got.Model, got.MaxOutputTokens, req.Model)
	}
	if len(got.Tools) != len(req.Tools) {
		t.Fatalf("tools: got %d, want %d", len(got.Tools), len(req.Tools))
	}
	req.Tools[2].InputSchema = []byte(`{"type":"object","properties":{}}`) // what the APIs want in its place
	for i, want := range req.Tools {
		tool := got.Tools[i]
		if tool.Name != want.Name || tool.Description != want.Description {
			t.Errorf("tool %d: got %q %q, want %q %q", i, tool.Name, tool.Description, want.Name, want.Description)
		}
		if !sameJSON(tool.InputSchema, want.InputSchema) {
			t.Errorf("tool %s: got schema %s, want %s", want.Name, tool.InputSchema, want.InputSchema)
		}
	}
	req.Tools = []llm.Tool{{Name: "bad", InputSchema: []byte(`["not an object"]`)}}
	_, err := p.Complete(t.Context(), req, nil)
	checkError(t, err, llm.KindRequest)
}

// sameJSON compares values; numbers digit by digit.
func sameJSON(a, b []byte) bool {
	decode := func(data []byte) (v any) {
		d := json.NewDecoder(strings.NewReader(string(data)))
		d.UseNumber()
		if d.Decode(&v) != nil {
			return nil
		}
		return v
	}
	return decode(a) != nil && reflect.DeepEqual(decode(a), decode(b))
}

// conversation has everything that makes histories hard: ids that repeat or are missing, arguments that are no JSON,
// a note between calls and results.
func conversation() []events.Message {
	text := func(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }
	call := func(id events.CallID, tool, args string) events.Part {
		return events.Part{Kind: events.PartToolCall, Call: id, Tool: tool, Args: []byte(args)}
	}
	result := func(id events.CallID, text string, o events.Outcome) events.Part {
		return events.Part{Kind: events.PartToolResult, Call: id, Tool: "read", Text: text, Outcome: o}
	}
	say := func(role events.Role, parts ...events.Part) events.Message {
		return events.Message{Role: role, Parts: parts}
	}
	return []events.Message{
		say(events.RoleSystem, text("You are terse.")),
		say(events.RoleSystem, text("Second rule.")),
		say(events.RoleUser, text("Read both.")),
		say(events.RoleAssistant, events.Part{Kind: events.PartReasoning, Text: "Both, then."}, text("Reading."),
			call("dup", "read", `{"path":"a"}`), call("dup", "read", `{"path":"b"}`), call("", "list", `{"dir":`)),
		say(events.RoleSystem, text("Budget is low.")),
		say(events.RoleUser, result("dup", "AAA", ""), result("dup", "BBB", events.OutcomeFailure), result("", "CCC", events.OutcomeLost), text("And go on.")),
		say(events.RoleAssistant, call("dup", "read", `{"path":"c"}`)),
		say(events.RoleUser, result("dup", "DDD", "")),
		say(events.RoleUser, text("Next."), events.Part{Kind: events.PartAttachment, MediaType: "image/png", Text: "aGk="}),
		say(events.RoleAssistant, text("Fine.")),
		say(events.RoleSystem, text("Late note.")),
		say(events.RoleUser, text("End.")),
	}
}

func (w *wireTest) testConversation(t *testing.T) {
	t.Parallel()
	p, e := w.start(t, Text("ok"))
	req := request()
	req.Messages = conversation()
	if _, err := p.Complete(t.Context(), req, nil); err != nil {
		t.Fatalf("Complete: %v", err)
	}
	sent := e.requests(t)
	if len(sent) != 1 {
		t.Fatalf("requests: got %d, want 1", len(sent))
	}
	if !reflect.DeepEqual(req.Messages, conversation()) {
		t.Error("the caller's messages were changed")
	}
	got := flatten(sent[0].Messages)
	want := []string{
		"system text You are terse.", "system text Second rule.", "user text Read both.", "assistant text Reading.",
		`assistant tool_call read {"path":"a"}`, `assistant tool_call read {"path":"b"}`, `assistant tool_call list {}`,
		"user tool_result AAA", "user tool_result BBB", "user tool_result CCC", "note Budget is low.", "user text And go on.",
		`assistant tool_call read {"path":"c"}`, "user tool_result DDD", "user text Next.", "user attachment image/png aGk=",
		"assistant text Fine.", "note Late note.", "user text End.",
	}
	if len(got) != len(want) {
		t.Fatalf("got %d parts, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
	}
	for i := range want {
		note, isNote := strings.CutPrefix(want[i], "note ") // a dialect may have no later system messages
		if got[i] != want[i] && (!isNote || strings.HasPrefix(got[i], "assistant") || !strings.Contains(got[i], note)) {
			t.Errorf("part %d: got %q, want %q", i, got[i], want[i])
		}
	}
}

// flatten lists the parts of messages, without reasoning.
func flatten(messages []events.Message) []string {
	var out []string
	for _, m := range messages {
		for _, p := range m.Parts {
			s := fmt.Sprintf("%s %s ", m.Role, p.Kind)
			switch p.Kind {
			case events.PartReasoning:
				continue
			case events.PartToolCall:
				s += p.Tool + " " + string(p.Args)
			case events.PartAttachment:
				s += p.MediaType + " " + p.Text
			case events.PartText, events.PartToolResult:
				s += p.Text
			}
			out = append(out, s)
		}
	}
	return out
}

// testAnyConversation sends any conversation that a history may have. The endpoint rejects what the real API rejects.
func (w *wireTest) testAnyConversation(t *testing.T) {
	t.Parallel()
	p, e := w.start(t, Text("ok"))
	rapid.Check(t, func(t *rapid.T) {
		g := &history{t: t}
		for range rapid.IntRange(0, 8).Draw(t, "messages") {
			g.step()
		}
		g.add(events.RoleUser, g.text())
		req := request()
		req.Messages = g.messages
		_, err := p.Complete(t.Context(), req, nil)
		e.mu.Lock()
		defer e.mu.Unlock()
		if len(e.refused) > 0 {
			refused := e.refused[0]
			e.refused = nil
			t.Fatalf("request: %v", refused)
		}
		if err != nil {
			t.Fatalf("Complete: %v", err)
		}
		g.check(flatten(e.sent[len(e.sent)-1].Messages))
	})
}

// history draws a conversation and keeps what must be found in the request, in order.
type history struct {
	t        *rapid.T
	n        int
	messages []events.Message
	want     []string
}

func (g *history) add(role events.Role, parts ...events.Part) {
	g.messages = append(g.messages, events.Message{Role: role, Parts: parts})
}

// tag is a text that occurs once.
func (g *history) tag() string {
	g.n++
	return fmt.Sprintf("#%d;", g.n)
}

func (g *history) text() events.Part {
	tag := g.tag()
	g.want = append(g.want, tag)
	odd := rapid.SampledFrom([]string{"", " ", "é", "\xff", "\x00", "\"", "\u2028"}).Draw(g.t, "odd")
	return events.Part{Kind: events.PartText, Text: odd + tag}
}

func (g *history) step() {
	blank := events.Part{Kind: events.PartText, Text: rapid.SampledFrom([]string{"", " \n"}).Draw(g.t, "blank")}
	switch rapid.IntRange(0, 7).Draw(g.t, "step") {
	case 0:
		g.add(events.RoleUser, g.text(), blank, g.text())
	case 1:
		g.add(events.RoleSystem, g.text())
	case 2:
		g.add(events.RoleAssistant, g.text())
	case 3:
		g.add(events.RoleAssistant, events.Part{Kind: events.PartReasoning, Text: "hm", Meta: []byte(`{"other":"provider"}`)}, blank)
	case 4:
		g.add(events.RoleUser, blank)
	case 5:
		media := rapid.SampledFrom([]string{"image/png", "image/svg+xml", "application/pdf", "text/plain", ""}).Draw(g.t, "media")
		src := rapid.SampledFrom([]string{"aGk=", "https://example.com/x", "data:image/png;base64,aGk="}).Draw(g.t, "source")
		g.add(events.RoleUser, g.text(), events.Part{Kind: events.PartAttachment, MediaType: media, Text: src})
	case 6: // its call was cut away
		part := g.text()
		part.Kind, part.Call, part.Tool = events.PartToolResult, "gone", "read"
		g.add(events.RoleUser, part)
	default:
		g.calls()
	}
}

// calls draws a message of calls and their results. The last results may be missing.
func (g *history) calls() {
	var parts, results []events.Part
	if rapid.Bool().Draw(g.t, "talks") {
		parts = append(parts, g.text())
	}
	n := rapid.IntRange(1, 3).Draw(g.t, "calls")
	id := rapid.SampledFrom([]events.CallID{"", "a", "call_1", "call_2", "b.c:0", "é", "b_c_0", events.CallID(strings.Repeat("x", 99))})
	name := rapid.SampledFrom([]string{"read", "list", "no such tool", ""})
	for range n {
		call, tag := id.Draw(g.t, "id"), g.tag()
		args := rapid.SampledFrom([]string{`{"n":"` + tag + `"}`, "", `{"n":`, "null"}).Draw(g.t, "args")
		parts = append(parts, events.Part{Kind: events.PartToolCall, Call: call, Tool: name.Draw(g.t, "tool"), Args: []byte(args)})
		if strings.Contains(args, tag) {
			g.want = append(g.want, tag)
		}
		results = append(results, events.Part{Kind: events.PartToolResult, Call: call, Tool: "read", Text: g.tag(), Outcome: events.OutcomeFailure})
	}
	if rapid.Bool().Draw(g.t, "reasons") {
		parts = append(parts, events.Part{Kind: events.PartReasoning, Text: "afterthought"})
	}
	g.add(events.RoleAssistant, parts...)
	results = results[:rapid.IntRange(0, n).Draw(g.t, "results")]
	for _, r := range results {
		g.want = append(g.want, r.Text)
	}
	if rapid.Bool().Draw(g.t, "interrupted") {
		g.add(events.RoleSystem, g.text())
	}
	if rapid.Bool().Draw(g.t, "continues") {
		results = append(results, g.text())
	}
	if len(results) > 0 {
		g.add(events.RoleUser, results...)
	}
}

// check expects each wanted text once, in order.
func (g *history) check(got []string) {
	all := strings.Join(got, "\n")
	for _, tag := range g.want {
		if n := strings.Count(strings.Join(got, "\n"), tag); n != 1 {
			g.t.Fatalf("%s occurs %d times, want once in\n%s", tag, n, strings.Join(got, "\n"))
		}
		_, rest, found := strings.Cut(all, tag)
		if !found {
			g.t.Fatalf("%s is out of order in\n%s", tag, strings.Join(got, "\n"))
		}
		all = rest
	}
}
