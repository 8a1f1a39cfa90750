package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// ofNames is a source of simple tools.
func ofNames(names ...string) plugin.SourceFunc {
	return func(context.Context) (*plugin.Tools, error) {
		set := plugin.NewTools()
		simple(set, names...)
		return set, nil
	}
}

// holding is a plugin with the tool hold, and sources.
func holding(wait func(context.Context), sources map[string]plugin.SourceFunc) plugin.Factory {
	return declares("holding", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "hold", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			wait(ctx)
			return "held", ctx.Err()
		})
		for name, tools := range sources {
			r.Source(name, tools)
		}
	})
}

// sourced starts a node of that patience.
func (b *bundle) sourced(patience time.Duration, wait func(context.Context), sources map[string]plugin.SourceFunc) (n *workers.Node, kill func()) {
	b.t.Helper()
	return b.patient(patience, holding(wait, sources))
}

// patient starts a node that leaves sessions to others for so long, whose plugins it cannot build.
func (b *bundle) patient(patience time.Duration, factories ...plugin.Factory) (n *workers.Node, kill func()) {
	b.t.Helper()
	stack, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	must(b.t, "plugins", err, nil)
	n, err = workers.NewNode(workers.Config{
		Bus: bustest.Open(b.t, b.server), Plugins: stack, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(b.model.answer)}, Patience: patience,
	})
	must(b.t, "node", err, nil)
	return n, b.startNode(n)
}

func atOnce(context.Context) {}

// holdsAndSends is a model that calls hold, then send, and then is done, also where it is asked again.
func holdsAndSends() []step {
	return slices.Repeat([]step{func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		results := 0
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if p.Kind == events.PartToolResult {
					results++
				}
			}
		}
		return []step{reply(call("1", "hold", "{}")), reply(call("2", "send", "{}")), reply(text("done"))}[results](ctx, req)
	}}, 16)
}

// offeredLast are the tools that the model was told of in its last call.
func (b *bundle) offeredLast() []string { return b.model.offered(len(b.model.asked()) - 1) }

// setupSources has one node that registers sources, and a session.
func setupSources(t *testing.T, sources map[string]plugin.SourceFunc, script ...step) (*bundle, events.SessionID) {
	t.Helper()
	b := setupIdle(t, script...)
	n, _ := b.sourced(time.Minute, atOnce, sources)
	b.Host = n.Host()
	return b, b.open(api.CreateRequest{})
}

func (b *bundle) addSource(id events.SessionID, source string) {
	b.t.Helper()
	_, err := b.AddToolSource(b.ctx, id, source)
	must(b.t, "add "+source, err, nil)
}

func (b *bundle) removeSource(id events.SessionID, source string) {
	b.t.Helper()
	_, err := b.RemoveToolSource(b.ctx, id, source)
	must(b.t, "remove "+source, err, nil)
}

// TestToolSourceTakenOver adds a source, or removes one, while a call of the
// turn runs. Whichever node goes on, the model has the tools of the history with its next call.
func TestToolSourceTakenOver(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("removed_%v_killed_%v", removed, killed), func(t *testing.T) {
				t.Parallel()
				b := setupIdle(t, holdsAndSends()...)
				sources := map[string]plugin.SourceFunc{"mail": ofNames("send")}
				held, release := make(chan struct{}, 1), make(chan struct{})
				first, kill := b.sourced(time.Minute, func(ctx context.Context) {
					held <- struct{}{}
					select {
					case <-ctx.Done():
					case <-release:
					}
				}, sources)
				b.Host = first.Host()
				id := b.open(api.CreateRequest{})
				before, after := []string{"hold"}, []string{"hold", "send"}
				change, outcome := b.addSource, events.OutcomeSuccess
				if removed {
					b.addSource(id, "mail")
					before, after = after, before
					change, outcome = b.removeSource, events.OutcomeFailure
				}
				b.submit(id, "t1", text("go"))
				receive(b, "the held call", held)
				change(id, "mail")
				if killed {
					second, _ := b.sourced(time.Minute, atOnce, sources)
					b.Host = second.Host()
					kill()
				}
				close(release)
				equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
				equalLists(t, "tools at first", b.model.offered(0), before)
				equalLists(t, "tools then", b.offeredLast(), after)
				equalLists(t, "catalogue", b.catalogue(id), after)
				results := find[*events.ToolReturned](b, id)
				equal(t, "results", len(results), 2)
				equal(t, "outcome", results[len(results)-1].Results[0].Outcome, outcome)
				verified(t, b.bus, id)
			})
		}
	}
}

