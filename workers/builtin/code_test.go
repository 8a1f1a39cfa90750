package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/builtintest"
	"github.com/lash-go/lash/workers/builtin/code"
)

func codeBuild(t *testing.T) *plugin.Stack {
	t.Helper()
	return builtintest.Build(t, plugin.BuildContext{Config: events.Config{Protocol: code.ID}}, code.Factory(code.Config{}))
}

func preamble(t *testing.T, options string, tools ...events.ToolEntry) plugin.Preamble {
	t.Helper()
	p, err := codeBuild(t).Preamble(tools, json.RawMessage(options))
	runtest.NoError(t, err)
	return p
}

// TestOptions: which options a turn may have.
func TestOptions(t *testing.T) {
	t.Parallel()
	for options, want := range map[string]string{
		``: "", `{}`: "", `{"termination":"finish_required"}`: "", `{"termination":"natural","continue_at_percent":100}`: "",
		`{"finish_schema":{"type":"integer"}}`:              "",
		`{"termination":"never"}`:                           `unknown termination "never"`,
		`{"continue_at_percent":-1}`:                        "continue_at_percent: -1, want 0 to 100",
		`{"continue_at_percent":101}`:                       "continue_at_percent: 101, want 0 to 100",
		`{"finish_schema":{"$ref":"#/missing"}}`:            "finish_schema",
		`{"finish_schema":{"$ref":"http://example.com/x"}}`: "finish_schema",
		`{"other":1}`:               `unknown field "other"`,
		`{"termination":`:           "code options",
		`[]`:                        "code options",
		strings.Repeat("[", 20_000): "code options",
	} {
		_, err := code.ParseOptions([]byte(options))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", options, err, want)
		}
		turn := codeBuild(t).Protocol().ValidateTurn(t.Context(), events.TurnInput{Options: []byte(options)})
		if want != "" != errors.Is(turn, api.ErrProtocol) {
			t.Errorf("%.60s: turn: got %v, want it refused: %t", options, turn, want != "")
		}
	}
}

func reply(parts ...events.Part) plugin.Response {
	return plugin.Response{Parts: parts, Stop: events.StopEnd}
}

func text(s string) events.Part { return events.Part{Kind: events.PartText, Text: s} }

// TestRead: what a reply says, as text, program and correction.
func TestRead(t *testing.T) {
	t.Parallel()
	const block = "```starlark\nprint(1)\n```\n"
	call := events.Part{Kind: events.PartToolCall, Call: "x", Tool: "shell"}
	for name, c := range map[string]struct {
		options       string
		reply         []events.Part
		text, program string
		corrected     string
	}{
		"answer":                {"", []events.Part{text("Hello.")}, "Hello.", "", ""},
		"program":               {"", []events.Part{text("I look.\n\n" + block)}, "I look.", "print(1)\n", ""},
		"in_pieces":             {"", []events.Part{text("```star"), text("lark\nprint(1)\n``"), text("`\n")}, "", "print(1)\n", ""},
		"text_behind_it":        {"", []events.Part{text(block + "And now:\n```starlark\nprint(2)\n```\n")}, "", "print(1)\n", ""},
		"open_block":            {"", []events.Part{text("```starlark\nprint(1)\n")}, "```starlark\nprint(1)\n", "", "is not closed"},
		"call_beside_text":      {"", []events.Part{text("I call."), call}, "I call.", "", "Call tools in a fenced block"},
		"call_alone":            {"", []events.Part{call}, "(called shell)", "", "Call tools in a fenced block"},
		"call_beside_a_program": {"", []events.Part{text(block), call}, "", "print(1)\n", ""},
		"finish_is_required":    {`{"termination":"finish_required"}`, []events.Part{text("Done.")}, "Done.", "", "call finish(value)"},
		"nothing":               {"", nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := preamble(t, c.options).Read(reply(c.reply...))
			said, program := "", ""
			for _, p := range got.Parts {
				if p.Kind == events.PartText {
					said += p.Text
					continue
				}
				var in struct{ Code string }
				if err := json.Unmarshal(p.Args, &in); err != nil || p.Kind != events.PartToolCall || p.Tool != plugin.ToolCode {
					t.Errorf("got the part %s of %s %s, %v, want a program", p.Kind, p.Tool, p.Args, err)
				}
				program += in.Code
			}
			if said != c.text || program != c.program || !strings.Contains(got.Correct, c.corrected) || (got.Correct == "") != (c.corrected == "") {
				t.Errorf("got %q, program %q, correction %q, want %q, %q, %q", said, program, got.Correct, c.text, c.program, c.corrected)
			}
		})
	}
}

