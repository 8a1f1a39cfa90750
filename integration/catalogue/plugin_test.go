package catalogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func pluginEntries() []entry {
	return append(toolHookEntries(), []entry{
		{"P01", "missing slot is a registration error", "no plugin with a driver, or none with a protocol session", "build", "a registration error", testSlotsMissing},
		{"P02", "slot with two plugins is an error", "two result projectors", "build", "an error that names both plugins", testSlotTwice},
		{"P03", "failed hook undoes the hooks before it", "hooks A, B and C before a turn, B fails", "turn", "nothing of A applied, C not asked, the turn aborted", testHookFails},
		{"P04", "last abort decides", "A aborts with x; B aborts with y and creates a session", "turn", "aborted with y; the session created", testLastAbort},
		{"P05", "tool directive before a turn is refused", "a directive of tools before a turn", "turn", "plugin_prepare_turn, nothing of the list carried out", testToolDirective},
		{"P06", "abort after a turn fails it", "an abort after a turn", "turn", "plugin_finalize_turn", testLateAbort},
		{"P13", "contributions are sorted without duplicates", "contributions (B,5), (A,9), (A,1) and the last again with spaces", "collect", "A1, A9, B5", testContributions},
		{"P14", "contribution needs its tool", "contributions gated on tools", "prompt", "only those whose tool is offered far enough", testGates},
		{"P15", "transforms run by priority", "transforms of priority 1 and 100", "turn", "100 first, 1 on what that gave", testTransforms},
		{"P16", "stream hooks are chained", "stream hooks: upper case, then a suffix", "reply", "chained; the session's text is the final one", testStreamHooks},
	}...)
}

// beforeTurn is a plugin whose hook before a turn returns these directives.
func beforeTurn(id string, list ...plugin.Directive) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return list, nil })
	})
}

// refusedStack fails the test unless building these plugins, and a turn with them, fails with these words.
func refusedStack(t *testing.T, words []string, plugins ...plugin.Factory) {
	t.Helper()
	mentions := func(what, text string) {
		for _, name := range words {
			if !strings.Contains(text, name) {
				t.Errorf("%s: got %q, want %q in it", what, text, name)
			}
		}
	}
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: plugins})
	runtest.WantError(t, "host", err, nil)
	for range 2 { // a refused session is not live
		_, err = builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s"}, nil)
		runtest.WantError(t, "build", err, plugin.ErrRegistration)
		mentions("build", fmt.Sprint(err))
	}
	b := harness.StartIdle(t)
	b.StartNodeWith(workers.Config{Patience: time.Millisecond}, plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: plugins}) // the host has no plugins, so the node is the first to find out
	id := b.Open(api.CreateRequest{})
	issue := b.FailedTurn(id, "t1")
	runtest.Equal(t, "code", issue.Code, "plugin_build")
	mentions("turn", issue.Message)
	b.WantNoEffects(id)
}

func testSlotsMissing(t *testing.T) {
	refusedStack(t, []string{"registers a protocol of this name"}, harness.PluginOf(standard.ID, func(r *plugin.Registrar) { r.Driver(harness.Protocol{}) }))
	refusedStack(t, []string{"drives turns of this protocol"}, harness.PluginOf(standard.ID, func(r *plugin.Registrar) { r.Protocol(harness.Protocol{}) }))
}

func testSlotTwice(t *testing.T) {
	project := func(r *plugin.Registrar) {
		r.ProjectToolResult(func(context.Context, plugin.ToolResultContext) (plugin.View, error) { return plugin.View{}, nil })
	}
	refusedStack(t, []string{"result projector", "one", "two"}, harness.PluginOf("one", project), harness.PluginOf("two", project))
}

func testHookFails(t *testing.T) {
	var calls []string
	hook := func(id string, list []plugin.Directive, err error) plugin.Factory {
		return harness.PluginOf(id, func(r *plugin.Registrar) {
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
				calls = append(calls, id)
				return list, err
			})
		})
	}
	b := harness.StartIdle(t)
	b.StartNode(hook("A", []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "no")), harness.CreateChild("kid")}, nil), hook("B", nil, harness.ErrPlugin), hook("C", nil, nil))
	id := b.Open(api.CreateRequest{})
	issue := b.FailedTurn(id, "t1")
	runtest.Equal(t, "code", issue.Code, "plugin_prepare_turn")
	runtest.EqualLists(t, "calls", calls, []string{"A", "B"})
	b.WantNoEffects(id)
	b.WantNoSession("kid")
	ran := b.HookRecord(id, events.PointBeforeTurn)
	runtest.Equal(t, "failed", ran.Failed, "B")
	runtest.Equal(t, "why", strings.Contains(ran.Issue.Message, harness.ErrPlugin.Error()), true)
	runtest.Equal(t, "decisions", len(ran.Decisions), 0)
}

