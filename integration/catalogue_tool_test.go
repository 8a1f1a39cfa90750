package integration

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func toolEntries() []entry {
	return slices.Concat(toolStateEntries(), dispatchEntries())
}

func toolStateEntries() []entry {
	return []entry{
		{"X01", "a tool state that is one generation old", "apply", "a generation mismatch, nothing changed", testToolGeneration},
		{"X02", "a known and an unknown name", "set tools availability", "an error, nothing changed", testToolsAllOrNone},
		{"X03", "a change of three tools", "apply", "one generation more", testToolsOneStep},
		{"X04", "an entry of a missing source, one that its source does not have", "apply", "unknown source, unknown tool", testToolSource},
		{"X05", "an override", "lift it", "back to the declared level", testToolLift},
		{"X06", "tools at every level, declared and overridden", "list, call, document", "as the table of levels says", testToolLevels},
		{"X07", "one catalogue key", "catalogue twice", "the same instance; another after a change of generation, revision or overlay", testCatalogKey},
		{"X08", "the same overlay", "set it again", "revision and cache unchanged", testOverlayAgain},
		{"X09", "an overlay tool of a name in use", "call", "the overlay's runs", testOverlayShadows},
		{"X10", "an overlay without the base", "catalogue", "only the overlay's tools", testOverlayAlone},
		{"X11", "a contributor that fails", "catalogue twice", "asked and failed both times", testCatalogErrorAgain},
		{"X12", "a contributor that fails", "catalogue, turn", "its error arrives", testCatalogError},
		{"X23", "an override of a tool whose source is gone", "the source returns", "the override counts again", testToolOrphan},
	}
}

// simple registers tools that answer with their names.
func simple(r plugin.Registry, names ...string) {
	for _, name := range names {
		plugin.AddTool(r, plugin.Tool{Name: name}, func(context.Context, plugin.Call, struct{}) (string, error) { return name, nil })
	}
}

// setupTools has a node whose plugin "math" offers tools, and a session.
func setupTools(t *testing.T, names []string, script ...step) (*bundle, events.SessionID) {
	t.Helper()
	b := setupIdle(t, script...)
	b.node(plugin.Func("math", func(r *plugin.Registrar) error {
		simple(r, names...)
		return nil
	}))
	return b, b.open(api.CreateRequest{})
}

