package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

func pluginEntries() []entry {
	return append(toolHookEntries(), []entry{
		{"P01", "no plugin with a driver, or none with a protocol session", "build", "a registration error", testSlotsMissing},
		{"P02", "two result projectors", "build", "an error that names both plugins", testSlotTwice},
		{"P03", "hooks A, B and C before a turn, B fails", "turn", "nothing of A applied, C not asked, the turn aborted", testHookFails},
		{"P04", "A aborts with x; B aborts with y and creates a session", "turn", "aborted with y; the session created", testLastAbort},
		{"P05", "a directive of tools before a turn", "turn", "plugin_prepare_turn, nothing of the list carried out", testToolDirective},
		{"P06", "an abort after a turn", "turn", "plugin_finalize_turn", testLateAbort},
		{"P13", "contributions (B,5), (A,9), (A,1) and the last again with spaces", "collect", "A1, A9, B5", testContributions},
		{"P14", "contributions gated on tools", "prompt", "only those whose tool is offered far enough", testGates},
		{"P15", "transforms of priority 1 and 100", "turn", "100 first, 1 on what that gave", testTransforms},
		{"P16", "stream hooks: upper case, then a suffix", "reply", "chained; the session's text is the final one", testStreamHooks},
	}...)
}

// asksBefore is a plugin whose hook before a turn asks for this.
func asksBefore(id string, list ...plugin.Directive) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) { return list, nil })
	})
}

// childSession asks for a child session of that id.
func childSession(id events.SessionID) plugin.Directive {
	return plugin.CreateSession(api.CreateRequest{ID: id, Relation: events.RelationChild})
}

// noSession fails the test where a session exists.
func (b *bundle) noSession(id events.SessionID) {
	b.t.Helper()
	_, err := b.State(b.ctx, id)
	must(b.t, "session "+string(id), err, events.ErrNoSession)
}

// hooksRan is the record of the hooks of a point.
func (b *bundle) hooksRan(id events.SessionID, point events.HookPoint) events.HookRan {
	b.t.Helper()
	for _, p := range find[*events.HookRan](b, id) {
		if p.Point == point {
			return *p
		}
	}
	b.t.Fatalf("hooks of %s: got no record of them", point)
	return events.HookRan{}
}

// failedTurn runs a turn that must fail, and gives its issue.
func (b *bundle) failedTurn(id events.SessionID, turn events.TurnID) events.Issue {
	b.t.Helper()
	_, err := b.Run(b.ctx, id, api.TurnRequest{ID: turn, Input: events.TurnInput{Parts: []events.Part{text("go")}}})
	var failed *api.TurnFailedError
	if !errors.As(err, &failed) {
		b.t.Fatalf("turn %s: got %v, want it to have failed", turn, err)
	}
	equal(b.t, "end", b.ended(id, turn).End, events.EndFailed)
	return failed.Issue
}

// nothingCounts fails the test unless a turn left nothing behind but its record.
func (b *bundle) nothingCounts(id events.SessionID) {
	b.t.Helper()
	equalLists(b.t, "messages", b.messages(id), []string{})
	equal(b.t, "model calls", len(b.model.asked()), 0)
}

// refusedStack fails the test unless plugins cannot be built, for a reason that has these words, nor run a turn.
func refusedStack(t *testing.T, words []string, plugins ...plugin.Factory) {
	t.Helper()
	mentions := func(what, said string) {
		for _, word := range words {
			if !strings.Contains(said, word) {
				t.Errorf("%s: got %q, want %q in it", what, said, word)
			}
		}
	}
	h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: plugins})
	must(t, "host", err, nil)
	for range 2 { // what was refused is not live
		_, err = h.BuildSession(t.Context(), plugin.BuildContext{Session: "s"}, nil)
		must(t, "build", err, plugin.ErrRegistration)
		mentions("build", fmt.Sprint(err))
	}
	b := setupIdle(t)
	b.nodeOn(b.bus, plugins...) // the host has no plugins, so the node is the first to find out
	id := b.open(api.CreateRequest{})
	issue := b.failedTurn(id, "t1")
	equal(t, "code", issue.Code, "plugin_build")
	mentions("turn", issue.Message)
	b.nothingCounts(id)
}

