package system

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
)

func TestSmokeCodeTurns(t *testing.T) {
	t.Parallel()
	b, id, c := harness.StartCode(t,
		harness.Reply(harness.Text("Let me see.\n```python\nx = add(a=1, b=2)\nprint(x)\n```\nThis is never read.")),
		harness.Program("def twice(n): return n * 2\nprint(twice(x))"), harness.Reply(harness.Text("It is 6.")),
		harness.Program("finish({\"x\": twice(x)})"), harness.Reply(harness.Text("bye")),
	)
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	runtest.Equal(t, "outcome", b.Outcome(id, "t1"), api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "It is 6."})
	runtest.Equal(t, "end of the next", b.RunTurn(id, "t2", harness.Text("again")).End, events.EndSubmitted)
	runtest.Equal(t, "outcome of the next", b.Outcome(id, "t2"), api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: `{"x":6}`})
	b.RunTurn(id, "t3", harness.Text("and"))
	runtest.Equal(t, "calls", c.Count("add"), 1)
	request := b.Model.Requests()[4]
	runtest.Equal(t, "tools in the request", len(request.Tools), 0)
	lines := b.Model.Prompt(4)
	for _, want := range []string{"## Programs", "add(a: int, b: int = None)\n    Adds numbers.", "\nonce()"} {
		runtest.Equal(t, "system has "+want, strings.Contains(lines[0], want), true)
	}
	runtest.EqualLists(t, "prompt", lines[1:], []string{
		"user go", "assistant Let me see.\n\n```python\nx = add(a=1, b=2)\nprint(x)\n```", "user [output]\n3\n",
		"assistant ```starlark\ndef twice(n): return n * 2\nprint(twice(x))\n```", "user [output]\n6\n", "assistant It is 6.",
		"user again", "assistant ```starlark\nfinish({\"x\": twice(x)})\n```", "user [output]\n{\"x\":6}", "user and",
	})
	calls := harness.Find[*events.ToolNestedReturned](b, id)
	runtest.Equal(t, "nested results", len(calls), 1)
	runtest.Equal(t, "nested effect", calls[0].Effect, "t1/0/0/0")
}

func TestSmokeCodeGather(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("print(gather([call(meet, n=1), call(meet, n=2), call(\"broken\")], attempt=True))"), harness.Reply(harness.Text("ok")))
	b.AddCodeTools()
	var both sync.WaitGroup
	both.Add(2)
	plugin.AddTool(b.Tools, plugin.Tool{Name: "meet"}, func(_ context.Context, _ plugin.Call, in struct {
		N int `json:"n"`
	},
	) (int, error) {
		both.Done()
		both.Wait() // for each other: they run at the same time or never end
		return in.N * 10, nil
	})
	b.StartCodeNode(b.Bus)
	id := b.Open(harness.CodeSession())
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "output", b.Outputs(id), []string{"[result(ok=True, value=10), result(ok=True, value=20), result(ok=False, error=\"out of paper 1\")]\n"})
}

func TestCodeFinishSchema(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Reply(harness.Text("All done.")), harness.Program(`finish({"n": "one"})`), harness.Program(`finish({"n": 1})`))
	_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{
		Parts:   []events.Part{harness.Text("go")},
		Options: []byte(`{"termination":"finish_required","finish_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`),
	}})
	runtest.WantError(t, "submit", err, nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndSubmitted)
	runtest.Equal(t, "value", b.Outcome(id, "t1").Value, `{"n":1}`)
	outputs := b.Outputs(id)
	runtest.Equal(t, "complaint", strings.Contains(outputs[0], "not what was asked for"), true)
	correction := b.Model.Prompt(1)
	runtest.Equal(t, "correction", strings.Contains(correction[len(correction)-1], "no code block"), true)
	runtest.Equal(t, "schema in the prompt", strings.Contains(correction[0], "must fit this JSON schema"), true)
}

