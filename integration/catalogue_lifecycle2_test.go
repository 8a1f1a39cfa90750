package integration

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func lifecyclePlugins() []entry {
	return []entry{
		{"L11", "the creator's plugin at revision 3", "create with a fork, create fresh", "the child's plugin has that state, begins anew", testForkPlugins},
		{"L12", "a hidden tool", "the child lists and calls it", "absent, tool_unavailable", testHiddenTool},
		{"L13", "a child", "its plugins are built", "parent visible, not root; options, access and authority are theirs", testBuildContext},
		{"L14", "an unchanged configuration", "update", "no mutator, no event", testConfigUnchanged},
		{"L15", "mutator 1 fails, mutator 2 changes", "update", "2 applied, a warning of 1, told of the final policy", testMutators},
		{"L16", "a recorded provider: unknown, none, another", "open for a turn", "unavailable, unconfigured, mismatch", testProviderRules},
		{"L18", "a session", "resumed on another node", "configured with is_root, and the restoration told", testResume},
	}
}

// tally is a plugin whose tool counts.
type tally struct{ plugin.State[int] }

func (p *tally) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{Name: "count"}, func(context.Context, plugin.Call, struct{}) (int, error) {
		p.Update(func(n *int) { *n++ })
		return p.Load(), nil
	})
	simple(r, "other")
	return nil
}

func tallyFactory() plugin.Factory {
	return plugin.New("tally", func(plugin.BuildContext) (plugin.Plugin, error) { return &tally{}, nil })
}

// testForkPlugins also forks what was set of tools, and asks a node that never saw the creator.
func testForkPlugins(t *testing.T) {
	counts := func(id events.CallID) step { return reply(call(id, "count", "{}")) }
	b := setupIdle(t, counts("1"), counts("2"), counts("3"), reply(text("done")),
		counts("4"), reply(text("done")), counts("5"), reply(text("done")), counts("6"), reply(text("done")))
	n, kill := b.nodeOn(bustest.Open(t, b.server), tallyFactory())
	b.Host = n.Host()
	creator := b.open(api.CreateRequest{})
	b.run(creator, "t1", text("go"))
	saved := b.state(creator).Plugin("tally")
	equal(t, "creator's revision", saved.Revision, 3)
	equal(t, "creator's state", string(saved.State), "3")
	b.setLevel(creator, "off", "other")

	fork, err := b.CreateFrom(b.ctx, creator, api.CreateRequest{Plugins: api.PluginsFork, Relation: events.RelationChild})
	must(t, "fork", err, nil)
	fresh, err := b.CreateFrom(b.ctx, creator, api.CreateRequest{Relation: events.RelationChild})
	must(t, "fresh", err, nil)
	copied, err := b.CreateFrom(b.ctx, creator, api.CreateRequest{Start: api.StartCurrent}) // the history, no plugins
	must(t, "copy", err, nil)
	kill()
	b.node(tallyFactory())
	equal(t, "fork's revision", b.state(fork.Session).Plugin("tally").Revision, 3)
	equalLists(t, "fork's tools", levels(b.toolState(fork.Session)), []string{"count=showcased", "other=off"})
	equalLists(t, "fresh tools", levels(b.toolState(fresh.Session)), []string{"count=showcased", "other=showcased"})
	b.run(fork.Session, "t1", text("go"))
	equal(t, "count of the fork", b.messages(fork.Session)[2], "user 4=4")
	b.run(fresh.Session, "t1", text("go"))
	equal(t, "count of the fresh one", b.messages(fresh.Session)[2], "user 5=1")
	b.run(copied.Session, "t1", text("go"))
	list := b.messages(copied.Session)
	equal(t, "count of the copy", list[len(list)-2], "user 6=1")
	equal(t, "the creator's stays", string(b.state(creator).Plugin("tally").State), "3")
}