func testSlotsMissing(t *testing.T) {
	refusedStack(t, []string{"registers a protocol of this name"}, declares(standard.ID, func(r *plugin.Registrar) { r.Driver(protocol{}) }))
	refusedStack(t, []string{"drives turns of this protocol"}, declares(standard.ID, func(r *plugin.Registrar) { r.Protocol(protocol{}) }))
}

func testSlotTwice(t *testing.T) {
	project := func(r *plugin.Registrar) {
		r.ProjectToolResult(func(context.Context, plugin.ToolResultContext) (string, []events.Part, error) { return "", nil, nil })
	}
	refusedStack(t, []string{"result projector", "one", "two"}, declares("one", project), declares("two", project))
}

func testHookFails(t *testing.T) {
	var asked []string
	hook := func(id string, list []plugin.Directive, err error) plugin.Factory {
		return declares(id, func(r *plugin.Registrar) {
			r.BeforeTurn(func(context.Context, plugin.TurnContext) ([]plugin.Directive, error) {
				asked = append(asked, id)
				return list, err
			})
		})
	}
	b := setupIdle(t)
	b.node(hook("A", []plugin.Directive{plugin.Enqueue(plugin.Say(events.RoleUser, "no")), childSession("kid")}, nil), hook("B", nil, errRefusal), hook("C", nil, nil))
	id := b.open(api.CreateRequest{})
	issue := b.failedTurn(id, "t1")
	equal(t, "code", issue.Code, "plugin_prepare_turn")
	equalLists(t, "asked", asked, []string{"A", "B"})
	b.nothingCounts(id)
	b.noSession("kid")
	ran := b.hooksRan(id, events.PointBeforeTurn)
	equal(t, "failed", ran.Failed, "B")
	equal(t, "why", strings.Contains(ran.Issue.Message, errRefusal.Error()), true)
	equal(t, "decisions", len(ran.Decisions), 0)
}

func testLastAbort(t *testing.T) {
	b := setupIdle(t)
	b.node(asksBefore("A", plugin.Abort("x", "first"), plugin.Enqueue(plugin.Say(events.RoleUser, "more"))), asksBefore("B", plugin.Abort("y", "second"), childSession("kid"), plugin.Trace("late", nil)))
	id := b.open(api.CreateRequest{})
	list := b.turnEvents(b.Host, id, "t1", nil)
	got := b.ended(id, "t1")
	equal(t, "end", got.End, events.EndPluginAbort)
	equal(t, "issue", got.Issue, events.Issue{Kind: "plugin", Code: "y", Message: "second"})
	tags, _ := names(list)
	equalLists(t, "events", tags, []string{"error", "turn_outcome", "done"})
	equal(t, "kind of the error", list[0].Envelope.Kind, "plugin")
	equal(t, "code of the error", list[0].Envelope.Code, "y")
	equal(t, "model calls", len(b.model.asked()), 0)
	equal(t, "parent of what was created", b.state("kid").Parent, id)
	var kinds []events.DirectiveKind
	for _, d := range b.hooksRan(id, events.PointBeforeTurn).Decisions {
		kinds = append(kinds, d.Kind)
	}
	equalLists(t, "carried out", kinds, []events.DirectiveKind{
		events.DirectiveAbort, events.DirectiveEnqueue, events.DirectiveAbort, events.DirectiveCreate, events.DirectiveEmitTrace,
	})
	equal(t, "name of the trace", b.hooksRan(id, events.PointBeforeTurn).Decisions[4].Name, "plugin.B.late")
	equalLists(t, "messages", b.messages(id), []string{"user hello", "user more"}) // what was prepared stays
	equal(t, "what was created is", b.state("kid").Status, projector.StatusOpen)
	equal(t, "times that it was created", len(find[*events.SessionOpened](b, "kid")), 1)

	// The last abort counts, whoever else is asked after it; and what stands behind an abort in one list is carried out.
	b = setupIdle(t, reply(text("of the child")))
	b.node(asksBefore("B", plugin.Abort("y", "second"), childSession("kid"), plugin.Abort("z", "third")), asksBefore("A", plugin.Abort("x", "first")), asksBefore("C"))
	id = b.open(api.CreateRequest{})
	b.submit(id, "t1", text("hello"))
	equal(t, "issue of the other order", b.ended(id, "t1").Issue, events.Issue{Kind: "plugin", Code: "x", Message: "first"})
	equal(t, "parent of what was created in the other order", b.state("kid").Parent, id)
}

