package integration

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// stackOf gives the session's plugins as its node has them.
func (b *bundle) stackOf(id events.SessionID) *plugin.Session {
	b.t.Helper()
	p, _, release, err := b.Stack(b.ctx, b.state(id))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(release)
	return p
}

// offer is the session's catalogue at its state now.
func (b *bundle) offer(id events.SessionID, p *plugin.Session) *plugin.CatalogEntry {
	b.t.Helper()
	entry, err := p.Catalog(&b.state(id).Catalog)
	if err != nil {
		b.t.Fatal(err)
	}
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
	simple(r, "a", "b")
	return nil
}

func testCatalogKey(t *testing.T) {
	b := setupIdle(t)
	mine := &remembering{}
	b.node(plugin.New("mine", func(plugin.BuildContext) (plugin.Plugin, error) { return mine, nil }))
	id := b.open(api.CreateRequest{})
	p := b.stackOf(id)
	entry := b.offer(id, p)
	changed := func(what string, change func()) {
		t.Helper()
		equal(t, "same before "+what, b.offer(id, p) == entry, true)
		change()
		now := b.offer(id, p)
		equal(t, "rebuilt after "+what, now != entry, true)
		equalLists(t, "tools after "+what, toolNames(now), []string{"a", "b"})
		entry = now
	}
	first := b.offer(id, p).List()
	equal(t, "list made once", &first[0] == &entry.List()[0], true)
	changed("a new generation", func() { b.setLevel(id, "callable", "a") })
	changed("a new revision of a plugin", func() { mine.Update(func(n *int) { *n++ }) })
	changed("an overlay", func() {
		must(t, "overlay", p.SetOverlay(plugin.Overlay{Tools: []*plugin.Tools{plugin.NewTools()}}), nil)
	})
	changed("a refresh", p.RefreshCatalog)
	changed("an invalidation", p.InvalidateCaches)
	fork, err := p.Fork(b.ctx, plugin.BuildContext{Session: "fork"})
	must(t, "fork", err, nil)
	defer fork.Close()
	other, err := fork.Catalog(&b.state(id).Catalog)
	must(t, "catalogue of a fork", err, nil)
	equal(t, "a fork has its own", other != entry, true)
}

func testOverlayAgain(t *testing.T) {
	b, id := setupTools(t, []string{"a"})
	p := b.stackOf(id)
	tools := plugin.NewTools()
	simple(tools, "extra")
	overlay := func(contribution string) plugin.Overlay {
		return plugin.Overlay{
			Tools:         []*plugin.Tools{tools},
			Contributions: []events.Contribution{{Slot: events.SlotIntro, Content: contribution, Tools: []string{"extra"}}},
		}
	}
	must(t, "set", p.SetOverlay(overlay("x")), nil)
	key, entry := p.CatalogKey(1), b.offer(id, p)
	must(t, "set again", p.SetOverlay(overlay("x")), nil)
	equal(t, "key", p.CatalogKey(1), key)
	equal(t, "cache kept", b.offer(id, p) == entry, true)
	must(t, "other contributions", p.SetOverlay(overlay("y")), nil)
	equal(t, "revision", p.CatalogKey(1).Overlay, key.Overlay+1)
	equal(t, "rebuilt", b.offer(id, p) != entry, true)
	entry = b.offer(id, p)
	err := p.SetOverlay(plugin.Overlay{Tools: []*plugin.Tools{nil}})
	must(t, "one that cannot be composed", err, plugin.ErrRegistration)
	equal(t, "revision after it", p.CatalogKey(1).Overlay, key.Overlay+1)
	equal(t, "cache after it", b.offer(id, p) == entry, true)
}

// overlaid has a node whose plugin lays tools over the session's own before each turn.
func overlaid(t *testing.T, withoutBase bool, script ...step) (*bundle, events.SessionID) {
	t.Helper()
	over := plugin.NewTools()
	plugin.AddTool(over, plugin.Tool{Name: "a"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "a of the overlay", nil })
	simple(over, "extra")
	b := setupIdle(t, script...)
	b.node(plugin.Func("math", func(r *plugin.Registrar) error {
		simple(r, "a", "b")
		r.TransformContext(0, func(_ context.Context, _ plugin.TransformContext, now plugin.Prepared) (plugin.Prepared, error) {
			now.Overlay = &plugin.Overlay{Tools: []*plugin.Tools{over}, WithoutBase: withoutBase}
			return now, nil
		})
		return nil
	}))
	return b, b.open(api.CreateRequest{})
}

