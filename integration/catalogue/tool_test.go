package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/llm"
)

func toolEntries() []entry {
	return slices.Concat(toolStateEntries(), dispatchEntries())
}

func toolStateEntries() []entry {
	return []entry{
		{"X01", "tool state of an old generation is refused", "a tool state that is one generation old", "apply", "a generation mismatch, nothing changed", testToolGeneration},
		{"X02", "unknown tool changes nothing", "a known and an unknown name", "set tools availability", "an error, nothing changed", testToolsAllOrNone},
		{"X03", "one change is one generation", "a change of three tools", "apply", "one generation more", testToolsOneStep},
		{"X04", "unknown source and unknown tool are refused", "an entry of a missing source, one that its source does not have", "apply", "unknown source, unknown tool", testToolSource},
		{"X05", "lifted override has the declared level", "an override", "lift it", "back to the declared level", testToolLift},
		{"X06", "tool levels decide list and call", "tools at every level, declared and overridden", "list, call, document", "as the table of levels says", testToolLevels},
		{"X07", "catalog key has one instance", "one catalogue key", "catalogue twice", "the same instance; another after a change of generation, revision or overlay", testCatalogKey},
		{"X08", "same overlay changes nothing", "the same overlay", "set it again", "revision and cache unchanged", testOverlayRepeated},
		{"X09", "overlay tool hides a tool of its name", "an overlay tool of a name in use", "call", "the overlay's runs", testOverlayShadows},
		{"X10", "overlay without the base stands alone", "an overlay without the base", "catalogue", "only the overlay's tools", testOverlayAlone},
		{"X11", "failed contributor is called again", "a contributor that fails", "catalogue twice", "asked and failed both times", testCatalogErrorAgain},
		{"X12", "contributor error reaches the caller", "a contributor that fails", "catalogue, turn", "its error arrives", testCatalogError},
		{"X23", "override returns with its source", "an override of a tool whose source is gone", "the source returns", "the override counts again", testToolOrphan},
	}
}

// setupTools has a node whose plugin "math" offers tools, and a session.
func setupTools(t *testing.T, names []string, script ...harness.Step) (*harness.System, events.SessionID) {
	t.Helper()
	b := harness.StartIdle(t, script...)
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error {
		harness.NamedTools(r, names...)
		return nil
	}))
	return b, b.Open(api.CreateRequest{})
}

func toolState(b *harness.System, id events.SessionID) api.ToolState {
	b.T.Helper()
	s, err := b.ToolState(b.Ctx, id)
	runtest.NoError(b.T, err)
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

func setLevel(b *harness.System, id events.SessionID, level events.Override, names ...string) int64 {
	b.T.Helper()
	generation, err := b.SetToolsAvailability(b.Ctx, id, names, level)
	runtest.NoError(b.T, err)
	return generation
}

func testToolGeneration(t *testing.T) {
	b, id := setupTools(t, []string{"a", "b"})
	old := toolState(b, id)
	setLevel(b, id, "off", "a")
	seq, now := b.LastSeq(id), toolState(b, id)
	runtest.Equal(t, "generation", now.Generation, old.Generation+1)
	_, err := b.ApplyToolState(b.Ctx, id, old)
	var mismatch *api.GenerationError
	runtest.Equal(t, "mismatch", errors.As(err, &mismatch), true)
	runtest.Equal(t, "expected", mismatch.Expected, old.Generation)
	runtest.Equal(t, "actual", mismatch.Actual, now.Generation)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	runtest.EqualLists(t, "levels", levels(toolState(b, id)), []string{"a=off", "b=showcased"})
	_, err = b.ApplyToolState(b.Ctx, id, now) // the next state is the one at hand
	runtest.WantError(t, "apply", err, nil)
}

func testToolsAllOrNone(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	before, seq := toolState(b, id), b.LastSeq(id)
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"a", "missing"}, "off")
	runtest.WantError(t, "set", err, api.ErrUnknownTool)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	runtest.Equal(t, "generation", toolState(b, id).Generation, before.Generation)
	runtest.EqualLists(t, "levels", levels(toolState(b, id)), levels(before))
}

