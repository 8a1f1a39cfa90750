package catalogue

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// pluginStack is the session's plugins on its node.
func pluginStack(b *harness.System, id events.SessionID) *plugin.Stack {
	b.T.Helper()
	p, _, release, err := b.Worker().Stack(b.Ctx, b.StateOf(id))
	runtest.NoError(b.T, err)
	b.T.Cleanup(release)
	return p
}

// offer is the session's catalogue at its current state.
func offer(b *harness.System, id events.SessionID, p *plugin.Stack) *plugin.CatalogEntry {
	b.T.Helper()
	entry, err := p.Catalog(&b.StateOf(id).Catalog)
	runtest.NoError(b.T, err)
	return entry
}

func toolNames(entry *plugin.CatalogEntry) []string {
	names := make([]string, len(entry.Tools))
	for i := range entry.Tools {
		names[i] = entry.Tools[i].Name
	}
	return names
}

// remembering is a plugin with a state of its own and a tool.
type remembering struct{ plugin.State[int] }

func (p *remembering) Register(r *plugin.Registrar) error {
	harness.NamedTools(r, "a", "b")
	return nil
}

func testCatalogKey(t *testing.T) {
	b := harness.StartIdle(t)
	mine := &remembering{}
	b.StartNode(plugin.New("mine", func(plugin.BuildContext) (plugin.Plugin, error) { return mine, nil }))
	id := b.Open(api.CreateRequest{})
	p := pluginStack(b, id)
	entry := offer(b, id, p)
	changed := func(what string, change func()) {
		t.Helper()
		runtest.Equal(t, "same before "+what, offer(b, id, p) == entry, true)
		change()
		now := offer(b, id, p)
		runtest.Equal(t, "rebuilt after "+what, now != entry, true)
		runtest.EqualLists(t, "tools after "+what, toolNames(now), []string{"a", "b"})
		entry = now
	}
	first := offer(b, id, p).List()
	runtest.Equal(t, "list made once", &first[0] == &entry.List()[0], true)
	changed("a new generation", func() { setLevel(b, id, "callable", "a") })
	changed("a new revision of a plugin", func() { mine.Update(func(n *int) { *n++ }) })
	changed("an overlay", func() {
		runtest.WantError(t, "overlay", b.SetOverlay(b.Ctx, id, plugin.Overlay{Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: "x"}}}), nil)
	})
	changed("a refresh", func() {
		_, err := b.RefreshCatalog(b.Ctx, id)
		runtest.WantError(t, "refresh", err, nil)
	})
}

func testOverlayRepeated(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	p := pluginStack(b, id)
	tools := plugin.NewTools()
	harness.NamedTools(tools, "extra")
	overlay := func(contribution string) plugin.Overlay {
		return plugin.Overlay{
			Tools:         []*plugin.Tools{tools},
			Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: contribution, Tools: []string{"extra"}}},
		}
	}
	runtest.WantError(t, "set", b.SetOverlay(b.Ctx, id, overlay("x")), nil)
	entry := offer(b, id, p)
	runtest.WantError(t, "set again", b.SetOverlay(b.Ctx, id, overlay("x")), nil)
	runtest.Equal(t, "cache kept", offer(b, id, p) == entry, true)
	runtest.WantError(t, "other contributions", b.SetOverlay(b.Ctx, id, overlay("y")), nil)
	runtest.Equal(t, "rebuilt", offer(b, id, p) != entry, true)
	entry = offer(b, id, p)
	err := b.SetOverlay(b.Ctx, id, plugin.Overlay{Tools: []*plugin.Tools{nil}})
	runtest.WantError(t, "one that cannot be composed", err, plugin.ErrRegistration)
	runtest.Equal(t, "cache after it", offer(b, id, p) == entry, true)
}

// overlaid has a node whose plugin sets an overlay of tools before each turn.
func overlaid(t *testing.T, withoutBase bool, script ...harness.Step) (*harness.System, events.SessionID) {
	t.Helper()
	over := plugin.NewTools()
	plugin.AddTool(over, plugin.Tool{Name: "a"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a of the overlay", nil })
	harness.NamedTools(over, "extra")
	b := harness.StartIdle(t, script...)
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error {
		harness.NamedTools(r, "a", "b")
		r.TransformContext(0, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			now.Overlay = &plugin.Overlay{Tools: []*plugin.Tools{over}, WithoutBase: withoutBase}
			return now, nil
		})
		return nil
	}))
	return b, b.Open(api.CreateRequest{})
}

