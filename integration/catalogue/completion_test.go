package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func completionEntries() []entry {
	return []entry{
		{"D01", "direct completion leaves no node and no turn", "an idle session", "a direct completion for a title", "its text; a ledger row (title, model); no node, no turn", testComplete},
		{"D02", "direct completion is charged once", "a direct completion in a turn", "its process is killed after it, or during it", "charged once", testCompleteAgain},
		{"D03", "free completion has no ledger row", "a completion that used nothing", "asked", "no ledger row", testCompleteFree},
		{"D04", "ledger does not shrink", "a ledger, and one with a smaller counter", "diff", "an error", testLedgerShrinks},
		{"D05", "cumulative usage never falls", "a turn of several calls, taken over once", "watched", "cumulative usage never falls", testCumulative},
	}
}

func testComplete(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("A talk")), harness.Reply(harness.Text("Another")), harness.Fail(llm.KindAuth, "no_key"))
	hooked := 0
	b.StartNode(harness.PluginOf("counter", func(r *plugin.Registrar) {
		r.Response(func(_ context.Context, _ events.SessionID, got plugin.Response) (plugin.Response, []json.RawMessage, error) {
			hooked++
			return got, nil, nil
		})
		harness.NamedTools(r, "noop")
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.AppendTexts(id, "A")
	host := b.Worker().RuntimeHost(id, nil, "")
	got, err := host.Complete(b.Ctx, harness.CompletionOf("a title?"), "title")
	runtest.WantError(t, "complete", err, nil)
	runtest.Equal(t, "text", got.Text, "A talk")
	runtest.Equal(t, "usage", got.Usage, events.Usage{Input: 10, Output: 5})
	_, err = host.Complete(b.Ctx, harness.CompletionOf("another?"), "title")
	runtest.WantError(t, "complete", err, nil)
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user a title?"})
	runtest.Equal(t, "tools offered", len(b.Model.Requests()[0].Tools), 0)
	runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "small", 20, 10)})
	_, err = host.Complete(b.Ctx, harness.CompletionOf("a third?"), "title")
	if err == nil {
		t.Error("a provider that fails: got nil, want an error")
	}
	runtest.EqualLists(t, "ledger after a failure", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "small", 20, 10)})
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user A"})
	runtest.Equal(t, "turns", b.StateOf(id).Turns, 0)
	runtest.Equal(t, "response hooks asked", hooked, 0)
	for _, e := range b.History(id) {
		runtest.Equal(t, "turn of "+string(e.Kind), e.Turn, "")
	}
}

// titles has a tool that asks for a completion, and reports before and after.
func titles(report reporter) plugin.Factory {
	return harness.PluginOf("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "titled", Effects: events.EffectsIdempotent}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			if err := report(ctx, "before"); err != nil {
				return "", err
			}
			got, err := c.Host.Complete(ctx, harness.CompletionOf("a title?"), "title")
			if err == nil {
				err = report(ctx, "after")
			}
			return got.Text, err
		})
	})
}

