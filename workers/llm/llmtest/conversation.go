package llmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
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
	req.Tools[3].InputSchema = []byte(`{"type":"object","properties":{"n":{"maximum":9007199254740993}}}`)
	for i, want := range req.Tools {
		tool := got.Tools[i]
		if tool.Name != want.Name || tool.Description != want.Description {
			t.Errorf("tool %d: got %q %q, want %q %q", i, tool.Name, tool.Description, want.Name, want.Description)
		}
		if !sameJSON(tool.InputSchema, want.InputSchema) {
			t.Errorf("tool %s: got schema %s, want %s", want.Name, tool.InputSchema, want.InputSchema)
		}
	}
}

// testForms sends tools of all kinds of schemas: the endpoint refuses what any API refuses. Their calls have the names of
// properties that the schemas have, and are sent back with those of the forms.
func (w *wireTest) testForms(t *testing.T) {
	t.Parallel()
	args := Chunk{Kind: events.PartToolCall, Text: `{"uids__":[1],"inner":[{"_":true}]}`}
	call := Chunk{Kind: events.PartToolCall, Call: "call_a", Tool: "find"}
	p, e := w.start(t, Reply{Stop: events.StopToolUse, Chunks: []Chunk{call, args}})
	find := llm.Tool{Name: "find", InputSchema: []byte(`{"type":"object","properties":{"uids[]":{"type":"array"},"inner":{"items":{"properties":{"é":true}}}}}`)}
	rapid.Check(t, func(t *rapid.T) {
		req := request()
		req.Tools = []llm.Tool{find}
		for i := range rapid.IntRange(0, 3).Draw(t, "tools") {
			schema, err := json.Marshal(anySchema(3).Draw(t, "schema"))
			runtest.NoError(t, err)
			req.Tools = append(req.Tools, llm.Tool{Name: fmt.Sprint("tool", i), InputSchema: schema})
		}
		req.Messages = append(req.Messages,
			events.Message{Role: events.RoleAssistant, Parts: []events.Part{{Kind: events.PartToolCall, Call: "c", Tool: "find", Args: []byte(`{"uids[]":[1],"inner":[{"é":true}]}`)}}},
			events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Call: "c", Tool: "find", Text: "ok"}}})
		res, err := p.Complete(context.Background(), req, nil)
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
		if got := res.Parts[0].Args; !sameJSON(got, []byte(`{"uids[]":[1],"inner":[{"é":true}]}`)) {
			t.Fatalf("received arguments %s, want the names of the schema", got)
		}
		sent := e.sent[len(e.sent)-1]
		if got := flatten(sent.Messages)[1]; !strings.Contains(got, `"uids__":[1]`) || !strings.Contains(got, `{"_":true}`) {
			t.Fatalf("sent %s, want the names of the form", got)
		}
		if len(sent.Tools) != len(req.Tools) {
			t.Fatalf("sent %d tools, want %d", len(sent.Tools), len(req.Tools))
		}
	})
}

// anySchema draws JSON schemas of all dialects, valid or not.
func anySchema(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth == 0 || rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
			return rapid.SampledFrom([]any{true, false, map[string]any{}, map[string]any{"type": "string"}, nil, 7}).Draw(t, "leaf")
		}
		sub, name := anySchema(depth-1), rapid.SampledFrom([]string{"a", "b", "a b", "a_b", "$x", "é", "", strings.Repeat("long", 40)})
		m := map[string]any{}
		for range rapid.IntRange(0, 4).Draw(t, "keywords") {
			switch key := rapid.SampledFrom([]string{
				"type", "type", "types", "properties", "properties", "required", "items", "tuple", "anyOf", "oneOf", "allOf", "$ref", "const", "enum",
				"description", "pattern", "format", "minimum", "minItems", "maxLength", "additionalProperties", "not", "if", "nullable", "default", "$defs",
			}).Draw(t, "keyword"); key {
			case "type":
				m[key] = rapid.SampledFrom([]any{"object", "array", "string", "number", "integer", "boolean", "null", "file", 1}).Draw(t, key)
			case "types":
				m["type"] = rapid.SliceOfN(rapid.SampledFrom([]any{"object", "array", "string", "null", "integer"}), 0, 3).Draw(t, key)
			case "properties", "$defs":
				m[key] = rapid.MapOfN(name, sub, 0, 3).Draw(t, key)
			case "required":
				m[key] = rapid.SliceOfN(name, 0, 3).Draw(t, key)
			case "anyOf", "oneOf", "allOf", "enum":
				m[key] = rapid.SliceOfN(sub, 0, 3).Draw(t, key)
				if key == "enum" && rapid.Bool().Draw(t, "texts") {
					m[key] = rapid.SliceOfN(rapid.SampledFrom([]any{"x", "y", "", nil}), 0, 3).Draw(t, key)
				}
			case "tuple":
				m["items"] = rapid.SliceOfN(sub, 0, 3).Draw(t, key)
			case "$ref":
				m[key] = rapid.SampledFrom([]any{"#", "#/$defs/a", "#/properties/a", "#/allOf/0", "other.json", 1}).Draw(t, key)
			case "description", "pattern", "format":
				m[key] = rapid.SampledFrom([]any{"x", "(?=a)", 1}).Draw(t, key)
			case "minimum", "minItems", "maxLength":
				m[key] = rapid.SampledFrom([]any{1, -0.5, "1", json.Number("1e400")}).Draw(t, key)
			default:
				m[key] = sub.Draw(t, key)
			}
		}
		return m
	})
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
	rest := strings.Join(flatten(sent[0].Messages), "\n")
	for _, want := range []string{
		"system text You are terse.", "Second rule.", "user text Read both.", "assistant text Reading.",
		`assistant tool_call read {"path":"a"}`, `assistant tool_call read {"path":"b"}`, `assistant tool_call list {}`,
		"user tool_result AAA", "user tool_result BBB", "user tool_result CCC", "Budget is low.", "And go on.",
		`assistant tool_call read {"path":"c"}`, "user tool_result DDD", "Next.", "user attachment image/png aGk=",
		"assistant text Fine.", "Late note.", "End.",
	} {
		before, after, found := strings.Cut(rest, want)
		if !found || strings.Contains(after, want) {
			t.Errorf("%q is not there once, in order, in %q", want, rest)
		}
		if note := "user text [system note]\n"; strings.HasSuffix(want, "low.") && !strings.HasSuffix(before, note) {
			t.Errorf("%q comes after %q, want a note of the user", want, before)
		}
		rest = after
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