func testToolDirective(t *testing.T) {
	for name, d := range map[string]plugin.Directive{
		"replace_tool_args": plugin.ReplaceArgs(json.RawMessage(`{}`)), "short_circuit_tool": plugin.ShortCircuit(plugin.Result{Text: "no"}),
	} {
		b := setupIdle(t)
		b.node(asksBefore("A", childSession("kid")), asksBefore("B", d))
		id := b.open(api.CreateRequest{})
		issue := b.failedTurn(id, "t1")
		equal(t, name, issue.Code, "plugin_prepare_turn")
		equal(t, "named", strings.Contains(issue.Message, name), true)
		equal(t, "failed", b.hooksRan(id, events.PointBeforeTurn).Failed, "B")
		b.nothingCounts(id)
		b.noSession("kid")
	}
}

func testLateAbort(t *testing.T) {
	b := setupIdle(t, reply(text("done")))
	b.node(declares("A", func(r *plugin.Registrar) {
		r.AfterTurn(func(context.Context, plugin.TurnResultContext) ([]plugin.Directive, error) {
			return []plugin.Directive{childSession("kid"), plugin.Abort("x", "too late")}, nil
		})
	}))
	id := b.open(api.CreateRequest{})
	issue := b.failedTurn(id, "t1")
	equal(t, "code", issue.Code, "plugin_finalize_turn")
	equal(t, "failed", b.hooksRan(id, events.PointAfterTurn).Failed, "A")
	b.noSession("kid")
	equalLists(t, "messages", b.messages(id), []string{"user go", "assistant done"}) // what was committed stays
}

// contributesToPrompt is a plugin that adds this to prompts.
func contributesToPrompt(id string, list ...events.Contribution) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return list, nil })
	})
}

func testContributions(t *testing.T) {
	const a, z = events.SlotEnvironment, events.SlotIntro // "environment" sorts before "intro", which the template has first
	b := setupIdle(t, reply(text("done")))
	b.node(
		contributesToPrompt("one", events.Contribution{Slot: z, Priority: 5, Content: "B5"}, events.Contribution{Slot: a, Priority: 9, Content: "A9"}),
		contributesToPrompt("two", events.Contribution{Slot: a, Priority: 1, Content: "A1", Title: "first"}),
		contributesToPrompt("three", events.Contribution{Slot: a, Priority: 1, Content: "  A1\n", Title: "second"}),
	)
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	var got, titles []string
	for _, c := range find[*events.TurnPrepared](b, id)[0].Contributions {
		got, titles = append(got, c.Content), append(titles, c.Title)
	}
	equalLists(t, "contributions", got, []string{"A1", "A9", "B5"})
	equal(t, "title", titles[0], "first")
	prompt := b.model.prompt(0)[0]
	if at := strings.Index; at(prompt, "B5") < 0 || at(prompt, "B5") > at(prompt, "A1") || at(prompt, "A1") > at(prompt, "A9") || strings.Count(prompt, "A1") != 1 {
		t.Errorf("prompt: got %q, want B5 (the template has its slot first), A1 and A9, each once", prompt)
	}
}