// testHiddenTool also has a grandchild: what a parent may not use, no child may.
func testHiddenTool(t *testing.T) {
	b := setupIdle(t, reply(call("1", "a", "{}"), call("2", "b", "{}")), reply(text("done")), reply(call("3", "a", "{}")), reply(text("done")))
	b.node(plugin.Func("math", func(r *plugin.Registrar) error {
		simple(r, "a", "b")
		return nil
	}))
	parent := b.open(api.CreateRequest{})
	child, err := b.CreateFrom(b.ctx, parent, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Hidden: []string{"a"}}})
	must(t, "child", err, nil)
	grandchild, err := b.CreateFrom(b.ctx, child.Session, api.CreateRequest{Relation: events.RelationChild})
	must(t, "grandchild", err, nil)
	for _, id := range []events.SessionID{child.Session, grandchild.Session} {
		list, err := b.ToolCatalog(b.ctx, id)
		must(t, "catalogue", err, nil)
		equal(t, "listed", len(list), 1)
		equal(t, "names b alone", strings.Contains(string(list[0]), `"name":"b"`), true)
		b.run(id, "t1", text("go"))
	}
	equal(t, "offered to the model", len(b.model.asked()[0].Tools), 1)
	equal(t, "called", b.messages(child.Session)[2], `user 1=[failed] tool "a" is not available in this session 2=b`)
	equal(t, "called by the grandchild", b.messages(grandchild.Session)[2], `user 3=[failed] tool "a" is not available in this session`)
	for _, r := range find[*events.ToolReturned](b, child.Session)[0].Results {
		if r.Call == 0 {
			equal(t, "code", r.Code, "tool_unavailable")
		}
	}
	equal(t, "the parent has both", len(b.toolState(parent).Tools), 2)

	// A list of what a session may use binds its children too.
	only, err := b.CreateFrom(b.ctx, parent, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Tools: []string{"b"}}})
	must(t, "child with a list", err, nil)
	for what, list := range map[string][]string{"no list": nil, "a longer list": {"a", "b"}} {
		below, err := b.CreateFrom(b.ctx, only.Session, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Tools: list}})
		must(t, "grandchild", err, nil)
		equalLists(t, "tools of a grandchild with "+what, levels(b.toolState(below.Session)), []string{"b=showcased"})
	}
}

func testBuildContext(t *testing.T) {
	var mu sync.Mutex
	built := make(map[events.SessionID]plugin.BuildContext)
	b := setupIdle(t)
	b.node(plugin.New("looks", func(c plugin.BuildContext) (plugin.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		built[c.Session] = c
		return declared(func(*plugin.Registrar) {}), nil
	}))
	parent := b.open(api.CreateRequest{})
	child, err := b.CreateFrom(b.ctx, parent, api.CreateRequest{
		Relation: events.RelationChild, Options: map[string]string{"looks": `{"deep":true}`}, Config: events.Config{Model: "small"},
		Access: events.ToolAccess{Hidden: []string{"a"}}, Subagent: events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5},
	})
	must(t, "child", err, nil)
	for _, id := range []events.SessionID{parent, child.Session} {
		_, err := b.ToolState(b.ctx, id)
		must(t, "look", err, nil)
	}
	mu.Lock()
	defer mu.Unlock()
	root, c := built[parent], built[child.Session]
	equal(t, "root", root.IsRoot(), true)
	equal(t, "root's parent", root.Parent, "")
	equal(t, "child is root", c.IsRoot(), false)
	equal(t, "child's parent", c.Parent, parent)
	equal(t, "child's authority", c.Subagent, events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5})
	equalLists(t, "child's hidden tools", c.Access.Hidden, []string{"a"})
	equal(t, "child's configuration", c.Config.Model, "small")
	options, found, err := plugin.DecodeOptions[struct{ Deep bool }](c.Options, "looks")
	must(t, "options", err, nil)
	equal(t, "child's options", found && options.Deep, true)
	_, found, err = plugin.DecodeOptions[struct{}](root.Options, "looks")
	must(t, "no options", err, nil)
	equal(t, "root's options", found, false)
}

// configured has a host with mutators, and keeps what its plugins were told and what was warned of.
type configured struct {
	mu     sync.Mutex
	asked  []string
	told   []plugin.Lifecycle
	warned []string
}