func testOverlayShadows(t *testing.T) {
	b, id := overlaid(t, false, harness.Reply(harness.Call("1", "a", "{}"), harness.Call("2", "b", "{}"), harness.Call("3", "extra", "{}")), harness.Reply(harness.Text("done")))
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.Equal(t, "results", b.Messages(id)[2], "user 1=a of the overlay 2=b 3=extra")
}

func testOverlayAlone(t *testing.T) {
	b, id := overlaid(t, true, harness.Reply(harness.Call("1", "a", "{}"), harness.Call("2", "b", "{}")), harness.Reply(harness.Text("done")))
	b.RunTurn(id, "t1", harness.Text("go"))
	runtest.EqualLists(t, "catalogue", toolNames(offer(b, id, pluginStack(b, id))), []string{"a", "extra"})
	runtest.Equal(t, "offered", len(b.Model.Requests()[0].Tools), 2)
	runtest.Equal(t, "results", b.Messages(id)[2], `user 1=a of the overlay 2=[failed] tool "b" is not available in this session`)
}

// contributor has a node whose plugin contributes to the catalogue, or fails to.
func contributor(t *testing.T, failing *atomic.Bool, requests *atomic.Int64, script ...harness.Step) (*harness.System, events.SessionID) {
	t.Helper()
	b := harness.StartIdle(t, script...)
	b.StartNode(plugin.Func("picky", func(r *plugin.Registrar) error {
		harness.NamedTools(r, "a", "b")
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			requests.Add(1)
			if failing.Load() {
				return plugin.CatalogContribution{}, errPicky
			}
			return plugin.CatalogContribution{Remove: []string{"b", "unknown"}, Levels: map[string]events.Availability{"a": events.AvailCallable}}, nil
		})
		return nil
	}))
	return b, b.Open(api.CreateRequest{})
}

var errPicky = errors.New("no catalogue today")

func testCatalogErrorAgain(t *testing.T) {
	var failing atomic.Bool
	var requests atomic.Int64
	failing.Store(true)
	b, id := contributor(t, &failing, &requests, harness.Reply(harness.Text("hi")))
	p := pluginStack(b, id)
	for i := range int64(2) {
		_, got := p.Catalog(&b.StateOf(id).Catalog)
		runtest.WantError(t, "catalogue", got, errPicky)
		runtest.Equal(t, "requests", requests.Load(), i+1)
	}
	failing.Store(false)
	runtest.EqualLists(t, "tools", toolNames(offer(b, id, p)), []string{"a"})
	runtest.Equal(t, "requests", requests.Load(), 3)
	runtest.Equal(t, "level", offer(b, id, p).Tools[0].Availability, events.AvailCallable)
	runtest.Equal(t, "asked once it worked", requests.Load(), 3)
}

func testCatalogError(t *testing.T) {
	var failing atomic.Bool
	var requests atomic.Int64
	failing.Store(true)
	b, id := contributor(t, &failing, &requests, harness.Reply(harness.Text("hi")))
	_, got := b.ToolCatalog(b.Ctx, id)
	runtest.WantError(t, "catalogue", got, errPicky)
	var hook *plugin.HookError
	runtest.Equal(t, "names its plugin", errors.As(got, &hook) && hook.Plugin == "picky", true)
	b.StartTurn(id, "t1", harness.Text("go"))
	record := b.AwaitTurn(id, "t1")
	runtest.Equal(t, "end", record.End, events.EndFailed)
	runtest.Equal(t, "code", record.Issue.Code, "tool_catalog")
	runtest.Equal(t, "model calls", len(b.Model.Requests()), 0)

	failing.Store(false)
	runtest.Equal(t, "the next turn", b.RunTurn(id, "t2", harness.Text("go")).End, events.EndFinished)
	list, got := b.ToolCatalog(b.Ctx, id)
	runtest.WantError(t, "catalogue", got, nil)
	var item plugin.CatalogItem
	runtest.WantError(t, "item", json.Unmarshal(list[0], &item), nil)
	runtest.Equal(t, "tool", item.Name, "a")
}
