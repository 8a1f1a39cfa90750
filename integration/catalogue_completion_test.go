package integration

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func completionEntries() []entry {
	return []entry{
		{"D01", "an idle session", "a direct completion for a title", "its text; a ledger row (title, model); no node, no turn", testComplete},
		{"D02", "a direct completion in a turn", "its process is killed after it, or during it", "charged once", testCompleteAgain},
		{"D03", "a completion that used nothing", "asked", "no ledger row", testCompleteFree},
		{"D04", "a ledger, and one with a smaller counter", "diff", "an error", testLedgerShrinks},
		{"D05", "a turn of several calls, taken over once", "watched", "cumulative usage never falls", testCumulative},
	}
}

// row is a ledger's entry with only input and output.
func row(source, model string, input, output int64) projector.LedgerEntry {
	return projector.LedgerEntry{Source: source, Model: model, Usage: events.Usage{Input: input, Output: output}}
}

func asks(s string) plugin.CompletionRequest {
	return plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, s)}}
}

func testComplete(t *testing.T) {
	b := setupIdle(t, reply(text("A talk")), reply(text("Another")), fails(llm.KindAuth, "no_key"))
	hooked := 0
	b.node(declares("counter", func(r *plugin.Registrar) {
		r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			hooked++
			return got, nil, nil
		})
		simple(r, "noop")
	}))
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.say(id, "A")
	host := b.Services(id, nil, "")
	got, err := host.Complete(b.ctx, asks("a title?"), "title")
	must(t, "complete", err, nil)
	equal(t, "text", got.Text, "A talk")
	equal(t, "usage", got.Usage, events.Usage{Input: 10, Output: 5})
	_, err = host.Complete(b.ctx, asks("another?"), "title")
	must(t, "complete", err, nil)
	equalLists(t, "prompt", b.model.prompt(0), []string{"user a title?"})
	equal(t, "tools offered", len(b.model.asked()[0].Tools), 0)
	equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("title", "small", 20, 10)})
	_, err = host.Complete(b.ctx, asks("a third?"), "title")
	if err == nil {
		t.Error("a provider that fails: got nil, want an error")
	}
	equalLists(t, "ledger after a failure", b.state(id).Ledger, []projector.LedgerEntry{row("title", "small", 20, 10)})
	equalLists(t, "messages", b.messages(id), []string{"user A"})
	equal(t, "turns", b.state(id).Turns, 0)
	equal(t, "response hooks asked", hooked, 0)
	for _, e := range b.history(id) {
		equal(t, "turn of "+string(e.Kind), e.Turn, "")
	}
}

// testCompleteAgain has a tool that asks for a title and then waits, or waits for the title itself.
// titles has a tool that asks for a completion, and reports before and after.
func titles(report reporter) plugin.Factory {
	return declares("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "titled", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			if err := report(ctx, "before"); err != nil {
				return "", err
			}
			got, err := c.Host.Complete(ctx, asks("a title?"), "title")
			if err == nil {
				err = report(ctx, "after")
			}
			return got.Text, err
		})
	})
}

func testCompleteAgain(t *testing.T) {
	for name, during := range map[string]bool{"after": false, "during": true} {
		begun := make(chan struct{})
		title := []step{reply(text("A talk"))}
		if during {
			title = []step{hangs(begun), reply(text("A talk"))}
		}
		b := setupListening(t, append(append([]step{reply(call("k", "titled", "{}"))}, title...), reply(text("done")))...)
		var runs atomic.Int64
		report := func(ctx context.Context, what string) error {
			if what == "before" {
				runs.Add(1)
			} else if !during && runs.Load() == 1 {
				close(begun)
				<-ctx.Done()
			}
			return ctx.Err()
		}
		kill := b.process("titles", report)
		id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
		b.submit(id, "t1", text("go"))
		receive(b, "begun", begun)
		kill()
		b.node(titles(report))
		equal(t, name+": end", b.ended(id, "t1").End, events.EndFinished)
		equal(t, name+": tool runs", runs.Load(), 2)
		equal(t, name+": result", b.result(id, "k"), "A talk")
		equal(t, name+": model calls", len(b.model.asked()), 2+len(title))
		equal(t, name+": completions recorded", len(find[*events.ModelCompleted](b, id)), 1)
		equalLists(t, name+": ledger", b.state(id).Ledger, []projector.LedgerEntry{row("title", "small", 10, 5), row("turn", "small", 20, 10)})
		equal(t, name+": usage of the turn", b.ended(id, "t1").Usage, events.Usage{Input: 20, Output: 10})
	}
}