func (c *configured) note(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

var errMutator = errors.New("not today")

func (c *configured) host(b *bundle) *session.Host {
	b.t.Helper()
	factory := plugin.Func("settings", func(r *plugin.Registrar) error {
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.note(func() { c.asked = append(c.asked, "first "+now.Model) })
			now.Model = "lost"
			return now, errMutator
		})
		r.MutateConfig(func(_ context.Context, change plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.note(func() {
				c.asked = append(c.asked, "second "+change.Previous.Model+" "+change.Current.Model+" "+now.Model)
			})
			now.Effort = "high"
			return now, nil
		})
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.note(func() { c.asked = append(c.asked, "third "+now.Effort) })
			return now, nil
		})
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			c.note(func() { c.told = append(c.told, e) })
			return nil
		})
		return nil
	})
	p, err := plugin.NewHost(plugin.HostConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{factory},
		Warn: func(plugin, point string, err error) {
			c.note(func() { c.warned = append(c.warned, plugin+" "+point+" "+err.Error()) })
		},
	})
	must(b.t, "plugins", err, nil)
	h, err := session.New(session.Config{Bus: b.bus, Plugins: p})
	must(b.t, "host", err, nil)
	return h
}

func testConfigUnchanged(t *testing.T) {
	b, c := setupIdle(t), &configured{}
	b.Host = c.host(b)
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	_, err := b.ToolState(b.ctx, id) // its plugins are live, and were told of that
	must(t, "look", err, nil)
	seq := b.last(id)
	must(t, "configure", b.setModel(id, "m0"), nil)
	equal(t, "last", b.last(id), seq)
	equalLists(t, "asked", c.asked, nil)
	equal(t, "told", len(c.told), 1)

	key := func(model string) error {
		return b.Configure(b.ctx, id, api.ConfigureRequest{IdempotencyKey: "k", Change: func(now events.Config) events.Config {
			now.Model += model
			return now
		}})
	}
	must(t, "with a key", key("+"), nil)
	seq = b.last(id)
	must(t, "retried", key("+"), nil)
	equal(t, "last after the retry", b.last(id), seq)
	equal(t, "model", b.state(id).Config.Model, "m0+")
	equal(t, "told after the retry", len(c.told), 2)
}

func testMutators(t *testing.T) {
	b, c := setupIdle(t), &configured{}
	b.Host = c.host(b)
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	must(t, "configure", b.setModel(id, "m1"), nil)
	want := events.Config{Model: "m1", Effort: "high"}
	alike(t, "configuration", b.state(id).Config, want)
	equal(t, "changes", len(find[*events.SessionConfigured](b, id)), 1)
	equalLists(t, "asked", c.asked, []string{"first m1", "second m0 m1 m1", "third high"})
	equal(t, "warned", len(c.warned), 1)
	equal(t, "of the first", strings.Contains(c.warned[0], "settings config") && strings.Contains(c.warned[0], errMutator.Error()), true)
	last := c.told[len(c.told)-1]
	equal(t, "told", last.Kind, plugin.SessionConfigChanged)
	alike(t, "of", last.Change, plugin.ConfigChange{Session: id, Previous: events.Config{Model: "m0"}, Current: want})
	alike(t, "with the state after it", last.State.Config, want)
	equal(t, "not of the opening", slices.ContainsFunc(c.told[:len(c.told)-1], func(e plugin.Lifecycle) bool { return e.Kind == plugin.SessionConfigChanged }), false)
}

// called is a provider under a name of its own.
type called struct {
	llm.Provider
	name string
}

func (c called) ID() string { return c.name }