// TestToolSourceElsewhere has a source that one node does not have: it leaves
// turns to the other, those that run too. Where no node has it, turns end, until it is removed.
func TestToolSourceElsewhere(t *testing.T) {
	t.Parallel()
	sources := map[string]plugin.SourceFunc{"mail": ofNames("send")}
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		b := setupIdle(t, reply(call("1", "send", "{}")), reply(text("done")))
		without, _ := b.sourced(time.Minute, atOnce, nil)
		b.Host = without.Host()
		id := b.open(api.CreateRequest{})
		_, err := b.AddToolSource(b.ctx, id, "mail")
		must(t, "add at the node without it", err, api.ErrUnknownSource)
		mentions(t, err, `no plugin of this node registers "mail": there is none`)
		with, _ := b.sourced(time.Minute, atOnce, sources)
		_, err = with.Host().AddToolSource(b.ctx, id, "mail")
		must(t, "add", err, nil)
		_, err = with.Host().AddToolSource(b.ctx, id, "post")
		mentions(t, err, `no plugin of this node registers "post": there is mail`)
		_, err = with.Host().RemoveToolSource(b.ctx, id, "post")
		mentions(t, err, `the session does not have "post": there is mail`)
		b.submit(id, "t1", text("go"))
		equal(t, "end", b.ended(id, "t1").End, events.EndFinished)
		equalLists(t, "tools", b.model.offered(0), []string{"hold", "send"})
		list, err := b.ToolSources(b.ctx, id)
		must(t, "sources", err, nil)
		equalLists(t, "sources at the node without it", list, []api.ToolSource{{Name: "mail", Added: true}})
	})
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		b := setupIdle(t, holdsAndSends()...)
		held, release := make(chan struct{}, 1), make(chan struct{})
		without, _ := b.sourced(time.Minute, func(context.Context) { held <- struct{}{}; <-release }, nil)
		b.Host = without.Host()
		id := b.open(api.CreateRequest{})
		b.submit(id, "t1", text("go"))
		receive(b, "the held call", held)
		with, _ := b.sourced(time.Minute, atOnce, sources)
		_, err := with.Host().AddToolSource(b.ctx, id, "mail")
		must(t, "add", err, nil)
		close(release)
		r := b.ended(id, "t1")
		equal(t, "end", r.End, events.EndFinished)
		equal(t, "results", len(find[*events.ToolReturned](b, id)), 2)
		equalLists(t, "tools then", b.offeredLast(), []string{"hold", "send"})
		started := find[*events.TurnStarted](b, id)
		equal(t, "worker", started[len(started)-1].Worker, with.ID())
	})
	t.Run("nowhere", func(t *testing.T) {
		t.Parallel()
		b := setupIdle(t, reply(text("done")))
		with, kill := b.sourced(time.Minute, atOnce, sources)
		b.Host = with.Host()
		id := b.open(api.CreateRequest{})
		b.addSource(id, "mail")
		kill()
		without, _ := b.sourced(time.Millisecond, atOnce, nil)
		b.Host = without.Host()
		b.submit(id, "t1", text("go"))
		equal(t, "issue", b.ended(id, "t1").Issue.Code, "plugin_build")
		b.removeSource(id, "mail")
		b.submit(id, "t2", text("go"))
		equal(t, "end", b.ended(id, "t2").End, events.EndFinished)
		equalLists(t, "tools", b.model.offered(0), []string{"hold"})
	})
}

