package integration

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// coded are the counts of tools that code calls.
type coded struct {
	mu     sync.Mutex
	counts map[string]int
}

func (c *coded) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = make(map[string]int)
	}
	c.counts[name]++
	return c.counts[name]
}

func (c *coded) of(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.counts[name]
}

// block is a reply with a program.
func block(code string) events.Part { return text("```starlark\n" + code + "\n```\n") }

// program is a step that answers with a program.
func program(code string) step { return reply(block(code)) }

// setupCode has a session that speaks code, and a node.
func setupCode(t *testing.T, script ...step) (*bundle, events.SessionID, *coded) {
	t.Helper()
	b := setupIdle(t, script...)
	c := b.codeTools()
	b.codeNode(b.bus)
	return b, b.open(inCode()), c
}

func inCode() api.CreateRequest {
	return api.CreateRequest{Config: events.Config{Protocol: "code"}}
}

// codeTools adds the tools that programs call.
func (b *bundle) codeTools() *coded {
	c := &coded{}
	type numbers struct {
		A int `json:"a"`
		B int `json:"b,omitempty"`
	}
	plugin.AddTool(b.tools, plugin.Tool{Name: "add", Description: "Adds numbers.", Effects: events.EffectsNone}, func(_ context.Context, _ plugin.Call, in numbers) (int, error) {
		c.count("add")
		return in.A + in.B, nil
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "once"}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return fmt.Sprintf("once-%d", c.count("once")), nil
	})
	plugin.AddTool(b.tools, plugin.Tool{Name: "broken", Effects: events.EffectsIdempotent}, func(context.Context, plugin.Call, struct{}) (string, error) {
		return "", fmt.Errorf("out of paper %d", c.count("broken"))
	})
	return c
}

// codeNode starts a node with both protocols and the bundle's tools, whose host
// is the bundle's from then on, and returns how to stop it at once.
func (b *bundle) codeNode(on *bus.Bus) (kill func()) {
	b.t.Helper()
	return b.codeNodeWith(workers.Config{Bus: on})
}

// codeNodeWith is codeNode with more of a configuration.
func (b *bundle) codeNodeWith(cfg workers.Config) (kill func()) {
	b.t.Helper()
	cfg.Providers, cfg.Provider = map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, "scripted"
	cfg.Tools, cfg.Logger = func(events.SessionID) *plugin.Tools { return b.tools }, zaptest.NewLogger(b.t)
	cfg.Trace = b.trace
	n, err := workers.NewNode(cfg)
	if err != nil {
		b.t.Fatal(err)
	}
	if err := n.Start(b.ctx); err != nil {
		b.t.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background())
			cancel()
			n.Stop(now)
		})
	}
	b.t.Cleanup(stop)
	b.Host = n.Host()
	return stop
}

// outcome is a turn's outcome as hosts see it.
func (b *bundle) outcome(id events.SessionID, turn events.TurnID) api.TurnOutcome {
	b.t.Helper()
	a, err := b.AssembledTurn(b.ctx, id, turn)
	if err != nil {
		b.t.Fatal(err)
	}
	return a.Outcome
}

// outputs are the texts of a session's results, in order.
func (b *bundle) outputs(id events.SessionID) []string {
	b.t.Helper()
	var list []string
	for _, r := range find[*events.ToolReturned](b, id) {
		for i := range r.Results {
			list = append(list, r.Results[i].Text)
		}
	}
	return list
}

func TestCodeTurns(t *testing.T) {
	t.Parallel()
	b, id, c := setupCode(t,
		reply(text("Let me see.\n```python\nx = add(a=1, b=2)\nprint(x)\n```\nThis is never read.")),
		program("def twice(n): return n * 2\nprint(twice(x))"), reply(text("It is 6.")),
		program("finish({\"x\": twice(x)})"), reply(text("bye")),
	)
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	equal(t, "outcome", b.outcome(id, "t1"), api.TurnOutcome{Type: api.OutcomeAssistantMessage, Text: "It is 6."})
	equal(t, "end of the next", b.run(id, "t2", text("again")).End, events.EndSubmitted)
	equal(t, "outcome of the next", b.outcome(id, "t2"), api.TurnOutcome{Type: api.OutcomeSubmittedValue, Value: `{"x":6}`})
	b.run(id, "t3", text("and"))
	equal(t, "calls", c.of("add"), 1)
	asked := b.model.asked()[4]
	equal(t, "tools in the request", len(asked.Tools), 0)
	lines := b.model.prompt(4)
	for _, want := range []string{"## Programs", "add(a: int, b: int = None)\n    Adds numbers.", "\nonce()"} {
		equal(t, "system has "+want, strings.Contains(lines[0], want), true)
	}
	equalLists(t, "prompt", lines[1:], []string{
		"user go", "assistant Let me see.\n\n```python\nx = add(a=1, b=2)\nprint(x)\n```", "user [output]\n3\n",
		"assistant ```starlark\ndef twice(n): return n * 2\nprint(twice(x))\n```", "user [output]\n6\n", "assistant It is 6.",
		"user again", "assistant ```starlark\nfinish({\"x\": twice(x)})\n```", "user [output]\n{\"x\":6}", "user and",
	})
	calls := find[*events.ToolNestedReturned](b, id)
	equal(t, "nested results", len(calls), 1)
	equal(t, "nested effect", calls[0].Effect, "t1/0/0/0")
}

