package system

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
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// blockedSource is a plugin with the tool hold, and sources.
func blockedSource(wait func(context.Context), sources map[string]plugin.SourceFunc) plugin.Factory {
	return harness.PluginOf("holding", func(r *plugin.Registrar) {
		plugin.AddTool(r, plugin.Tool{Name: "hold", Effects: events.EffectsIdempotent}, func(ctx context.Context, _ plugin.Call, _ struct{}) (string, error) {
			wait(ctx)
			return "held", ctx.Err()
		})
		for name, tools := range sources {
			r.Source(name, tools)
		}
	})
}

// sourced starts a node with these sources, which waits that long for other nodes.
func sourced(b *harness.System, patience time.Duration, wait func(context.Context), sources map[string]plugin.SourceFunc) (n *workers.Node, kill func()) {
	b.T.Helper()
	return patient(b, patience, blockedSource(wait, sources))
}

// patient starts a node that leaves a session to others for that long where it cannot build its plugins.
func patient(b *harness.System, patience time.Duration, factories ...plugin.Factory) (n *workers.Node, kill func()) {
	b.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	runtest.WantError(b.T, "plugins", err, nil)
	n, err = workers.NewNode(workers.Config{
		Bus: bustest.Open(b.T, b.Server), Plugins: builder, Provider: "scripted", Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Patience: patience,
	})
	runtest.WantError(b.T, "node", err, nil)
	return n, b.Launch(n)
}

func pluginsAtOnce(context.Context) {}

// blocksAndSends is a model that calls hold, then send, and then is done, also in a repeat.
func blocksAndSends() []harness.Step {
	return slices.Repeat([]harness.Step{func(ctx context.Context, req llm.Request) (scripted.Answer, error) {
		results := 0
		for _, m := range req.Messages {
			for _, p := range m.Parts {
				if p.Kind == events.PartToolResult {
					results++
				}
			}
		}
		return []harness.Step{harness.Reply(harness.Call("1", "hold", "{}")), harness.Reply(harness.Call("2", "send", "{}")), harness.Reply(harness.Text("done"))}[results](ctx, req)
	}}, 16)
}

// offeredLast are the tools that the last model call offered.
func offeredLast(b *harness.System) []string { return b.Model.Offered(len(b.Model.Requests()) - 1) }

// setupSources has one node that registers sources, and a session.
func setupSources(t *testing.T, sources map[string]plugin.SourceFunc, script ...harness.Step) (*harness.System, events.SessionID) {
	t.Helper()
	b := harness.StartIdle(t, script...)
	n, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
	b.Host = n.Host()
	return b, b.Open(api.CreateRequest{})
}

// TestToolSourceTakenOver adds a source, or removes one, during a call of the turn. On every node the next model
// call has the tools of the history.
func TestToolSourceTakenOver(t *testing.T) {
	t.Parallel()
	for _, removed := range []bool{false, true} {
		for _, killed := range []bool{false, true} {
			t.Run(fmt.Sprintf("removed_%v_killed_%v", removed, killed), func(t *testing.T) {
				t.Parallel()
				b := harness.StartIdle(t, blocksAndSends()...)
				sources := map[string]plugin.SourceFunc{"mail": harness.SourceOf("send")}
				blocked, release := make(chan struct{}, 1), make(chan struct{})
				first, kill := sourced(b, time.Minute, func(ctx context.Context) {
					blocked <- struct{}{}
					select {
					case <-ctx.Done():
					case <-release:
					}
				}, sources)
				b.Host = first.Host()
				id := b.Open(api.CreateRequest{})
				before, after := []string{"hold"}, []string{"hold", "send"}
				change, outcome := b.AddSource, events.OutcomeSuccess
				if removed {
					b.AddSource(id, "mail")
					before, after = after, before
					change, outcome = b.RemoveSource, events.OutcomeFailure
				}
				b.StartTurn(id, "t1", harness.Text("go"))
				harness.Receive(b, "the held call", blocked)
				change(id, "mail")
				if killed {
					second, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
					b.Host = second.Host()
					kill()
				}
				close(release)
				runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
				runtest.EqualLists(t, "tools at first", b.Model.Offered(0), before)
				runtest.EqualLists(t, "tools then", offeredLast(b), after)
				runtest.EqualLists(t, "catalogue", catalogue(b, id), after)
				results := harness.Find[*events.ToolReturned](b, id)
				runtest.Equal(t, "results", len(results), 2)
				runtest.Equal(t, "outcome", results[len(results)-1].Results[0].Outcome, outcome)
				harness.VerifyHistory(t, b.Bus, id)
			})
		}
	}
}