func (b *bundle) toolState(id events.SessionID) api.ToolState {
	b.t.Helper()
	s, err := b.ToolState(b.ctx, id)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

// levels renders a tool state: name and effective level.
func levels(s api.ToolState) []string {
	list := make([]string, len(s.Tools))
	for i := range s.Tools {
		list[i] = s.Tools[i].Name + "=" + string(events.Overridden(s.Tools[i].Effective()))
	}
	return list
}

func (b *bundle) setLevel(id events.SessionID, level events.Override, names ...string) int64 {
	b.t.Helper()
	generation, err := b.SetToolsAvailability(b.ctx, id, names, level)
	if err != nil {
		b.t.Fatal(err)
	}
	return generation
}

func testToolGeneration(t *testing.T) {
	b, id := setupTools(t, []string{"a", "b"})
	old := b.toolState(id)
	b.setLevel(id, "off", "a")
	seq, now := b.last(id), b.toolState(id)
	equal(t, "generation", now.Generation, old.Generation+1)
	_, err := b.ApplyToolState(b.ctx, id, old)
	var mismatch *api.GenerationError
	equal(t, "mismatch", errors.As(err, &mismatch), true)
	equal(t, "expected", mismatch.Expected, old.Generation)
	equal(t, "actual", mismatch.Actual, now.Generation)
	equal(t, "last", b.last(id), seq)
	equalLists(t, "levels", levels(b.toolState(id)), []string{"a=off", "b=showcased"})
	_, err = b.ApplyToolState(b.ctx, id, now) // the next state is the one at hand
	must(t, "apply", err, nil)
}

func testToolsAllOrNone(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	before, seq := b.toolState(id), b.last(id)
	_, err := b.SetToolsAvailability(b.ctx, id, []string{"a", "missing"}, "off")
	must(t, "set", err, api.ErrUnknownTool)
	equal(t, "last", b.last(id), seq)
	equal(t, "generation", b.toolState(id).Generation, before.Generation)
	equalLists(t, "levels", levels(b.toolState(id)), levels(before))
}

func testToolsOneStep(t *testing.T) {
	b, id := setupTools(t, []string{"a", "b", "c", "d"}, reply(text("hi")))
	before := b.toolState(id)
	state := before
	for _, name := range []string{"a", "b", "c"} {
		must(t, "set", state.SetAvailability(name, "callable"), nil)
	}
	equalLists(t, "the exported state", levels(before), []string{"a=showcased", "b=showcased", "c=showcased", "d=showcased"})
	state.Tools = slices.DeleteFunc(slices.Clone(state.Tools), func(e events.ToolEntry) bool { return e.Name == "d" })
	generation, err := b.ApplyToolState(b.ctx, id, state)
	must(t, "apply", err, nil)
	equal(t, "generation", generation, before.Generation+1)
	equal(t, "of the session", b.toolState(id).Generation, before.Generation+1)
	equal(t, "with no names", b.setLevel(id, "off"), generation+1)
	b.run(id, "t1", text("go"))
	var offered []string
	for _, tool := range b.model.asked()[0].Tools {
		offered = append(offered, tool.Name)
	}
	equalLists(t, "offered", offered, []string{"a", "b", "c"}) // what was left out stays away
	equal(t, "after the turn", b.toolState(id).Generation, generation+1)
}

func testToolSource(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	state, seq := b.toolState(id), b.last(id)
	equal(t, "source", state.Tools[0].Source, "math")
	foreign := state
	foreign.Tools = append(slices.Clone(state.Tools), events.ToolEntry{Name: "b", Source: "physics"})
	_, err := b.ApplyToolState(b.ctx, id, foreign)
	must(t, "missing source", err, api.ErrUnknownSource)
	foreign.Tools[1].Source = "math"
	_, err = b.ApplyToolState(b.ctx, id, foreign)
	must(t, "missing tool", err, api.ErrUnknownTool)
	equal(t, "last", b.last(id), seq)
	_, err = b.ToolState(b.ctx, "nobody")
	must(t, "unknown session", err, events.ErrNoSession)
	_, err = b.ApplyToolState(b.ctx, "nobody", state)
	must(t, "apply to an unknown session", err, events.ErrNoSession)
}

func testToolLift(t *testing.T) {
	b := setupIdle(t)
	b.node(plugin.Func("math", func(r *plugin.Registrar) error {
		return r.Tools(leveled(plugin.Tool{Name: "a", Level: events.AvailSearchable}))
	}))
	id := b.open(api.CreateRequest{})
	equalLists(t, "declared", levels(b.toolState(id)), []string{"a=searchable"})
	b.setLevel(id, "showcased", "a")
	equalLists(t, "overridden", levels(b.toolState(id)), []string{"a=showcased"})
	b.setLevel(id, "", "a")
	equalLists(t, "lifted", levels(b.toolState(id)), []string{"a=searchable"})
}

func leveled(list ...plugin.Tool) *plugin.Tools {
	set := plugin.NewTools()
	for _, tool := range list {
		plugin.AddTool(set, tool, func(context.Context, plugin.Call, struct{}) (string, error) { return tool.Name, nil })
	}
	return set
}

// testToolLevels declares a tool of each level and sets one of each; the model calls all of them.
func testToolLevels(t *testing.T) {
	all := []events.Availability{events.AvailOff, events.AvailSearchable, events.AvailCallable, events.AvailShowcased}
	var tools []plugin.Tool
	var calls []events.Part
	var contributions []events.Contribution
	for _, level := range all {
		word := string(events.Overridden(level))
		tools = append(tools, plugin.Tool{Name: "is_" + word, Level: level, Description: "a tool"}, plugin.Tool{Name: "set_" + word})
		for _, name := range []string{"is_" + word, "set_" + word} {
			calls = append(calls, call("k", name, "{}"))
			contributions = append(contributions, events.Contribution{
				Slot: events.SlotGuidance, Content: "doc(" + name + ")", Tools: []string{name}, Minimum: "showcased",
			})
		}
	}
	b := setupIdle(t, reply(calls...), reply(text("done")))
	b.node(plugin.Func("math", func(r *plugin.Registrar) error {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return contributions, nil })
		return r.Tools(leveled(tools...))
	}))
	id := b.open(api.CreateRequest{})
	for _, level := range all {
		b.setLevel(id, events.Overridden(level), "set_"+string(events.Overridden(level)))
	}
	list, err := b.ToolCatalog(b.ctx, id)
	must(t, "catalogue", err, nil)
	got := make(map[string]plugin.CatalogItem)
	for _, data := range list {
		var item plugin.CatalogItem
		must(t, "item", json.Unmarshal(data, &item), nil)
		got[item.Name] = item
	}
	b.run(id, "t1", text("go"))
	asked := b.model.asked()
	results := find[*events.ToolReturned](b, id)
	for i, level := range all {
		word := string(events.Overridden(level))
		for j, name := range []string{"is_" + word, "set_" + word} {
			item, listed := got[name]
			equal(t, name+" listed", listed, i >= 1)
			equal(t, name+" searchable", item.Searchable, i >= 1)
			equal(t, name+" callable", item.Callable, i >= 2)
			equal(t, name+" showcased", item.Showcased, i == 3)
			if listed {
				equal(t, name+" availability", item.Availability, word)
				equal(t, name+" source", item.Source, "math")
				equal(t, name+" contract", json.Valid(item.Contract), true)
			}
			offered := slices.ContainsFunc(asked[0].Tools, func(tool llm.Tool) bool { return tool.Name == name })
			equal(t, name+" offered", offered, i >= 2)
			equal(t, name+" documented", strings.Contains(b.model.prompt(0)[0], "doc("+name+")"), i == 3)
			r := resultOfCall(results, int64(2*i+j))
			if i >= 2 {
				equal(t, name+" result", r.Text, name)
				continue
			}
			equal(t, name+" class", r.Class, plugin.ClassUnavailable)
			equal(t, name+" code", r.Code, plugin.CodeUnavailable)
		}
	}
}