func testGates(t *testing.T) {
	gated := func(name string, minimum events.Override, tools ...string) events.Contribution {
		return events.Contribution{Slot: events.SlotGuidance, Content: "<" + name + ">", Minimum: minimum, Tools: tools}
	}
	b := setupIdle(t, reply(text("done")))
	b.node(
		contributesToPrompt("one", gated("always", ""), gated("missing", "", "nobody"), gated("callable_of_searchable", "callable", "s"),
			gated("searchable_of_searchable", "searchable", "s"), gated("off_of_off", "", "o"), gated("any", "callable", "s", "nobody", "c")),
		plugin.Func("tools", func(r *plugin.Registrar) error {
			return r.Tools(leveled(plugin.Tool{Name: "s", Level: events.AvailSearchable}, plugin.Tool{Name: "o", Level: events.AvailOff}, plugin.Tool{Name: "c", Level: events.AvailCallable}))
		}),
	)
	b.run(b.open(api.CreateRequest{}), "t1", text("go"))
	prompt := b.model.prompt(0)[0]
	for name, want := range map[string]bool{
		"always": true, "missing": false, "callable_of_searchable": false, "searchable_of_searchable": true, "off_of_off": true, "any": true,
	} {
		equal(t, name, strings.Contains(prompt, "<"+name+">"), want)
	}
}

// marksMessages is a plugin that writes its name behind every message, in place.
func marksMessages(id string, priority int, seen *[]string) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
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
	b := setupIdle(t, reply(text("done")), reply(text("again")))
	b.node(marksMessages("low", 1, &seen), marksMessages("high", 100, &seen))
	id := b.open(api.CreateRequest{})
	b.run(id, "t1", text("go"))
	equalLists(t, "transforms", seen, []string{"high gets go", "low gets go high"})
	equalLists(t, "prompt", b.model.prompt(0), []string{"user go high low"})
	prepared := find[*events.TurnPrepared](b, id)
	if len(prepared) != 1 || len(prepared[0].View) != 1 || prepared[0].View[0].Message.Text() != "go high low" {
		t.Errorf("record: got %+v, want what the model was shown", prepared)
	}
	equalLists(t, "graph", b.messages(id), []string{"user go", "assistant done"}) // untouched
	other := b.otherHost()
	v, err := other.View(b.ctx, id)
	must(t, "view", err, nil)
	equalLists(t, "graph as another node sees it", transcript(v.Messages), []string{"user go", "assistant done"})
}

// streamsAs is a plugin that changes each piece of a reply.
func streamsAs(id string, change func(string) string) plugin.Factory {
	return declares(id, func(r *plugin.Registrar) {
		r.Stream(func(_ context.Context, _ events.SessionID, chunk string) (plugin.StreamTransform, error) {
			return plugin.StreamTransform{Chunk: change(chunk)}, nil
		})
	})
}

func testStreamHooks(t *testing.T) {
	b := setupIdle(t, reply(text("hello there")))
	var chunks atomic.Int64
	b.node(streamsAs("upper", strings.ToUpper), streamsAs("suffix", func(s string) string { chunks.Add(1); return s + "!" }))
	id := b.open(api.CreateRequest{})
	var shown strings.Builder
	list := b.turnEvents(b.Host, id, "t1", func(e api.SessionEvent) {
		if e.Type == api.EventTextDelta {
			shown.WriteString(e.Content)
		}
	})
	equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
	got := strings.TrimPrefix(b.messages(id)[1], "assistant ")
	equal(t, "text without suffixes", strings.ReplaceAll(got, "!", ""), "HELLO THERE")
	equal(t, "suffixes", int64(strings.Count(got, "!")), chunks.Load())
	equal(t, "shown", shown.String(), got)
	equal(t, "outcome", list[len(list)-2].TurnOutcome.Text, got)
}