func TestCodeGather(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("print(gather([call(meet, n=1), call(meet, n=2), call(\"broken\")], attempt=True))"), reply(text("ok")))
	b.codeTools()
	var both sync.WaitGroup
	both.Add(2)
	plugin.AddTool(b.tools, plugin.Tool{Name: "meet"}, func(_ context.Context, _ plugin.Call, in struct {
		N int `json:"n"`
	},
	) (int, error) {
		both.Done()
		both.Wait() // for each other: they run at the same time or never end
		return in.N * 10, nil
	})
	b.codeNode(b.bus)
	id := b.open(inCode())
	b.run(id, "t1", text("go"))
	equalLists(t, "output", b.outputs(id), []string{"[result(ok=True, value=10), result(ok=True, value=20), result(ok=False, error=\"out of paper 1\")]\n"})
}

func TestCodeFinishSchema(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, reply(text("All done.")), program(`finish({"n": "one"})`), program(`finish({"n": 1})`))
	_, err := b.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{
		Parts:   []events.Part{text("go")},
		Options: []byte(`{"termination":"finish_required","finish_schema":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}`),
	}})
	must(t, "submit", err, nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndSubmitted)
	equal(t, "value", b.outcome(id, "t1").Value, `{"n":1}`)
	outputs := b.outputs(id)
	equal(t, "complaint", strings.Contains(outputs[0], "not what was asked for"), true)
	correction := b.model.prompt(1)
	equal(t, "correction", strings.Contains(correction[len(correction)-1], "no code block"), true)
	equal(t, "schema in the prompt", strings.Contains(correction[0], "must fit this JSON schema"), true)
}

// TestCodeFinishSchemaBomb asks for values by schemas that would never end. The
// turn is refused, or ends, before a model is asked, and the node goes on.
func TestCodeFinishSchemaBomb(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program(`finish({"n": 1})`))
	for i, bomb := range []string{
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#"}}}`,
		`{"anyOf":[{"properties":{"n":{"$ref":"#"}}},{"properties":{"n":{"$ref":"#"}}}]}`,
	} {
		name := events.TurnID(fmt.Sprintf("bomb%d", i))
		_, err := b.Submit(b.ctx, id, api.TurnRequest{ID: name, Input: events.TurnInput{
			Parts: []events.Part{text("go")}, Options: []byte(`{"termination":"finish_required","finish_schema":` + bomb + `}`),
		}})
		if err == nil {
			got := b.ended(id, name)
			equal(t, bomb, got.End, events.EndInvalidInput)
			equal(t, "the reason names the field", strings.Contains(got.Issue.Message, "finish_schema"), true)
		}
	}
	equal(t, "model calls", len(find[*events.ModelReplied](b, id)), 0)
	_, err := b.Submit(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{
		Parts: []events.Part{text("go")}, Options: []byte(`{"termination":"finish_required","finish_schema":{"type":"object"}}`),
	}})
	must(t, "submit", err, nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndSubmitted)
}

func TestCodeFinishRequired(t *testing.T) {
	t.Parallel()
	req := inCode()
	req.Config.MaxIterations = 3
	req.Options = map[string]string{"code": `{"termination":"finish_required"}`}
	b, _, _ := setupCode(t, reply(text("one")), reply(text("```starlark\nprint(1)\n")), reply(text("three")))
	id := b.open(req)
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndMaxTurns)
	last := b.model.prompt(2)
	equal(t, "an open block", strings.Contains(last[len(last)-1], "is not closed"), true)
	equal(t, "options", string(b.state(id).Frame().Options), `{"termination":"finish_required"}`)
}