// TestCodeFinishSchemaBomb requests values by schemas whose check would never end. The turn is refused, or ends,
// before a model call, and the node continues.
func TestCodeFinishSchemaBomb(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Program(`finish({"n": 1})`))
	for i, bomb := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`,
		`{"anyOf":[{"properties":{"n":{"$ref":"#"}}},{"properties":{"n":{"$ref":"#"}}}]}`,
	} {
		name := events.TurnID(fmt.Sprintf("bomb%d", i))
		_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: name, Input: events.TurnInput{
			Parts: []events.Part{harness.Text("go")}, Options: []byte(`{"termination":"finish_required","finish_schema":` + bomb + `}`),
		}})
		if err == nil {
			got := b.AwaitTurn(id, name)
			runtest.Equal(t, bomb, got.End, events.EndInvalidInput)
			runtest.Equal(t, "the reason names the field", strings.Contains(got.Issue.Message, "finish_schema"), true)
		}
	}
	runtest.Equal(t, "model calls", len(harness.Find[*events.ModelReplied](b, id)), 0)
	_, err := b.Submit(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{
		Parts: []events.Part{harness.Text("go")}, Options: []byte(`{"termination":"finish_required","finish_schema":{"type":"object"}}`),
	}})
	runtest.WantError(t, "submit", err, nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndSubmitted)
}

func TestCodeFinishRequired(t *testing.T) {
	t.Parallel()
	req := harness.CodeSession()
	req.Config.MaxIterations = 3
	req.Options = map[string]string{"code": `{"termination":"finish_required"}`}
	b, _, _ := harness.StartCode(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("```starlark\nprint(1)\n")), harness.Reply(harness.Text("three")))
	id := b.Open(req)
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndMaxTurns)
	last := b.Model.Prompt(2)
	runtest.Equal(t, "an open block", strings.Contains(last[len(last)-1], "is not closed"), true)
	runtest.Equal(t, "options", string(b.StateOf(id).Frame().Options), `{"termination":"finish_required"}`)
}

func TestCodeHostile(t *testing.T) {
	t.Parallel()
	b, id, _ := harness.StartCode(t, harness.Program("while True:\n    pass"), harness.Program("for i in range(100000):\n    print(\"spam\" * 20)"),
		harness.Program("s = [0] * (1 << 29)"), harness.Program("def f(n): return f(n)\nf(1)"), harness.Program("nothing(here"), harness.Program("fail(\"mine\")"),
		harness.Reply(harness.Text("enough")))
	runtest.Equal(t, "end", b.RunTurn(id, "t1", harness.Text("go")).End, events.EndFinished)
	for i, want := range []string{"did too much work", "bytes cut", "memory limit", "recursion is off", "want ')'", "mine"} {
		if got := b.Outputs(id)[i]; !strings.Contains(got, want) || len(got) > 20<<10 {
			t.Errorf("output %d: got %d bytes, %.200q, want %q in it", i, len(got), got, want)
		}
	}
	runtest.Equal(t, "outcome", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Outcome, events.OutcomeFailure)
}

func TestCodeMessages(t *testing.T) {
	t.Parallel()
	b, _, _ := harness.StartCode(t, harness.Program("message(\"looking\")\nmessage(\"found\", kind=\"progress\")\nmessage(\"code\", kind=\"lashlang_code\")\nseen()"), harness.Reply(harness.Text("done")))
	seen := make(chan struct{})
	plugin.AddTool(b.Tools, plugin.Tool{Name: "seen", Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return "", ctx.Err()
	})
	id := b.Open(harness.CodeSession())
	var messages []string
	b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventMessage {
			if messages = append(messages, e.Kind+":"+e.Text); len(messages) == 2 {
				close(seen)
			}
		}
	})
	runtest.EqualLists(t, "messages", messages, []string{"message:looking", "progress:found"})
}

// TestCodeApproval has a call inside a program that waits for an approval.
func TestCodeApproval(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Program("print(add(a=1), once(), add(a=2))"), harness.Reply(harness.Text("done")))
	c := b.AddCodeTools()
	gatePlugin := plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.Tools)
	})
	b.StartNode(append(workers.Builtins()[1:], gatePlugin)...)
	id := b.Open(harness.CodeSession())
	b.StartTurn(id, "t1", harness.Text("go"))
	state := b.AwaitState(id, "question", harness.HasAsk)
	runtest.Equal(t, "calls before the answer", c.Count("once"), 0)
	effect := state.Turn().Asks[0].Effect
	runtest.Equal(t, "effect", effect, "t1/0/0/1")
	runtest.WantError(t, "approve", b.Approve(b.Ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: true}), nil)
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	runtest.EqualLists(t, "output", b.Outputs(id), []string{"1 once-1 2\n"})
	runtest.Equal(t, "calls", c.Count("once"), 1)
	runtest.Equal(t, "calls that were answered before", c.Count("add"), 2)
}