func testCompleteFree(t *testing.T) {
	free := stopped(events.StopEnd, events.Usage{}, text("free"))
	b := setupIdle(t, free, reply(call("k", "titled", "{}")), free, reply(text("done")))
	b.node(declares("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "titled"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			got, err := c.Host.Complete(ctx, asks("a title?"), "title")
			return got.Text, err
		})
	}))
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	before := b.last(id)
	got, err := b.Services(id, nil, "").Complete(b.ctx, asks("a title?"), "title")
	must(t, "complete", err, nil)
	equal(t, "text", got.Text, "free")
	equal(t, "last sequence", b.last(id), before)
	b.run(id, "t1", text("go"))
	equal(t, "result in a turn", b.result(id, "k"), "free")
	equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("turn", "small", 20, 10)})
}

func testLedgerShrinks(t *testing.T) {
	b := setup(t, reply(text("hi")), reply(text("on")))
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.run(id, "t1", text("hello"))
	one := b.state(id).Ledger
	b.run(id, "t2", text("go on"))
	two := b.state(id).Ledger
	got, err := projector.UsageSince(one, two)
	must(t, "diff", err, nil)
	equalLists(t, "gained", got, []projector.LedgerEntry{row("turn", "small", 10, 5)})
	for name, after := range map[string][]projector.LedgerEntry{"earlier": one, "missing": nil, "other model": {row("turn", "large", 99, 99)}} {
		if got, err := projector.UsageSince(two, after); err == nil {
			t.Errorf("diff with a ledger that is %s: got %v, want an error", name, got)
		}
	}
	for name, less := range map[string]events.Usage{
		"input": {Input: 9, Output: 5}, "output": {Input: 10, Output: 4}, "cache reads": {Input: 10, Output: 5, CacheRead: -1},
		"cache writes": {Input: 10, Output: 5, CacheWrite: -1}, "reasoning": {Input: 10, Output: 5, Reasoning: -1},
	} {
		if got, err := projector.UsageSince(one, []projector.LedgerEntry{{Source: "turn", Model: "small", Usage: less}}); err == nil {
			t.Errorf("diff with less %s: got %v, want an error", name, got)
		}
	}
}

func testCumulative(t *testing.T) {
	begun := make(chan struct{})
	used := func(input, output int64, parts ...events.Part) step {
		return stopped(events.StopEnd, events.Usage{Input: input, Output: output}, parts...)
	}
	b := setupIdle(t, used(10, 0, call("k", "add", `{"A":1,"B":2}`)), fails(llm.KindServer, ""), used(0, 3, call("k", "add", `{"A":1,"B":2}`)),
		hangs(begun), used(5, 1, text("done")))
	adder(b, events.EffectsNone)
	kill := b.work(bustest.Open(t, b.server))
	id := b.open(api.CreateRequest{})
	var got []api.TokenUsage
	seen := 0
	b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type != api.EventTokenUsage {
			return
		}
		got = append(got, *e.Cumulative)
		if seen++; seen == 2 {
			receive(b, "begun", begun)
			kill()
			b.work(b.bus)
		}
	})
	equalLists(t, "cumulative usage", got, []api.TokenUsage{{Input: 10}, {Input: 10, Output: 3}, {Input: 15, Output: 4}})
	equal(t, "usage of the turn", b.ended(id, "t1").Usage, events.Usage{Input: 15, Output: 4})
}

// TestCompletionKeys asks again within one call: under the same key the answer
// is the recorded one, also where both ask at once; every reply is charged.
func TestCompletionKeys(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	beside := first(func() { both.Done(); both.Wait() }, reply(text("beside"))) // answers when two are asked
	b := setupIdle(t, reply(call("k", "asks", "{}")), reply(text("one")), reply(text("two")), beside, beside, reply(text("done")))
	b.node(declares("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "asks"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			said := ""
			ask := func(key, s string) {
				req := asks(s)
				req.Key = key
				got, err := c.Host.Complete(ctx, req, "title")
				must(t, "complete", err, nil)
				said += got.Text + " "
			}
			ask("", "a title?")
			ask("", "a title?")
			ask("x", "a title?")
			req := asks("another title?")
			req.Key = "x"
			_, err := c.Host.Complete(ctx, req, "title")
			must(t, "a key with another request", err, api.ErrDifferent)
			_, err = c.Host.Complete(ctx, req, "")
			must(t, "no source", err, events.ErrInvalid)
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					_, err := c.Host.Complete(ctx, asks("beside?"), "title")
					must(t, "complete beside", err, nil)
				})
			}
			group.Wait()
			return said, nil
		})
	}))
	id := b.open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.run(id, "t1", text("go"))
	equal(t, "said", b.result(id, "k"), "one one two ")
	equalLists(t, "ledger", b.state(id).Ledger, []projector.LedgerEntry{row("title", "small", 40, 20), row("turn", "small", 20, 10)})
}