// TestToolSourceElsewhere has a source that one node does not have: it leaves turns to the other, running ones
// too. Where no node has it, turns end, until it is removed.
func TestToolSourceElsewhere(t *testing.T) {
	t.Parallel()
	sources := map[string]plugin.SourceFunc{"mail": harness.SourceOf("send")}
	t.Run("queued", func(t *testing.T) {
		t.Parallel()
		b := harness.StartIdle(t, harness.Reply(harness.Call("1", "send", "{}")), harness.Reply(harness.Text("done")))
		without, _ := sourced(b, time.Minute, pluginsAtOnce, nil)
		b.Host = without.Host()
		id := b.Open(api.CreateRequest{})
		_, err := b.AddToolSource(b.Ctx, id, "mail")
		runtest.WantError(t, "add at the node without it", err, api.ErrUnknownSource)
		mentions(t, err, `no plugin of this node registers "mail": there is none`)
		with, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
		_, err = with.Host().AddToolSource(b.Ctx, id, "mail")
		runtest.WantError(t, "add", err, nil)
		_, err = with.Host().AddToolSource(b.Ctx, id, "post")
		mentions(t, err, `no plugin of this node registers "post": there is mail`)
		_, err = with.Host().RemoveToolSource(b.Ctx, id, "post")
		mentions(t, err, `the session does not have "post": there is mail`)
		b.StartTurn(id, "t1", harness.Text("go"))
		runtest.Equal(t, "end", b.AwaitTurn(id, "t1").End, events.EndFinished)
		runtest.EqualLists(t, "tools", b.Model.Offered(0), []string{"hold", "send"})
		list, err := b.ToolSources(b.Ctx, id)
		runtest.WantError(t, "sources", err, nil)
		runtest.EqualLists(t, "sources at the node without it", list, []api.ToolSource{{Name: "mail", Added: true}})
	})
	t.Run("running", func(t *testing.T) {
		t.Parallel()
		b := harness.StartIdle(t, blocksAndSends()...)
		blocked, release := make(chan struct{}, 1), make(chan struct{})
		without, _ := sourced(b, time.Minute, func(context.Context) { blocked <- struct{}{}; <-release }, nil)
		b.Host = without.Host()
		id := b.Open(api.CreateRequest{})
		b.StartTurn(id, "t1", harness.Text("go"))
		harness.Receive(b, "the held call", blocked)
		with, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
		_, err := with.Host().AddToolSource(b.Ctx, id, "mail")
		runtest.WantError(t, "add", err, nil)
		close(release)
		r := b.AwaitTurn(id, "t1")
		runtest.Equal(t, "end", r.End, events.EndFinished)
		runtest.Equal(t, "results", len(harness.Find[*events.ToolReturned](b, id)), 2)
		runtest.EqualLists(t, "tools then", offeredLast(b), []string{"hold", "send"})
		started := harness.Find[*events.TurnStarted](b, id)
		runtest.Equal(t, "worker", started[len(started)-1].Worker, with.ID())
	})
	t.Run("nowhere", func(t *testing.T) {
		t.Parallel()
		b := harness.StartIdle(t, harness.Reply(harness.Text("done")))
		with, kill := sourced(b, time.Minute, pluginsAtOnce, sources)
		b.Host = with.Host()
		id := b.Open(api.CreateRequest{})
		b.AddSource(id, "mail")
		kill()
		without, _ := sourced(b, time.Millisecond, pluginsAtOnce, nil)
		b.Host = without.Host()
		b.StartTurn(id, "t1", harness.Text("go"))
		runtest.Equal(t, "issue", b.AwaitTurn(id, "t1").Issue.Code, "plugin_build")
		b.RemoveSource(id, "mail")
		b.StartTurn(id, "t2", harness.Text("go"))
		runtest.Equal(t, "end", b.AwaitTurn(id, "t2").End, events.EndFinished)
		runtest.EqualLists(t, "tools", b.Model.Offered(0), []string{"hold"})
	})
}