func testToolsOneStep(t *testing.T) {
	b, id := setupTools(t, []string{"a", "b", "c", "d"}, harness.Reply(harness.Text("hi")))
	before := toolState(b, id)
	state := before
	for _, name := range []string{"a", "b", "c"} {
		runtest.WantError(t, "set", state.SetAvailability(name, "callable"), nil)
	}
	runtest.EqualLists(t, "the exported state", levels(before), []string{"a=showcased", "b=showcased", "c=showcased", "d=showcased"})
	state.Tools = slices.DeleteFunc(slices.Clone(state.Tools), func(e events.ToolEntry) bool { return e.Name == "d" })
	generation, err := b.ApplyToolState(b.Ctx, id, state)
	runtest.WantError(t, "apply", err, nil)
	runtest.Equal(t, "generation", generation, before.Generation+1)
	runtest.Equal(t, "of the session", toolState(b, id).Generation, before.Generation+1)
	runtest.Equal(t, "with no names", setLevel(b, id, "off"), generation+1)
	b.RunTurn(id, "t1", harness.Text("go"))
	var offered []string
	for _, tool := range b.Model.Requests()[0].Tools {
		offered = append(offered, tool.Name)
	}
	runtest.EqualLists(t, "offered", offered, []string{"a", "b", "c"}) // removed tools stay away
	runtest.Equal(t, "after the turn", toolState(b, id).Generation, generation+1)
}

func testToolSource(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	state, seq := toolState(b, id), b.LastSeq(id)
	runtest.Equal(t, "source", state.Tools[0].Source, "math")
	foreign := state
	foreign.Tools = append(slices.Clone(state.Tools), events.ToolEntry{Name: "b", Source: "physics"})
	_, err := b.ApplyToolState(b.Ctx, id, foreign)
	runtest.WantError(t, "missing source", err, api.ErrUnknownSource)
	foreign.Tools[1].Source = "math"
	_, err = b.ApplyToolState(b.Ctx, id, foreign)
	runtest.WantError(t, "missing tool", err, api.ErrUnknownTool)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	_, err = b.ToolState(b.Ctx, "nobody")
	runtest.WantError(t, "unknown session", err, events.ErrNoSession)
	_, err = b.ApplyToolState(b.Ctx, "nobody", state)
	runtest.WantError(t, "apply to an unknown session", err, events.ErrNoSession)
}