// testCompleteAgain has a tool that asks for a title and then waits, or waits for the title itself.
func testCompleteAgain(t *testing.T) {
	for name, during := range map[string]bool{"after": false, "during": true} {
		started := make(chan struct{})
		title := []harness.Step{harness.Reply(harness.Text("A talk"))}
		if during {
			title = []harness.Step{harness.Hang(started), harness.Reply(harness.Text("A talk"))}
		}
		b := setupListening(t, append(append([]harness.Step{harness.Reply(harness.Call("k", "titled", "{}"))}, title...), harness.Reply(harness.Text("done")))...)
		var runs atomic.Int64
		report := func(ctx context.Context, what string) error {
			if what == "before" {
				runs.Add(1)
			} else if !during && runs.Load() == 1 {
				close(started)
				<-ctx.Done()
			}
			return ctx.Err()
		}
		kill := process(b, "titles", report)
		id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
		b.StartTurn(id, "t1", harness.Text("go"))
		harness.Receive(b, "the start", started)
		kill()
		b.StartNode(titles(report))
		runtest.Equal(t, name+": end", b.AwaitTurn(id, "t1").End, events.EndFinished)
		runtest.Equal(t, name+": tool runs", runs.Load(), 2)
		runtest.Equal(t, name+": result", b.CallResult(id, "k"), "A talk")
		runtest.Equal(t, name+": model calls", len(b.Model.Requests()), 2+len(title))
		runtest.Equal(t, name+": completions recorded", len(harness.Find[*events.ModelCompleted](b, id)), 1)
		runtest.EqualLists(t, name+": ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "small", 10, 5), harness.LedgerRow("turn", "small", 20, 10)})
		runtest.Equal(t, name+": usage of the turn", b.AwaitTurn(id, "t1").Usage, events.Usage{Input: 20, Output: 10})
	}
}

func testCompleteFree(t *testing.T) {
	free := harness.ReplyStopped(events.StopEnd, events.Usage{}, harness.Text("free"))
	b := harness.StartIdle(t, free, harness.Reply(harness.Call("k", "titled", "{}")), free, harness.Reply(harness.Text("done")))
	b.StartNode(harness.PluginOf("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "titled"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			got, err := c.Host.Complete(ctx, harness.CompletionOf("a title?"), "title")
			return got.Text, err
		})
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	before := b.LastSeq(id)
	got, err := b.Worker().RuntimeHost(id, nil, "").Complete(b.Ctx, harness.CompletionOf("a title?"), "title")
	runtest.WantError(t, "complete", err, nil)
	runtest.Equal(t, "text", got.Text, "free")
	runtest.Equal(t, "last sequence", b.LastSeq(id), before)
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "result in a turn", b.CallResult(id, "k"), "free")
	runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("turn", "small", 20, 10)})
}

func testLedgerShrinks(t *testing.T) {
	b := harness.Start(t, harness.Reply(harness.Text("hi")), harness.Reply(harness.Text("on")))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.RunTurn(id, "t1", harness.Text("hello"))
	one := b.StateOf(id).Ledger
	b.RunTurn(id, "t2", harness.Text("go on"))
	two := b.StateOf(id).Ledger
	got, err := projector.UsageSince(one, two)
	runtest.WantError(t, "diff", err, nil)
	runtest.EqualLists(t, "gained", got, []projector.LedgerEntry{harness.LedgerRow("turn", "small", 10, 5)})
	for name, after := range map[string][]projector.LedgerEntry{"earlier": one, "missing": nil, "other model": {harness.LedgerRow("turn", "large", 99, 99)}} {
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
	started := make(chan struct{})
	used := func(input, output int64, parts ...events.Part) harness.Step {
		return harness.ReplyStopped(events.StopEnd, events.Usage{Input: input, Output: output}, parts...)
	}
	b := harness.StartIdle(t, used(10, 0, harness.Call("k", "add", `{"A":1,"B":2}`)), harness.Fail(llm.KindServer, ""), used(0, 3, harness.Call("k", "add", `{"A":1,"B":2}`)),
		harness.Hang(started), used(5, 1, harness.Text("done")))
	harness.AddTool(b, events.EffectsNone)
	kill := b.StartWorker(bustest.Open(t, b.Server))
	id := b.Open(api.CreateRequest{})
	var got []api.TokenUsage
	seen := 0
	b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type != api.EventTokenUsage {
			return
		}
		got = append(got, *e.Cumulative)
		if seen++; seen == 2 {
			harness.Receive(b, "the start", started)
			kill()
			b.StartWorker(b.Bus)
		}
	})
	runtest.EqualLists(t, "cumulative usage", got, []api.TokenUsage{{Input: 10}, {Input: 10, Output: 3}, {Input: 15, Output: 4}})
	runtest.Equal(t, "usage of the turn", b.AwaitTurn(id, "t1").Usage, events.Usage{Input: 15, Output: 4})
}