// TestToolSourceKept makes sessions from one with a source: those that inherit its plugins have the source too,
// and can remove it for themselves.
func TestToolSourceKept(t *testing.T) {
	t.Parallel()
	b, id := setupSources(t, map[string]plugin.SourceFunc{"mail": harness.SourceOf("send"), "web": harness.SourceOf("get")}, harness.Reply(harness.Text("done")))
	b.AddSource(id, "web")
	b.AddSource(id, "mail")
	pluginsArchived(b, id)
	all := []string{"get", "hold", "send"}
	runtest.EqualLists(t, "catalogue after the archive", catalogue(b, id), all)
	for name, tc := range map[string]struct {
		req  api.CreateRequest
		want []string
	}{
		"copy":        {api.CreateRequest{Start: api.StartExisting, From: id}, all},
		"child_anew":  {api.CreateRequest{Parent: id, Relation: events.RelationChild}, []string{"hold"}},
		"child":       {api.CreateRequest{Parent: id, Relation: events.RelationChild, Plugins: api.PluginsFork}, all},
		"restricted":  {api.CreateRequest{Plugins: api.PluginsFork, Access: events.ToolAccess{Hidden: []string{"get"}}}, []string{"hold", "send"}},
		"only_others": {api.CreateRequest{Plugins: api.PluginsFork, Access: events.ToolAccess{Tools: []string{"hold"}}}, []string{"hold"}},
	} {
		got, err := b.CreateFrom(b.Ctx, id, tc.req)
		runtest.WantError(t, name, err, nil)
		runtest.EqualLists(t, "catalogue of "+name, catalogue(b, got.Session), tc.want)
		if slices.Contains(tc.want, "get") {
			runtest.EqualLists(t, "sources of "+name, b.StateOf(got.Session).ToolSources, []string{"web", "mail"})
			b.RemoveSource(got.Session, "web")
			runtest.EqualLists(t, "catalogue of "+name+" without it", catalogue(b, got.Session), []string{"hold", "send"})
		}
	}
	runtest.EqualLists(t, "catalogue", catalogue(b, id), all)
	runtest.WantError(t, "branch", b.BranchTo(b.Ctx, id, ""), nil)
	runtest.EqualLists(t, "catalogue after a branch", catalogue(b, id), all)
	b.RunTurn(id, "t1", harness.Text("go"))
	harness.VerifyHistory(t, b.Bus, id)
}

// TestToolSourceOverridden removes and returns a source: a host's override of its tools applies again.
func TestToolSourceOverridden(t *testing.T) {
	t.Parallel()
	b, id := setupSources(t, map[string]plugin.SourceFunc{"mail": harness.SourceOf("send", "list")})
	b.AddSource(id, "mail")
	_, err := b.SetToolsAvailability(b.Ctx, id, []string{"send"}, events.Overridden(events.AvailOff))
	runtest.WantError(t, "set", err, nil)
	b.RemoveSource(id, "mail")
	entry, ok := b.StateOf(id).Catalog.Tool("send")
	runtest.Equal(t, "kept as an orphan", ok && entry.Orphan && !entry.Callable(), true)
	_, ok = b.StateOf(id).Catalog.Tool("list")
	runtest.Equal(t, "kept without need", ok, false)
	b.AddSource(id, "mail")
	runtest.EqualLists(t, "levels", toolLevels(b.StateOf(id)), []string{"hold holding ", "list mail ", "send mail off"})
}

// TestToolSourceRefreshed has a source whose tools change: a refresh, and adding it again, shows them on every node.
func TestToolSourceRefreshed(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	names := new(atomic.Pointer[[]string])
	names.Store(&[]string{"one"})
	sources := map[string]plugin.SourceFunc{"mail": func(ctx context.Context) (*plugin.Tools, error) { return harness.SourceOf(*names.Load()...)(ctx) }}
	first, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
	second, _ := sourced(b, time.Minute, pluginsAtOnce, sources)
	b.Host = first.Host()
	id := b.Open(api.CreateRequest{})
	b.AddSource(id, "mail")
	for name, again := range map[string]func(context.Context, events.SessionID) (int64, error){
		"refreshed": first.Host().RefreshCatalog,
		"added": func(ctx context.Context, id events.SessionID) (int64, error) {
			return first.Host().AddToolSource(ctx, id, "mail")
		},
	} {
		old := catalogue(b, id)
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			runtest.EqualLists(t, "at first", catalogue(b, id), old)
		}
		names.Store(&[]string{name, "hold"}) // the plugin's own tool of that name counts
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			runtest.EqualLists(t, "before it is "+name, catalogue(b, id), old)
		}
		_, err := again(b.Ctx, id)
		runtest.WantError(t, name, err, nil)
		for _, n := range []*workers.Node{first, second} {
			b.Host = n.Host()
			runtest.EqualLists(t, "after it is "+name, catalogue(b, id), slices.Sorted(slices.Values([]string{name, "hold"})))
		}
		entry, _ := b.StateOf(id).Catalog.Tool("hold")
		runtest.Equal(t, "source of hold", entry.Source, "holding")
	}
}