func testOverlayShadows(t *testing.T) {
	b, id := overlaid(t, false, reply(call("1", "a", "{}"), call("2", "b", "{}"), call("3", "extra", "{}")), reply(text("done")))
	b.run(id, "t1", text("go"))
	equal(t, "results", b.messages(id)[2], "user 1=a of the overlay 2=b 3=extra")
}

func testOverlayAlone(t *testing.T) {
	b, id := overlaid(t, true, reply(call("1", "a", "{}"), call("2", "b", "{}")), reply(text("done")))
	b.run(id, "t1", text("go"))
	equalLists(t, "catalogue", toolNames(b.offer(id, b.stackOf(id))), []string{"a", "extra"})
	equal(t, "offered", len(b.model.asked()[0].Tools), 2)
	equal(t, "results", b.messages(id)[2], `user 1=a of the overlay 2=[failed] tool "b" is not available in this session`)
}

// contributor has a node whose plugin contributes to the catalogue, or fails at it.
func contributor(t *testing.T, failing *atomic.Bool, asked *atomic.Int64, script ...step) (*bundle, events.SessionID) {
	t.Helper()
	b := setupIdle(t, script...)
	b.node(plugin.Func("picky", func(r *plugin.Registrar) error {
		simple(r, "a", "b")
		r.Catalog(func(plugin.CatalogContext) (plugin.CatalogContribution, error) {
			asked.Add(1)
			if failing.Load() {
				return plugin.CatalogContribution{}, errPicky
			}
			return plugin.CatalogContribution{Remove: []string{"b", "unknown"}, Levels: map[string]events.Availability{"a": events.AvailCallable}}, nil
		})
		return nil
	}))
	return b, b.open(api.CreateRequest{})
}

var errPicky = errors.New("no catalogue today")

func testCatalogErrorAgain(t *testing.T) {
	var failing atomic.Bool
	var asked atomic.Int64
	failing.Store(true)
	b, id := contributor(t, &failing, &asked, reply(text("hi")))
	p := b.stackOf(id)
	for i := range int64(2) {
		_, got := p.Catalog(&b.state(id).Catalog)
		must(t, "catalogue", got, errPicky)
		equal(t, "asked", asked.Load(), i+1)
	}
	failing.Store(false)
	equalLists(t, "tools", toolNames(b.offer(id, p)), []string{"a"})
	equal(t, "asked", asked.Load(), 3)
	equal(t, "level", b.offer(id, p).Tools[0].Availability, events.AvailCallable)
	equal(t, "asked once it worked", asked.Load(), 3)
}

func testCatalogError(t *testing.T) {
	var failing atomic.Bool
	var asked atomic.Int64
	failing.Store(true)
	b, id := contributor(t, &failing, &asked, reply(text("hi")))
	_, got := b.ToolCatalog(b.ctx, id)
	must(t, "catalogue", got, errPicky)
	var hook *plugin.HookError
	equal(t, "names its plugin", errors.As(got, &hook) && hook.Plugin == "picky", true)
	b.submit(id, "t1", text("go"))
	record := b.ended(id, "t1")
	equal(t, "end", record.End, events.EndFailed)
	equal(t, "code", record.Issue.Code, "tool_catalog")
	equal(t, "model calls", len(b.model.asked()), 0)

	failing.Store(false)
	equal(t, "the next turn", b.run(id, "t2", text("go")).End, events.EndFinished)
	list, got := b.ToolCatalog(b.ctx, id)
	must(t, "catalogue", got, nil)
	var item plugin.CatalogItem
	must(t, "item", json.Unmarshal(list[0], &item), nil)
	equal(t, "tool", item.Name, "a")
}