func resultOfCall(list []*events.ToolReturned, index int64) events.ToolResult {
	for _, p := range list {
		for _, r := range p.Results {
			if r.Call == index {
				return r
			}
		}
	}
	return events.ToolResult{}
}

// testToolOrphan restarts the node without the tool's plugin, and with it again.
func testToolOrphan(t *testing.T) {
	b := setupIdle(t, reply(text("1")), reply(call("k", "add", "{}")), reply(text("2")), reply(text("3")))
	with := plugin.Func("math", func(r *plugin.Registrar) error { simple(r, "add", "sub"); return nil })
	n, kill := b.nodeOn(b.bus, with)
	b.Host = n.Host()
	id := b.open(api.CreateRequest{})
	b.setLevel(id, "callable", "add")
	b.run(id, "t1", text("go"))
	kill()

	n, kill = b.nodeOn(b.bus)
	b.Host = n.Host()
	b.run(id, "t2", text("go"))
	equal(t, "offered without the source", len(b.model.asked()[1].Tools), 0)
	equal(t, "call without the source", find[*events.ToolReturned](b, id)[0].Results[0].Code, plugin.CodeUnavailable)
	state := b.toolState(id)
	equalLists(t, "levels without the source", levels(state), []string{"add=off"})
	equal(t, "orphan", state.Tools[0].Orphan, true)
	equal(t, "override", state.Tools[0].Override, "callable")
	_, err := b.ApplyToolState(b.ctx, id, state) // an exported orphan can be applied
	must(t, "apply", err, nil)
	kill()

	n, _ = b.nodeOn(b.bus, with)
	b.Host = n.Host()
	b.run(id, "t3", text("go"))
	equalLists(t, "levels with the source", levels(b.toolState(id)), []string{"add=callable", "sub=showcased"})
	equal(t, "offered", len(b.model.asked()[3].Tools), 2)
}