// TestToolSourceRefused has every reason for which a source is refused. Nothing is recorded.
func TestToolSourceRefused(t *testing.T) {
	t.Parallel()
	broken := errors.New("the server is down")
	sources := map[string]plugin.SourceFunc{
		"mail": harness.SourceOf("send"), "same": harness.SourceOf("x", "send"), "own": harness.SourceOf("hold"), "one_too_many": harness.SourceOf(),
		"broken": func(context.Context) (*plugin.Tools, error) { return nil, broken },
		"panics": func(context.Context) (*plugin.Tools, error) { panic("no") },
	}
	for i := range events.MaxToolSources {
		sources[fmt.Sprint("s", i)] = harness.SourceOf(fmt.Sprint("tool", i))
	}
	b, id := setupSources(t, sources)
	b.AddSource(id, "mail")
	for name, want := range map[string]func(error) bool{
		"same": func(err error) bool { return fieldOf(err) == "source" }, "own": func(err error) bool { return fieldOf(err) == "source" },
		"a b": func(err error) bool { return fieldOf(err) == "source" }, "nothing": func(err error) bool { return errors.Is(err, api.ErrUnknownSource) },
		"broken": func(err error) bool { return errors.Is(err, broken) }, "panics": func(err error) bool { return errors.As(err, new(*plugin.HookError)) },
	} {
		at := b.LastSeq(id)
		if _, err := b.AddToolSource(b.Ctx, id, name); !want(err) {
			t.Errorf("add %q: got %v", name, err)
		}
		runtest.Equal(t, "last sequence after "+name, b.LastSeq(id), at)
	}
	for i := range events.MaxToolSources - 1 {
		b.AddSource(id, fmt.Sprint("s", i))
	}
	_, err := b.AddToolSource(b.Ctx, id, "one_too_many")
	limit := (*api.LimitError)(nil)
	runtest.Equal(t, "one too many", errors.As(err, &limit) && limit.What == "tool sources", true)
	runtest.WantError(t, "close", b.CloseSession(b.Ctx, id, ""), nil)
	for what, change := range map[string]func(context.Context, events.SessionID, string) (int64, error){"add": b.AddToolSource, "remove": b.RemoveToolSource} {
		_, err = change(b.Ctx, id, "mail")
		runtest.WantError(t, what+" to a closed session", err, api.ErrClosed)
		_, err = change(b.Ctx, "nobody", "mail")
		runtest.WantError(t, what+" to none", err, events.ErrNoSession)
	}
}

// fieldOf is the field that an error names.
func fieldOf(err error) string {
	if field := (*events.FieldError)(nil); errors.As(err, &field) {
		return field.Field
	}
	return ""
}

// TestToolSourceRegistered refuses plugins whose sources have no name, or the name of another source.
func TestToolSourceRegistered(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		register func(r *plugin.Registrar)
		ok       bool
	}{
		"one": {func(r *plugin.Registrar) { r.Source("mail", harness.SourceOf()) }, true},
		"twice": {func(r *plugin.Registrar) {
			r.Source("mail", harness.SourceOf())
			r.Source("mail", harness.SourceOf())
		}, false},
		"of_no_name": {func(r *plugin.Registrar) { r.Source("", harness.SourceOf()) }, false},
		"of_a_tool_before": {func(r *plugin.Registrar) {
			plugin.AddTool(r, plugin.Tool{Name: "x", Source: "mail"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
			r.Source("mail", harness.SourceOf())
		}, false},
		"of_a_tool_after": {func(r *plugin.Registrar) {
			r.Source("mail", harness.SourceOf())
			plugin.AddTool(r, plugin.Tool{Name: "x", Source: "mail"}, func(context.Context, plugin.Call, struct{}) (string, error) { return "", nil })
		}, false},
	} {
		builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{harness.PluginOf("p", tc.register)}})
		runtest.WantError(t, "host", err, nil)
		p, err := builder.BuildStack(t.Context(), plugin.BuildContext{Session: "s1"}, nil)
		runtest.Equal(t, name, err == nil, tc.ok)
		if err == nil {
			runtest.WantError(t, "unknown source", p.FollowSources([]string{"mail", "web"}), plugin.ErrNoSource)
			_, err = p.CatalogWith(t.Context(), &projector.Catalog{}, "web")
			runtest.WantError(t, "catalogue with an unknown source", err, plugin.ErrNoSource)
			p.Close()
		}
	}
}

// mentions checks that an error has a text.
func mentions(t *testing.T, err error, want string) {
	t.Helper()
	if !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("got %v, want %q in it", err, want)
	}
}