func testToolLift(t *testing.T) {
	b := harness.StartIdle(t)
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error {
		return r.Tools(leveled(plugin.Tool{Name: "a", Level: events.AvailSearchable}))
	}))
	id := b.Open(api.CreateRequest{})
	runtest.EqualLists(t, "declared", levels(toolState(b, id)), []string{"a=searchable"})
	setLevel(b, id, "showcased", "a")
	runtest.EqualLists(t, "overridden", levels(toolState(b, id)), []string{"a=showcased"})
	setLevel(b, id, "", "a")
	runtest.EqualLists(t, "lifted", levels(toolState(b, id)), []string{"a=searchable"})
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
		name := string(events.Overridden(level))
		tools = append(tools, plugin.Tool{Name: "is_" + name, Level: level, Description: "a tool"}, plugin.Tool{Name: "set_" + name})
		for _, name := range []string{"is_" + name, "set_" + name} {
			calls = append(calls, harness.Call("k", name, "{}"))
			contributions = append(contributions, events.Contribution{
				Slot: events.SlotGuidance, Content: "doc(" + name + ")", Tools: []string{name}, Minimum: "showcased",
			})
		}
	}
	b := harness.StartIdle(t, harness.Reply(calls...), harness.Reply(harness.Text("done")))
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error {
		r.Prompt(func(context.Context, plugin.PromptContext) ([]events.Contribution, error) { return contributions, nil })
		return r.Tools(leveled(tools...))
	}))
	id := b.Open(api.CreateRequest{})
	for _, level := range all {
		setLevel(b, id, events.Overridden(level), "set_"+string(events.Overridden(level)))
	}
	list, err := b.ToolCatalog(b.Ctx, id)
	runtest.WantError(t, "catalogue", err, nil)
	got := make(map[string]plugin.CatalogItem)
	for _, data := range list {
		var item plugin.CatalogItem
		runtest.WantError(t, "item", json.Unmarshal(data, &item), nil)
		got[item.Name] = item
	}
	b.RunTurn(id, "t1", harness.Text("go"))
	requests := b.Model.Requests()
	results := harness.Find[*events.ToolReturned](b, id)
	for i, level := range all {
		levelName := string(events.Overridden(level))
		for j, name := range []string{"is_" + levelName, "set_" + levelName} {
			item, listed := got[name]
			runtest.Equal(t, name+" listed", listed, i >= 1)
			runtest.Equal(t, name+" searchable", item.Searchable, i >= 1)
			runtest.Equal(t, name+" callable", item.Callable, i >= 2)
			runtest.Equal(t, name+" showcased", item.Showcased, i == 3)
			if listed {
				runtest.Equal(t, name+" availability", item.Availability, levelName)
				runtest.Equal(t, name+" source", item.Source, "math")
				runtest.Equal(t, name+" contract", json.Valid(item.Contract), true)
			}
			offered := slices.ContainsFunc(requests[0].Tools, func(tool llm.Tool) bool { return tool.Name == name })
			runtest.Equal(t, name+" offered", offered, i >= 2)
			runtest.Equal(t, name+" documented", strings.Contains(b.Model.Prompt(0)[0], "doc("+name+")"), i == 3)
			r := resultOfCall(results, int64(2*i+j))
			if i >= 2 {
				runtest.Equal(t, name+" result", r.Text, name)
				continue
			}
			runtest.Equal(t, name+" class", r.Class, plugin.ClassUnavailable)
			runtest.Equal(t, name+" code", r.Code, plugin.CodeUnavailable)
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
	b := harness.StartIdle(t, harness.Reply(harness.Text("1")), harness.Reply(harness.Call("k", "add", "{}")), harness.Reply(harness.Text("2")), harness.Reply(harness.Text("3")))
	with := plugin.Func("math", func(r *plugin.Registrar) error { harness.NamedTools(r, "add", "sub"); return nil })
	n, kill := b.StartNodeOn(b.Bus, with)
	b.Host = n.Host()
	id := b.Open(api.CreateRequest{})
	setLevel(b, id, "callable", "add")
	b.RunTurn(id, "t1", harness.Text("go"))
	kill()

	n, kill = b.StartNodeOn(b.Bus)
	b.Host = n.Host()
	b.RunTurn(id, "t2", harness.Text("go"))
	runtest.Equal(t, "offered without the source", len(b.Model.Requests()[1].Tools), 0)
	runtest.Equal(t, "call without the source", harness.Find[*events.ToolReturned](b, id)[0].Results[0].Code, plugin.CodeUnavailable)
	state := toolState(b, id)
	runtest.EqualLists(t, "levels without the source", levels(state), []string{"add=off"})
	runtest.Equal(t, "orphan", state.Tools[0].Orphan, true)
	runtest.Equal(t, "override", state.Tools[0].Override, "callable")
	_, err := b.ApplyToolState(b.Ctx, id, state) // an exported orphan can be applied
	runtest.WantError(t, "apply", err, nil)
	kill()

	n, _ = b.StartNodeOn(b.Bus, with)
	b.Host = n.Host()
	b.RunTurn(id, "t3", harness.Text("go"))
	runtest.EqualLists(t, "levels with the source", levels(toolState(b, id)), []string{"add=callable", "sub=showcased"})
	runtest.Equal(t, "offered", len(b.Model.Requests()[3].Tools), 2)
}