// TestRender: the model reads its program as it wrote it, and the output as a message. A program with fences in it reads
// the same again.
func TestRender(t *testing.T) {
	t.Parallel()
	p := preamble(t, "")
	for _, program := range []string{"print(1)\n", "print('''\n```\n''')\n", "````\n```\n"} {
		args, err := json.Marshal(struct {
			Language string `json:"language"`
			Code     string `json:"code"`
		}{"starlark", program})
		runtest.NoError(t, err)
		got := p.Render([]events.Message{
			{Role: events.RoleAssistant, Parts: []events.Part{text("I look."), {Kind: events.PartToolCall, Tool: plugin.ToolCode, Args: args}}},
			{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Tool: plugin.ToolCode, Text: "1\n"}}},
		})
		if len(got) != 2 || len(got[0].Parts) != 1 || got[1].Text() != "[output]\n1\n" {
			t.Fatalf("%q: got %+v, want a block and its output", program, got)
		}
		again := p.Read(reply(text(got[0].Text() + "\n")))
		if n := len(again.Parts); n != 2 || string(again.Parts[1].Args) != string(args) || again.Parts[0].Text != "I look." {
			t.Errorf("%q: got %+v, want the same text and program", program, again.Parts)
		}
	}
	other := events.Message{Role: events.RoleUser, Parts: []events.Part{{Kind: events.PartToolResult, Tool: "run", Text: "x"}}}
	if got := p.Render([]events.Message{other}); got[0].Parts[0].Kind != events.PartToolResult {
		t.Errorf("result of another tool: got %+v, want it unchanged", got[0])
	}
}

// TestDocs: how the prompt describes tools, and which it only names.
func TestDocs(t *testing.T) {
	t.Parallel()
	schema := `{"type":"object","required":["b"],"properties":{"a":{"type":"integer","default":7},"b":{"enum":["x","y"],"description":"which\n one"},"c":{"type":"array","items":{"type":"string"}}}}`
	find, get := events.ToolEntry{Name: "find", Description: "Finds\nthings."}, events.ToolEntry{Name: "web.get"}
	if err := errors.Join(find.SetContract(events.Contract{Schema: []byte(schema)}), get.SetContract(events.Contract{Schema: []byte(`[1]`)})); err != nil {
		t.Fatal(err)
	}
	p := preamble(t, "", find, get, events.ToolEntry{Name: "hidden", Availability: events.AvailSearchable})
	docs := ""
	for _, c := range p.Contributions {
		docs += c.Content
	}
	for _, want := range []string{
		`find(b: "x" | "y", a: int = 7, c: list[str] = None)` + "\n    Finds things.\n    b: which one\n", `tool("web.get", )`,
	} {
		if !strings.Contains(docs, want) {
			t.Errorf("got %s, want %q in it", docs, want)
		}
	}
	if strings.Contains(docs, "hidden") || !p.HideTools {
		t.Errorf("got %s, with the tools in the request: %t, want showcased tools alone, in the prompt alone", docs, !p.HideTools)
	}
	var many []events.ToolEntry
	for i := range 200 {
		many = append(many, events.ToolEntry{Name: fmt.Sprint("tool_", i), Description: strings.Repeat("d", 1000)})
	}
	docs = preamble(t, "", many...).Contributions[1].Content
	if n := strings.Count(docs, "ddd\n"); n < 40 || n > 49 || len(docs) > 64<<10 || !strings.Contains(docs, "Not described here: ") || !strings.Contains(docs, "tool_199") {
		t.Errorf("200 tools of 1 KB: got %d described in %d bytes, want those of 48 KiB, and the names of the others", n, len(docs))
	}
}

// TestOutputSchemaIsRefused: programs submit values by the finish schema.
func TestOutputSchemaIsRefused(t *testing.T) {
	t.Parallel()
	in := events.TurnInput{Output: events.OutputForm{Name: "x", Schema: []byte(`{"type":"object"}`)}}
	var field *events.FieldError
	if err := codeBuild(t).Protocol().ValidateTurn(t.Context(), in); !errors.As(err, &field) || field.Field != "input.output" {
		t.Errorf("got %v, want input.output refused", err)
	}
}

// clock is a host that has the time alone.
type clock struct{ plugin.ToolHost }

func (clock) Now() time.Time { return time.Unix(0, 0) }

// TestMemoryOfTheEnvironment: a program runs where its environment has more memory than all programs together, and has that of its session.
func TestMemoryOfTheEnvironment(t *testing.T) {
	t.Parallel()
	pool := memory.NewPool(32<<20, 16<<20)
	s := builtintest.Build(t, plugin.BuildContext{Config: events.Config{Protocol: code.ID}}, code.Factory(code.Config{Limits: code.Limits{Memory: pool}}))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	free := make(map[string]bool)
	got, err := s.CodeExecutor().Execute(t.Context(), plugin.ExecContext{
		Session: "s", Host: clock{}, Environment: plugin.Environment{Memory: 1 << 40, CodeTime: 10 * time.Minute},
		Message: func(string, string) {
			for _, session := range []string{"s", "other"} {
				give, err := pool.Take(ended, session, 16<<20)
				if free[session] = err == nil; err == nil {
					give()
				}
			}
		},
	}, plugin.ExecRequest{Code: "message('m')\nprint(1)"})
	if err != nil || got.Output != "1\n" || got.Error != "" || free["s"] || !free["other"] {
		t.Errorf("got %+v, %v, and memory for another program: %v", got, err, free)
	}
}