// TestToolSourceKept makes sessions of one that has a source: those that take over
// its plugins have it too, and take it away for themselves.
func TestToolSourceKept(t *testing.T) {
	t.Parallel()
	b, id := setupSources(t, map[string]plugin.SourceFunc{"mail": ofNames("send"), "web": ofNames("get")}, reply(text("done")))
	b.addSource(id, "web")
	b.addSource(id, "mail")
	archived(b, id)
	all := []string{"get", "hold", "send"}
	equalLists(t, "catalogue after the archive", b.catalogue(id), all)
	for name, tc := range map[string]struct {
		req  api.CreateRequest
		want []string
	}{
		"fork":        {api.CreateRequest{Start: api.StartExisting, From: id, Plugins: api.PluginsFork}, all},
		"fork_anew":   {api.CreateRequest{Start: api.StartExisting, From: id}, []string{"hold"}},
		"child":       {api.CreateRequest{Parent: id, Relation: events.RelationChild, Plugins: api.PluginsFork}, all},
		"restricted":  {api.CreateRequest{Plugins: api.PluginsFork, Access: events.ToolAccess{Hidden: []string{"get"}}}, []string{"hold", "send"}},
		"only_others": {api.CreateRequest{Plugins: api.PluginsFork, Access: events.ToolAccess{Tools: []string{"hold"}}}, []string{"hold"}},
	} {
		got, err := b.CreateFrom(b.ctx, id, tc.req)
		must(t, name, err, nil)
		equalLists(t, "catalogue of "+name, b.catalogue(got.Session), tc.want)
		if slices.Contains(tc.want, "get") {
			equalLists(t, "sources of "+name, b.state(got.Session).ToolSources, []string{"web", "mail"})
			b.removeSource(got.Session, "web")
			equalLists(t, "catalogue of "+name+" without it", b.catalogue(got.Session), []string{"hold", "send"})
		}
	}
	equalLists(t, "catalogue", b.catalogue(id), all)
	must(t, "branch", b.BranchTo(b.ctx, id, ""), nil)
	equalLists(t, "catalogue after a branch", b.catalogue(id), all)
	b.run(id, "t1", text("go"))
	verified(t, b.bus, id)
}

// TestToolSourceOverridden removes and returns a source: what a host set for its tools counts again.
func TestToolSourceOverridden(t *testing.T) {
	t.Parallel()
	b, id := setupSources(t, map[string]plugin.SourceFunc{"mail": ofNames("send", "list")})
	b.addSource(id, "mail")
	_, err := b.SetToolsAvailability(b.ctx, id, []string{"send"}, events.Overridden(events.AvailOff))
	must(t, "set", err, nil)
	b.removeSource(id, "mail")
	entry, ok := b.state(id).Catalog.Tool("send")
	equal(t, "kept as an orphan", ok && entry.Orphan && !entry.Callable(), true)
	_, ok = b.state(id).Catalog.Tool("list")
	equal(t, "kept without need", ok, false)
	b.addSource(id, "mail")
	equalLists(t, "levels", toolLevels(b.state(id)), []string{"hold holding ", "list mail ", "send mail off"})
}

// TestToolSourceRefreshed has a source whose tools change: a refresh, and adding it again, shows them on every node.
func TestToolSourceRefreshed(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	names := new(atomic.Pointer[[]string])
	names.Store(&[]string{"one"})
	sources := map[string]plugin.SourceFunc{"mail": func(ctx context.Context) (*plugin.Tools, error) { return ofNames(*names.Load()...)(ctx) }}
	first, _ := b.sourced(time.Minute, atOnce, sources)
	second, _ := b.sourced(time.Minute, atOnce, sources)
	b.Host = first.Host()
	id := b.open(api.CreateRequest{})
	b.addSource(id, "mail")
	for name, again := range map[string]func(context.Context, events.SessionID) (int64, error){
		"refreshed": first.Host().RefreshCatalog,
		"added": func(ctx context.Context, id events.SessionID) (int64, error) {
			return first.Host().AddToolSource(ctx, id, "mail")
		},
	} {
		old := b.catalogue(id)
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			equalLists(t, "at first", b.catalogue(id), old)
		}
		names.Store(&[]string{name, "hold"}) // the plugin's own tool of that name counts
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			equalLists(t, "before it is "+name, b.catalogue(id), old)
		}
		_, err := again(b.ctx, id)
		must(t, name, err, nil)
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			equalLists(t, "after it is "+name, b.catalogue(id), slices.Sorted(slices.Values([]string{name, "hold"})))
		}
		entry, _ := b.state(id).Catalog.Tool("hold")
		equal(t, "source of hold", entry.Source, "holding")
	}
}