func TestCodeHostile(t *testing.T) {
	t.Parallel()
	b, id, _ := setupCode(t, program("while True:\n    pass"), program("for i in range(100000):\n    print(\"spam\" * 20)"),
		program("s = \"a\"\nwhile True:\n    s += s"), program("def f(n): return f(n)\nf(1)"), program("nothing(here"), program("fail(\"mine\")"),
		reply(text("enough")))
	equal(t, "end", b.run(id, "t1", text("go")).End, events.EndFinished)
	for i, want := range []string{"did too much work", "bytes cut", "too much memory", "recursion is off", "want ')'", "mine"} {
		if got := b.outputs(id)[i]; !strings.Contains(got, want) || len(got) > 20<<10 {
			t.Errorf("output %d: got %d bytes, %.200q, want %q in it", i, len(got), got, want)
		}
	}
	equal(t, "outcome", find[*events.ToolReturned](b, id)[0].Results[0].Outcome, events.OutcomeFailure)
}

// TestCodeNodeKilled kills a node between two calls of a program, of which the
// first must not run twice. Another node runs the program again.
func TestCodeNodeKilled(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := setupIdle(t, program("kept = [40]"), reply(text("ok")),
		program("a = once()\nf = attempt(broken)\nb = wait_here()\nprint(a, b, f.error, kept[0] + 2)"), reply(text("done")),
		program("print(kept, a)"), reply(text("over")))
	c := b.codeTools()
	plugin.AddTool(b.tools, plugin.Tool{Name: "wait_here", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		if c.count("wait_here") == 1 {
			close(hold)
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "here", nil
	})
	kill := b.codeNode(bustest.Open(t, b.server))
	id := b.open(inCode())
	b.run(id, "t1", text("go"))
	b.submit(id, "t2", text("go on"))
	receive(b, "hold", hold)
	kill()
	b.codeNode(b.bus)
	equal(t, "end", b.ended(id, "t2").End, events.EndFinished)
	b.run(id, "t3", text("and"))
	equalLists(t, "output", b.outputs(id), []string{"(no output)", "once-1 here out of paper 1 42\n", "[40] once-1\n"})
	equal(t, "calls that must not run twice", c.of("once"), 1)
	equal(t, "calls that failed", c.of("broken"), 1)
	equal(t, "attempts", b.ended(id, "t2").Attempts, 2)
}

func TestCodeLost(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	b := setupIdle(t, program("r = attempt(hang)\nprint(r.ok, r.error)\nprint(once())"), reply(text("done")))
	c := b.codeTools()
	plugin.AddTool(b.tools, plugin.Tool{Name: "hang"}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		c.count("hang")
		close(hold)
		<-ctx.Done()
		return "", ctx.Err()
	})
	kill := b.codeNode(bustest.Open(t, b.server))
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	receive(b, "hold", hold)
	kill()
	b.codeNode(b.bus)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "output", b.outputs(id), []string{"False " + projector.LostText + "\nonce-1\n"})
	equal(t, "calls", c.of("hang"), 1)
}

func TestCodeMessages(t *testing.T) {
	t.Parallel()
	b, _, _ := setupCode(t, program("message(\"looking\")\nmessage(\"found\", kind=\"progress\")\nmessage(\"code\", kind=\"lashlang_code\")\nseen()"), reply(text("done")))
	seen := make(chan struct{})
	plugin.AddTool(b.tools, plugin.Tool{Name: "seen", Effects: events.EffectsNone}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
		select {
		case <-seen:
		case <-ctx.Done():
		}
		return "", ctx.Err()
	})
	id := b.open(inCode())
	var said []string
	b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventMessage {
			if said = append(said, e.Kind+":"+e.Text); len(said) == 2 {
				close(seen)
			}
		}
	})
	equalLists(t, "messages", said, []string{"message:looking", "progress:found"})
}

// TestCodeApproval has a call inside a program wait for somebody's word.
func TestCodeApproval(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, program("print(add(a=1), once(), add(a=2))"), reply(text("done")))
	c := b.codeTools()
	ask := plugin.Func("ask", func(r *plugin.Registrar) error {
		r.BeforeToolCall(func(_ context.Context, in plugin.ToolContext) ([]plugin.Directive, error) {
			if in.Tool == "once" {
				return []plugin.Directive{plugin.Ask("really?")}, nil
			}
			return nil, nil
		})
		return r.Tools(b.tools)
	})
	b.node(append(workers.Builtins()[1:], ask)...)
	id := b.open(inCode())
	b.submit(id, "t1", text("go"))
	asked := b.await(id, "question", hasAsk)
	equal(t, "calls before the answer", c.of("once"), 0)
	effect := asked.Turn().Asks[0].Effect
	equal(t, "effect", effect, "t1/0/0/1")
	must(t, "approve", b.Approve(b.ctx, id, events.ToolApprovalGiven{Effect: effect, Granted: true}), nil)
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	equalLists(t, "output", b.outputs(id), []string{"1 once-1 2\n"})
	equal(t, "calls", c.of("once"), 1)
	equal(t, "calls that were answered before", c.of("add"), 2)
}