func testLastAbort(t *testing.T) {
	b := harness.StartIdle(t)
	b.StartNode(beforeTurn("A", plugin.Abort("x", "first"), plugin.Enqueue(plugin.Say(events.RoleUser, "more"))), beforeTurn("B", plugin.Abort("y", "second"), harness.CreateChild("kid"), plugin.Trace("late", nil)))
	id := b.Open(api.CreateRequest{})
	list := b.TurnEvents(b.Host, id, "t1", nil)
	got := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", got.End, events.EndPluginAbort)
	runtest.Equal(t, "issue", got.Issue, events.Issue{Kind: "plugin", Code: "y", Message: "second"})
	tags, _ := harness.EventNames(list)
	runtest.EqualLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	runtest.Equal(t, "kind of the error", list[0].Envelope.Kind, "plugin")
	runtest.Equal(t, "code of the error", list[0].Envelope.Code, "y")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)
	runtest.Equal(t, "parent of what was created", b.StateOf("kid").Parent, id)
	var kinds []events.DirectiveKind
	for _, d := range b.HookRecord(id, events.PointBeforeTurn).Decisions {
		kinds = append(kinds, d.Kind)
	}
	runtest.EqualLists(t, "carried out", kinds, []events.DirectiveKind{
		events.DirectiveAbort, events.DirectiveEnqueue, events.DirectiveAbort, events.DirectiveCreate, events.DirectiveEmitTrace,
	})
	runtest.Equal(t, "name of the trace", b.HookRecord(id, events.PointBeforeTurn).Decisions[4].Name, "plugin.B.late")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user hello", "user more"}) // prepared changes stay
	runtest.Equal(t, "what was created is", b.StateOf("kid").Status, projector.StatusOpen)
	runtest.Equal(t, "times that it was created", len(harness.Find[*events.SessionOpened](b, "kid")), 1)

	// The last abort counts, after all hooks were called. The directives behind an abort in one list are carried
	// out.
	b = harness.StartIdle(t, harness.Reply(harness.Text("of the child")))
	b.StartNode(beforeTurn("B", plugin.Abort("y", "second"), harness.CreateChild("kid"), plugin.Abort("z", "third")), beforeTurn("A", plugin.Abort("x", "first")), beforeTurn("C"))
	id = b.Open(api.CreateRequest{})
	b.StartTurn(id, "t1", harness.Text("hello"))
	runtest.Equal(t, "issue of the other order", b.AwaitTurn(id, "t1").Issue, events.Issue{Kind: "plugin", Code: "x", Message: "first"})
	runtest.Equal(t, "parent of what was created in the other order", b.StateOf("kid").Parent, id)
}

func testToolDirective(t *testing.T) {
	for name, d := range map[string]plugin.Directive{
		"replace_tool_args": plugin.ReplaceArgs(json.RawMessage(`{}`)), "short_circuit_tool": plugin.ShortCircuit(plugin.Result{Text: "no"}),
	} {
		b := harness.StartIdle(t)
		b.StartNode(beforeTurn("A", harness.CreateChild("kid")), beforeTurn("B", d))
		id := b.Open(api.CreateRequest{})
		issue := b.FailedTurn(id, "t1")
		runtest.Equal(t, name, issue.Code, "plugin_prepare_turn")
		runtest.Equal(t, "named", strings.Contains(issue.Message, name), true)
		runtest.Equal(t, "failed", b.HookRecord(id, events.PointBeforeTurn).Failed, "B")
		b.WantNoEffects(id)
		b.WantNoSession("kid")
	}
}

func testLateAbort(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	b.StartNode(harness.PluginOf("A", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{harness.CreateChild("kid"), plugin.Abort("x", "too late")}, nil
		})
	}))
	id := b.Open(api.CreateRequest{})
	issue := b.FailedTurn(id, "t1")
	runtest.Equal(t, "code", issue.Code, "plugin_finalize_turn")
	runtest.Equal(t, "failed", b.HookRecord(id, events.PointAfterTurn).Failed, "A")
	b.WantNoSession("kid")
	runtest.EqualLists(t, "messages", b.Messages(id), []string{"user go", "assistant done"}) // committed changes stay
}

// contributesToPrompt is a plugin with these contributions to prompts.
func contributesToPrompt(id string, list ...events.Contribution) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return list, nil })
	})
}