// TestCompletionForm asks for a form of reply and for a tool: the provider hears
// of both, and both are part of what was asked.
func TestCompletionForm(t *testing.T) {
	t.Parallel()
	b := setupIdle(t, reply(call("k", "asks", "{}")), reply(text("one")), reply(text("done")))
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}}}`)
	form := plugin.Output{Name: "title", Schema: schema, Strict: true}
	b.node(declares("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "asks"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			ask := func(output plugin.Output, choice plugin.ToolChoice) error {
				req := asks("a title?")
				req.Key, req.Tools, req.Output, req.ToolChoice = "x", []events.ToolEntry{{Name: "look"}}, output, choice
				_, err := c.Host.Complete(ctx, req, "title")
				return err
			}
			must(t, "complete", ask(form, plugin.ToolChoice{Tool: "look"}), nil)
			must(t, "again", ask(form, plugin.ToolChoice{Tool: "look"}), nil)
			must(t, "with another output", ask(plugin.Output{JSON: true}, plugin.ToolChoice{Tool: "look"}), api.ErrDifferent)
			must(t, "with another choice", ask(form, plugin.ToolChoice{}), api.ErrDifferent)
			return "", nil
		})
	}))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	equal(t, "model calls", len(b.model.asked()), 3)
	got := b.model.asked()[1]
	equal(t, "name", got.Output.Name, "title")
	equal(t, "schema", string(got.Output.Schema), string(schema))
	equal(t, "strict", got.Output.Strict, true)
	equal(t, "choice", got.ToolChoice, llm.ToolChoice{Tool: "look"})
	equal(t, "choice in a turn", b.model.asked()[0].ToolChoice, llm.ToolChoice{})
}

// TestCompletionFormRefused asks for what no provider could do: none is asked.
func TestCompletionFormRefused(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	b.node(declares("titles", func(r *plugin.Registrar) { simple(r, "noop") }))
	id := b.open(api.CreateRequest{})
	object := json.RawMessage(`{"type":"object"}`)
	for _, c := range []struct {
		field  string
		output plugin.Output
		choice plugin.ToolChoice
	}{
		{field: "output.name", output: plugin.Output{Name: "title"}},
		{field: "output.name", output: plugin.Output{Schema: object}},
		{field: "output.name", output: plugin.Output{Name: "a title", Schema: object}},
		{field: "output.strict", output: plugin.Output{JSON: true, Strict: true}},
		{field: "output.json", output: plugin.Output{JSON: true, Name: "title", Schema: object}},
		{field: "output.schema", output: plugin.Output{Name: "title", Schema: json.RawMessage(`true`)}},
		{field: "output.schema", output: plugin.Output{Name: "title", Schema: json.RawMessage(`{"type":`)}},
		{field: "output.schema", output: plugin.Output{Name: "title", Schema: json.RawMessage(`{"type":7}`)}},
		{field: "output.schema", output: plugin.Output{Name: "title", Schema: json.RawMessage(`{"$ref":"#/$defs/none"}`)}},
		{field: "tool_choice", choice: plugin.ToolChoice{None: true, Required: true}},
		{field: "tool_choice", choice: plugin.ToolChoice{None: true, Tool: "look"}},
		{field: "tool_choice", choice: plugin.ToolChoice{Required: true, Tool: "look"}},
		{field: "tool_choice.tool", choice: plugin.ToolChoice{Tool: "other"}},
	} {
		req := asks("a title?")
		req.Tools, req.Output, req.ToolChoice = []events.ToolEntry{{Name: "look"}}, c.output, c.choice
		refused(t, b, id, req, c.field)
	}
	req := asks("a title?")
	req.ToolChoice.Required = true
	refused(t, b, id, req, "tool_choice.required")
	equal(t, "model calls", len(b.model.asked()), 0)
}

func refused(t *testing.T, b *bundle, id events.SessionID, req plugin.CompletionRequest, field string) {
	t.Helper()
	_, err := b.Services(id, nil, "").Complete(b.ctx, req, "title")
	if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != field {
		t.Errorf("%+v and %+v: got %v, want field %s refused", req.Output, req.ToolChoice, err, field)
	}
}