// testProviderRules also reads sessions without a provider: that needs none.
func testProviderRules(t *testing.T) {
	b := setupIdle(t, reply(text("hi")))
	provider := scripted.New(b.model.answer)
	n, err := workers.NewNode(workers.Config{Bus: b.bus, Providers: map[string]llm.Provider{
		"scripted": provider, "posing": called{provider, "real"},
	}})
	must(t, "node", err, nil)
	must(t, "start", n.Start(b.ctx), nil)
	t.Cleanup(func() { n.Stop(b.ctx) })
	b.Host = n.Host()
	for recorded, want := range map[string]struct {
		err       error
		code, say string
	}{
		"gone":   {api.ErrProviderUnavailable, "provider_unavailable", `"gone" is not registered`},
		"":       {api.ErrProviderUnconfigured, "provider_unconfigured", "not configured"},
		"posing": {api.ErrProviderMismatch, "provider_mismatch", `"posing" does not match live "real"`},
	} {
		id := b.open(api.CreateRequest{Config: events.Config{Provider: recorded}})
		b.say(id, "kept")
		_, err := b.Run(b.ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
		must(t, "turn of "+recorded, err, want.err)
		for _, other := range []error{api.ErrProviderUnavailable, api.ErrProviderUnconfigured, api.ErrProviderMismatch} {
			equal(t, "error is "+other.Error(), errors.Is(err, other), errors.Is(want.err, other))
		}
		record := b.ended(id, "t1")
		equal(t, "end", record.End, events.EndFailed)
		equal(t, "code", record.Issue.Code, want.code)
		equal(t, "message says "+want.say, strings.Contains(record.Issue.Message, want.say) && strings.Contains(record.Issue.Message, string(id)), true)
		equal(t, "readable", b.messages(id)[0], "user kept")
		_, err = b.Services(id, nil, "").Complete(b.ctx, plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "hi")}}, "test")
		must(t, "completion of "+recorded, err, want.err)

		must(t, "configure", b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
			c.Provider = "scripted"
			return c
		}}), nil)
		b.model.say("hi")
		equal(t, "once it is configured", b.run(id, "t2", text("go")).End, events.EndFinished)
	}
}

// say adds an answer to the script.
func (m *model) say(s string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.script = append(m.script[:len(m.requests)], reply(text(s)))
}

// resumed is what a session's plugins were told when it came to life on a node.
type resumed struct {
	mu   sync.Mutex
	list []string
}

func (r *resumed) factories(node string) []plugin.Factory {
	note := func(s string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, node+": "+s)
	}
	return []plugin.Factory{
		speaks(protocol{configure: func(rt *plugin.ProtocolRuntime, m plugin.Materialization) {
			if m.IsRoot {
				note("configured root, has " + string(rt.Options()))
			} else {
				note("configured child of options " + m.Options["looks"])
			}
			rt.SetOptions([]byte(`{"n":1}`))
		}}),
		declares("looks", func(r *plugin.Registrar) {
			r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
				if e.Kind != plugin.SessionRestored {
					return nil
				}
				if e.State.Parent == "" {
					note("restored root at " + e.State.Config.Model)
				} else {
					note("restored child")
				}
				return nil
			})
		}),
	}
}

// take gives what was noted of a root or a child since it was asked last.
func (r *resumed) take(of string) (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = slices.DeleteFunc(r.list, func(s string) bool {
		mine := strings.Contains(s, of)
		if mine {
			list = append(list, s)
		}
		return mine
	})
	return list
}

func testResume(t *testing.T) {
	hung := make(chan struct{})
	b := setupIdle(t, reply(text("one")), reply(text("two")), hangs(hung), reply(text("three")))
	first, second := &resumed{}, &resumed{}
	n, kill := b.nodeOn(bustest.Open(t, b.server), first.factories("first")...)
	b.Host = n.Host()
	root := b.open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	child, err := b.CreateFrom(b.ctx, root, api.CreateRequest{Relation: events.RelationChild, Options: map[string]string{"looks": `{}`}})
	must(t, "child", err, nil)
	b.run(root, "t1", text("go"))
	equalLists(t, "opened", first.take("root"), []string{"first: configured root, has ", "first: restored root at m0"})
	b.run(child.Session, "t1", text("go"))
	equalLists(t, "child opened", first.take("child"), []string{"first: configured child of options {}", "first: restored child"})
	equal(t, "recorded", string(b.state(root).Frame().Options), `{"n":1}`)
	b.submit(root, "t2", text("again"))
	b.wait("the model to be asked", hung)
	equalLists(t, "a live one is not opened again", first.take("root"), nil)

	kill() // in the middle of the turn
	b.node(second.factories("second")...)
	equal(t, "end", b.ended(root, "t2").End, events.EndFinished)
	equalLists(t, "resumed", second.take("root"), []string{`second: configured root, has {"n":1}`, "second: restored root at m0"})
	equal(t, "recorded once", len(find[*events.FrameConfigured](b, root)), 1)
	b.await(root, "the end", func(s *projector.State) bool { return s.Idle() })
}