// TestCompletionKeys repeats a completion within one call. Under the same key the response is the recorded one,
// also for two requests at once; every model reply is charged.
func TestCompletionKeys(t *testing.T) {
	t.Parallel()
	var both sync.WaitGroup
	both.Add(2)
	together := harness.DoFirst(func() { both.Done(); both.Wait() }, harness.Reply(harness.Text("beside"))) // replies when two requests wait
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "asks", "{}")), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), together, together, harness.Reply(harness.Text("done")))
	b.StartNode(harness.PluginOf("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "asks"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			text := ""
			complete := func(key, s string) {
				req := harness.CompletionOf(s)
				req.Key = key
				got, err := c.Host.Complete(ctx, req, "title")
				runtest.WantError(t, "complete", err, nil)
				text += got.Text + " "
			}
			complete("", "a title?")
			complete("", "a title?")
			complete("x", "a title?")
			req := harness.CompletionOf("another title?")
			req.Key = "x"
			_, err := c.Host.Complete(ctx, req, "title")
			runtest.WantError(t, "a key with another request", err, api.ErrDifferent)
			_, err = c.Host.Complete(ctx, req, "")
			runtest.WantError(t, "no source", err, events.ErrInvalid)
			var group sync.WaitGroup
			for range 2 {
				group.Go(func() {
					_, err := c.Host.Complete(ctx, harness.CompletionOf("beside?"), "title")
					runtest.WantError(t, "complete beside", err, nil)
				})
			}
			group.Wait()
			return text, nil
		})
	}))
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "small"}})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "text", b.CallResult(id, "k"), "one one two ")
	runtest.EqualLists(t, "ledger", b.StateOf(id).Ledger, []projector.LedgerEntry{harness.LedgerRow("title", "small", 40, 20), harness.LedgerRow("turn", "small", 20, 10)})
}

// TestCompletionForm requests a form of reply and a tool: the provider receives both, and both are part of the
// recorded request.
func TestCompletionForm(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t, harness.Reply(harness.Call("k", "asks", "{}")), harness.Reply(harness.Text("one")), harness.Reply(harness.Text("done")))
	schema := json.RawMessage(`{"type":"object","properties":{"title":{"type":"string"}}}`)
	form := plugin.Output{Name: "title", Schema: schema, Strict: true}
	b.StartNode(harness.PluginOf("titles", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "asks"}, func(ctx context.Context, c plugin.Call, _ struct{}) (string, error) {
			complete := func(output plugin.Output, choice plugin.ToolChoice) error {
				req := harness.CompletionOf("a title?")
				req.Key, req.Tools, req.Output, req.ToolChoice = "x", []plugin.CompletionTool{{Name: "look"}}, output, choice
				_, err := c.Host.Complete(ctx, req, "title")
				return err
			}
			runtest.WantError(t, "complete", complete(form, plugin.ToolChoice{Tool: "look"}), nil)
			runtest.WantError(t, "again", complete(form, plugin.ToolChoice{Tool: "look"}), nil)
			runtest.WantError(t, "with another output", complete(plugin.Output{JSON: true}, plugin.ToolChoice{Tool: "look"}), api.ErrDifferent)
			runtest.WantError(t, "with another choice", complete(form, plugin.ToolChoice{}), api.ErrDifferent)
			return "", nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 3)
	got := b.Model.Requests()[1]
	runtest.Equal(t, "name", got.Output.Name, "title")
	runtest.Equal(t, "schema", string(got.Output.Schema), string(schema))
	runtest.Equal(t, "strict", got.Output.Strict, true)
	runtest.Equal(t, "choice", got.ToolChoice, llm.ToolChoice{Tool: "look"})
	runtest.Equal(t, "choice in a turn", b.Model.Requests()[0].ToolChoice, llm.ToolChoice{})
}

// TestCompletionFormRefused requests a form that no provider supports: no provider is called.
func TestCompletionFormRefused(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	b.StartNode(harness.PluginOf("titles", func(r *plugin.Registrar) { harness.NamedTools(r, "noop") }))
	id := b.Open(api.CreateRequest{})
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
		req := harness.CompletionOf("a title?")
		req.Tools, req.Output, req.ToolChoice = []plugin.CompletionTool{{Name: "look"}}, c.output, c.choice
		refused(t, b, id, req, c.field)
	}
	req := harness.CompletionOf("a title?")
	req.ToolChoice.Required = true
	refused(t, b, id, req, "tool_choice.required")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
}

func refused(t *testing.T, b *harness.System, id events.SessionID, req plugin.CompletionRequest, field string) {
	t.Helper()
	_, err := b.Worker().RuntimeHost(id, nil, "").Complete(b.Ctx, req, "title")
	if e, ok := errors.AsType[*events.FieldError](err); !ok || e.Field != field {
		t.Errorf("%+v and %+v: got %v, want field %s refused", req.Output, req.ToolChoice, err, field)
	}
}