// TestToolSourceRefused has every reason for which a source is not added. Nothing is recorded.
func TestToolSourceRefused(t *testing.T) {
	t.Parallel()
	broken := errors.New("the server is down")
	sources := map[string]plugin.SourceFunc{
		"mail": ofNames("send"), "same": ofNames("x", "send"), "own": ofNames("hold"), "one_too_many": ofNames(),
		"broken": func(context.Context) (*plugin.Tools, error) { return nil, broken },
		"panics": func(context.Context) (*plugin.Tools, error) { panic("no") },
	}
	for i := range events.MaxToolSources {
		sources[fmt.Sprint("s", i)] = ofNames(fmt.Sprint("tool", i))
	}
	b, id := setupSources(t, sources)
	b.addSource(id, "mail")
	for name, want := range map[string]func(error) bool{
		"same": func(err error) bool { return fieldOf(err) == "source" }, "own": func(err error) bool { return fieldOf(err) == "source" },
		"a b": func(err error) bool { return fieldOf(err) == "source" }, "nothing": func(err error) bool { return errors.Is(err, api.ErrUnknownSource) },
		"broken": func(err error) bool { return errors.Is(err, broken) }, "panics": func(err error) bool { return errors.As(err, new(*plugin.HookError)) },
	} {
		at := b.last(id)
		if _, err := b.AddToolSource(b.ctx, id, name); !want(err) {
			t.Errorf("add %q: got %v", name, err)
		}
		equal(t, "last sequence after "+name, b.last(id), at)
	}
	for i := range events.MaxToolSources - 1 {
		b.addSource(id, fmt.Sprint("s", i))
	}
	_, err := b.AddToolSource(b.ctx, id, "one_too_many")
	limit := (*api.LimitError)(nil)
	equal(t, "one too many", errors.As(err, &limit) && limit.What == "tool sources", true)
	must(t, "close", b.CloseSession(b.ctx, id, ""), nil)
	for what, change := range map[string]func(context.Context, events.SessionID, string) (int64, error){"add": b.AddToolSource, "remove": b.RemoveToolSource} {
		_, err = change(b.ctx, id, "mail")
		must(t, what+" to a closed session", err, api.ErrClosed)
		_, err = change(b.ctx, "nobody", "mail")
		must(t, what+" to none", err, events.ErrNoSession)
	}
}

// fieldOf is the field that an error names.
func fieldOf(err error) string {
	if field := (*events.FieldError)(nil); errors.As(err, &field) {
		return field.Field
	}
	return ""
}

// TestToolSourceRegistered refuses plugins whose sources nothing could tell apart.
func TestToolSourceRegistered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		register func(r *plugin.Registrar)
		ok       bool
	}{
		"one": {func(r *plugin.Registrar) { r.Source("mail", ofNames()) }, true},
		"twice": {func(r *plugin.Registrar) {
			r.Source("mail", ofNames())
			r.Source("mail", ofNames())
		}, false},
		"of_no_name": {func(r *plugin.Registrar) { r.Source("", ofNames()) }, false},
		"of_a_tool_before": {func(r *plugin.Registrar) {
			plugin.AddTool(r, plugin.Tool{Name: "x", Source: "mail"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
			r.Source("mail", ofNames())
		}, false},
		"of_a_tool_after": {func(r *plugin.Registrar) {
			r.Source("mail", ofNames())
			plugin.AddTool(r, plugin.Tool{Name: "x", Source: "mail"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		}, false},
	} {
		h, err := plugin.NewHost(plugin.HostConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{declares("p", tc.register)}})
		must(t, "host", err, nil)
		p, err := h.BuildSession(t.Context(), plugin.BuildContext{Session: "s1"}, nil)
		equal(t, name, err == nil, tc.ok)
		if err == nil {
			must(t, "unknown source", p.FollowSources([]string{"mail", "web"}), plugin.ErrNoSource)
			_, err = p.CatalogWith(&projector.Catalog{}, "web")
			must(t, "catalogue with an unknown source", err, plugin.ErrNoSource)
			p.Close()
		}
	}
}

// mentions holds the text of an error.
func mentions(t *testing.T, err error, want string) {
	t.Helper()
	if !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}