func testContributions(t *testing.T) {
	const a, z = events.SlotEnvironment, events.SlotIntro // "environment" sorts before "intro", which the template has first
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	b.StartNode(
		contributesToPrompt("one", events.Contribution{Slot: z, Priority: 5, Content: "B5"}, events.Contribution{Slot: a, Priority: 9, Content: "A9"}),
		contributesToPrompt("two", events.Contribution{Slot: a, Priority: 1, Content: "A1", Title: "first"}),
		contributesToPrompt("three", events.Contribution{Slot: a, Priority: 1, Content: "  A1\n", Title: "second"}),
	)
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	var got, titles []string
	for _, c := range harness.Find[*events.TurnPrepared](b, id)[0].Contributions {
		got, titles = append(got, c.Content), append(titles, c.Title)
	}
	runtest.EqualLists(t, "contributions", got, []string{"A1", "A9", "B5"})
	runtest.Equal(t, "title", titles[0], "first")
	prompt := b.Model.Prompt(0)[0]
	if at := strings.Index; at(prompt, "B5") < 0 || at(prompt, "B5") > at(prompt, "A1") || at(prompt, "A1") > at(prompt, "A9") || strings.Count(prompt, "A1") != 1 {
		t.Errorf("prompt: got %q, want B5 (the template has its slot first), A1 and A9, each once", prompt)
	}
}

func testGates(t *testing.T) {
	gated := func(name string, minimum events.Override, tools ...string) events.Contribution {
		return events.Contribution{Slot: events.SlotGuidance, Content: "<" + name + ">", Minimum: minimum, Tools: tools}
	}
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
	b.StartNode(
		contributesToPrompt("one", gated("always", ""), gated("missing", "", "nobody"), gated("callable_of_searchable", "callable", "s"),
			gated("searchable_of_searchable", "searchable", "s"), gated("off_of_off", "", "o"), gated("any", "callable", "s", "nobody", "c")),
		plugin.Func("tools", func(r *plugin.Registrar) error {
			return r.Tools(leveled(plugin.Tool{Name: "s", Level: events.AvailSearchable}, plugin.Tool{Name: "o", Level: events.AvailOff}, plugin.Tool{Name: "c", Level: events.AvailCallable}))
		}),
	)
	b.RunTurn(b.Open(api.CreateRequest{}), "t1", harness.Text("go"))
	prompt := b.Model.Prompt(0)[0]
	for name, want := range map[string]bool{
		"always": true, "missing": false, "callable_of_searchable": false, "searchable_of_searchable": true, "off_of_off": true, "any": true,
	} {
		runtest.Equal(t, name, strings.Contains(prompt, "<"+name+">"), want)
	}
}

// marksMessages is a plugin that appends its name to every message, in place.
func marksMessages(id string, priority int, seen *[]string) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.TransformContext(priority, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			for i := range now.Messages {
				*seen = append(*seen, id+" gets "+now.Messages[i].Text())
				now.Messages[i].Parts[0].Text += " " + id
			}
			return now, nil
		})
	})
}

func testTransforms(t *testing.T) {
	var seen []string
	b := harness.StartIdle(t, harness.Reply(harness.Text("done")), harness.Reply(harness.Text("again")))
	b.StartNode(marksMessages("low", 1, &seen), marksMessages("high", 100, &seen))
	id := b.Open(api.CreateRequest{})
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "transforms", seen, []string{"high gets go", "low gets go high"})
	runtest.EqualLists(t, "prompt", b.Model.Prompt(0), []string{"user go high low"})
	prepared := harness.Find[*events.TurnPrepared](b, id)
	if len(prepared) != 1 || len(prepared[0].View) != 1 || prepared[0].View[0].Message.Text() != "go high low" {
		t.Errorf("record: got %+v, want what the model was shown", prepared)
	}
	runtest.EqualLists(t, "graph", b.Messages(id), []string{"user go", "assistant done"}) // untouched
	other := b.OtherHost()
	v, err := other.View(b.Ctx, id)
	runtest.WantError(t, "view", err, nil)
	runtest.EqualLists(t, "graph as another node sees it", harness.Transcript(v.Messages), []string{"user go", "assistant done"})
}

// streamsAs is a plugin that changes each piece of a reply.
func streamsAs(id string, change func(string) string) plugin.Factory {
	return harness.PluginOf(id, func(r *plugin.Registrar) {
		r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
			return plugin.StreamTransform{Chunk: change(chunk)}, nil
		})
	})
}

func testStreamHooks(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("hello there")))
	var chunks atomic.Int64
	b.StartNode(streamsAs("upper", strings.ToUpper), streamsAs("suffix", func(s string) string { chunks.Add(1); return s + "!" }))
	id := b.Open(api.CreateRequest{})
	var shown strings.Builder
	list := b.TurnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTextDelta {
			shown.WriteString(e.Content)
		}
	})
	runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
	got := strings.TrimPrefix(b.Messages(id)[1], "assistant ")
	runtest.Equal(t, "text without suffixes", strings.ReplaceAll(got, "!", ""), "HELLO THERE")
	runtest.Equal(t, "suffixes", int64(strings.Count(got, "!")), chunks.Load())
	runtest.Equal(t, "shown", shown.String(), got)
	runtest.Equal(t, "outcome", list[len(list)-2].TurnOutcome.Text, got)
}
