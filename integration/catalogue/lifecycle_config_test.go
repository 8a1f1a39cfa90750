package catalogue

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

func lifecycleConfigEntries() []entry {
	return []entry{
		{"L11", "forked child has the plugin state", "the creator's plugin at revision 3", "create with a fork, create fresh", "the child's plugin has that state, begins anew", testForkPlugins},
		{"L12", "hidden tool is absent and unavailable", "a hidden tool", "the child lists and calls it", "absent, tool_unavailable", testHiddenTool},
		{"L13", "plugins of a child see its parent and options", "a child", "its plugins are built", "parent visible, not root; options, access and authority are theirs", testBuildContext},
		{"L14", "unchanged configuration has no event", "an unchanged configuration", "update", "no mutator, no event", testConfigUnchanged},
		{"L15", "failed mutator does not stop the others", "mutator 1 fails, mutator 2 changes", "update", "2 applied, a warning of 1, told of the final policy", testMutators},
		{"L16", "recorded provider must match the one of the node", "a recorded provider: unknown, none, another", "open for a turn", "unavailable, unconfigured, mismatch", testProviderRules},
		{"L18", "resumed session is configured and restored", "a session", "resumed on another node", "configured with is_root, and the restoration told", testResume},
	}
}

// tally is a plugin whose tool counts.
type tally struct{ plugin.State[int] }

func (p *tally) Register(r *plugin.Registrar) error {
	plugin.AddTool(r, plugin.Tool{Name: "count"}, func(context.Context, plugin.Call, struct{}) (int, error) {
		p.Update(func(n *int) { *n++ })
		return p.Load(), nil
	})
	harness.NamedTools(r, "other")
	return nil
}

func tallyFactory() plugin.Factory {
	return plugin.New("tally", func(plugin.BuildContext) (plugin.Plugin, error) { return &tally{}, nil })
}

// testForkPlugins also forks the tool settings, and reads the child on a node that never had the creator.
func testForkPlugins(t *testing.T) {
	counts := func(id events.CallID) harness.Step { return harness.Reply(harness.Call(id, "count", "{}")) }
	b := harness.StartIdle(t, counts("1"), counts("2"), counts("3"), harness.Reply(harness.Text("done")),
		counts("4"), harness.Reply(harness.Text("done")), counts("5"), harness.Reply(harness.Text("done")), counts("6"), harness.Reply(harness.Text("done")))
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), tallyFactory())
	b.Host = n.Host()
	creator := b.Open(api.CreateRequest{})
	b.RunTurn(creator, "t1", harness.Text("go"))
	saved := b.StateOf(creator).Plugin("tally")
	runtest.Equal(t, "creator's revision", saved.Revision, 3)
	runtest.Equal(t, "creator's state", string(saved.State), "3")
	setLevel(b, creator, "off", "other")

	fork, err := b.CreateFrom(b.Ctx, creator, api.CreateRequest{Plugins: api.PluginsFork, Relation: events.RelationChild})
	runtest.WantError(t, "fork", err, nil)
	fresh, err := b.CreateFrom(b.Ctx, creator, api.CreateRequest{Relation: events.RelationChild})
	runtest.WantError(t, "fresh", err, nil)
	copied, err := b.CreateFrom(b.Ctx, creator, api.CreateRequest{Start: api.StartCurrent})
	runtest.WantError(t, "copy", err, nil)
	kill()
	b.StartNode(tallyFactory())
	runtest.Equal(t, "fork's revision", b.StateOf(fork.Session).Plugin("tally").Revision, 3)
	runtest.EqualLists(t, "fork's tools", levels(toolState(b, fork.Session)), []string{"count=showcased", "other=off"})
	runtest.EqualLists(t, "fresh tools", levels(toolState(b, fresh.Session)), []string{"count=showcased", "other=showcased"})
	b.RunTurn(fork.Session, "t1", harness.Text("go"))
	runtest.Equal(t, "count of the fork", b.Messages(fork.Session)[2], "user 4=4")
	b.RunTurn(fresh.Session, "t1", harness.Text("go"))
	runtest.Equal(t, "count of the fresh one", b.Messages(fresh.Session)[2], "user 5=1")
	b.RunTurn(copied.Session, "t1", harness.Text("go"))
	list := b.Messages(copied.Session)
	runtest.Equal(t, "count of the copy", list[len(list)-2], "user 6=4")
	runtest.Equal(t, "the creator's stays", string(b.StateOf(creator).Plugin("tally").State), "3")
}

// testHiddenTool also has a grandchild: a tool that is hidden from the parent is hidden from its children.
func testHiddenTool(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Call("1", "a", "{}"), harness.Call("2", "b", "{}")), harness.Reply(harness.Text("done")), harness.Reply(harness.Call("3", "a", "{}")), harness.Reply(harness.Text("done")))
	b.StartNode(plugin.Func("math", func(r *plugin.Registrar) error {
		harness.NamedTools(r, "a", "b")
		return nil
	}))
	parent := b.Open(api.CreateRequest{})
	child, err := b.CreateFrom(b.Ctx, parent, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Hidden: []string{"a"}}})
	runtest.WantError(t, "child", err, nil)
	grandchild, err := b.CreateFrom(b.Ctx, child.Session, api.CreateRequest{Relation: events.RelationChild})
	runtest.WantError(t, "grandchild", err, nil)
	for _, id := range []events.SessionID{child.Session, grandchild.Session} {
		list, err := b.ToolCatalog(b.Ctx, id)
		runtest.WantError(t, "catalogue", err, nil)
		runtest.Equal(t, "listed", len(list), 1)
		runtest.Equal(t, "names b alone", strings.Contains(string(list[0]), `"name":"b"`), true)
		b.RunTurn(id, "t1", harness.Text("go"))
	}
	runtest.Equal(t, "offered to the model", len(b.Model.Requests()[0].Tools), 1)
	runtest.Equal(t, "called", b.Messages(child.Session)[2], `user 1=[failed] tool "a" is not available in this session 2=b`)
	runtest.Equal(t, "called by the grandchild", b.Messages(grandchild.Session)[2], `user 3=[failed] tool "a" is not available in this session`)
	for _, r := range harness.Find[*events.ToolReturned](b, child.Session)[0].Results {
		if r.Call == 0 {
			runtest.Equal(t, "code", r.Code, "tool_unavailable")
		}
	}
	runtest.Equal(t, "the parent has both", len(toolState(b, parent).Tools), 2)

	// The list of allowed tools of a session also restricts its children.
	only, err := b.CreateFrom(b.Ctx, parent, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Tools: []string{"b"}}})
	runtest.WantError(t, "child with a list", err, nil)
	for what, list := range map[string][]string{"no list": nil, "a longer list": {"a", "b"}} {
		below, err := b.CreateFrom(b.Ctx, only.Session, api.CreateRequest{Relation: events.RelationChild, Access: events.ToolAccess{Tools: list}})
		runtest.WantError(t, "grandchild", err, nil)
		runtest.EqualLists(t, "tools of a grandchild with "+what, levels(toolState(b, below.Session)), []string{"b=showcased"})
	}
}

func testBuildContext(t *testing.T) {
	var mu sync.Mutex
	built := make(map[events.SessionID]plugin.BuildContext)
	b := harness.StartIdle(t)
	b.StartNode(plugin.New("looks", func(c plugin.BuildContext) (plugin.Plugin, error) {
		mu.Lock()
		defer mu.Unlock()
		built[c.Session] = c
		return harness.Registration(func(*plugin.Registrar) {}), nil
	}))
	parent := b.Open(api.CreateRequest{})
	child, err := b.CreateFrom(b.Ctx, parent, api.CreateRequest{
		Relation: events.RelationChild, Options: map[string]string{"looks": `{"deep":true}`}, Config: events.Config{Model: "small"},
		Access: events.ToolAccess{Hidden: []string{"a"}}, Subagent: events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5},
	})
	runtest.WantError(t, "child", err, nil)
	for _, id := range []events.SessionID{parent, child.Session} {
		_, err := b.ToolState(b.Ctx, id)
		runtest.WantError(t, "look", err, nil)
	}
	mu.Lock()
	defer mu.Unlock()
	root, c := built[parent], built[child.Session]
	runtest.Equal(t, "root's parent", root.Parent, "")
	runtest.Equal(t, "child's parent", c.Parent, parent)
	runtest.Equal(t, "child's authority", c.Subagent, events.Subagent{Capability: "explore", Depth: 1, MaxDepth: 5})
	runtest.EqualLists(t, "child's hidden tools", c.Access.Hidden, []string{"a"})
	runtest.Equal(t, "child's configuration", c.Config.Model, "small")
	options, found, err := plugin.DecodeOptions[struct{ Deep bool }](c.Options, "looks")
	runtest.WantError(t, "options", err, nil)
	runtest.Equal(t, "child's options", found && options.Deep, true)
	_, found, err = plugin.DecodeOptions[struct{}](root.Options, "looks")
	runtest.WantError(t, "no options", err, nil)
	runtest.Equal(t, "root's options", found, false)
}

// configured has a host with mutators, and records the notifications of its plugins and the warnings.
type configured struct {
	mu        sync.Mutex
	calls     []string
	lifecycle []plugin.Lifecycle
	warned    []string
}

func (c *configured) record(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
}

var errMutator = errors.New("not today")

func (c *configured) host(b *harness.System) *session.Host {
	b.T.Helper()
	factory := plugin.Func("settings", func(r *plugin.Registrar) error {
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.record(func() { c.calls = append(c.calls, "first "+now.Model) })
			now.Model = "lost"
			return now, errMutator
		})
		r.MutateConfig(func(_ context.Context, change plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.record(func() {
				c.calls = append(c.calls, "second "+change.Previous.Model+" "+change.Current.Model+" "+now.Model)
			})
			now.Effort = "high"
			return now, nil
		})
		r.MutateConfig(func(_ context.Context, _ plugin.ConfigChange, now events.Config) (events.Config, error) {
			c.record(func() { c.calls = append(c.calls, "third "+now.Effort) })
			return now, nil
		})
		r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
			c.record(func() { c.lifecycle = append(c.lifecycle, e) })
			return nil
		})
		return nil
	})
	return b.StartNodeWith(workers.Config{}, plugin.BuilderConfig{
		Builtins: []plugin.Factory{standard.Factory()}, Factories: []plugin.Factory{factory},
		Warn: func(plugin, point string, err error) {
			c.record(func() { c.warned = append(c.warned, plugin+" "+point+" "+err.Error()) })
		},
	}).Host()
}

// changes are the changes of which the plugins were notified, once they were notified of all.
func (c *configured) changes(b *harness.System, id events.SessionID) (list []plugin.Lifecycle) {
	b.T.Helper()
	b.AwaitState(id, "that plugins were notified", harness.AllNotified)
	c.record(func() {
		for _, e := range c.lifecycle {
			if e.Kind == plugin.SessionConfigChanged {
				list = append(list, e)
			}
		}
	})
	return list
}

func testConfigUnchanged(t *testing.T) {
	b, c := harness.StartIdle(t), &configured{}
	b.Host = c.host(b)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	_, err := b.ToolState(b.Ctx, id) // its plugins are live, and were notified of that
	runtest.WantError(t, "look", err, nil)
	seq := b.LastSeq(id)
	runtest.WantError(t, "configure", b.SetModel(id, "m0"), nil)
	runtest.Equal(t, "last", b.LastSeq(id), seq)
	runtest.EqualLists(t, "calls", c.calls, nil)
	runtest.Equal(t, "notified", len(c.changes(b, id)), 0)

	key := func(model string) error {
		return b.Configure(b.Ctx, id, api.ConfigureRequest{IdempotencyKey: "k", Change: func(now events.Config) events.Config {
			now.Model += model
			return now
		}})
	}
	runtest.WantError(t, "with a key", key("+"), nil)
	runtest.Equal(t, "told", len(c.changes(b, id)), 1)
	seq = b.LastSeq(id)
	runtest.WantError(t, "retried", key("+"), nil)
	runtest.Equal(t, "last after the retry", b.LastSeq(id), seq)
	runtest.Equal(t, "model", b.StateOf(id).Config.Model, "m0+")
	runtest.Equal(t, "told after the retry", len(c.changes(b, id)), 1)
}

func testMutators(t *testing.T) {
	b, c := harness.StartIdle(t), &configured{}
	b.Host = c.host(b)
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	runtest.WantError(t, "configure", b.SetModel(id, "m1"), nil)
	want := events.Config{Model: "m1", Effort: "high"}
	runtest.DeepEqual(t, "configuration", b.StateOf(id).Config, want)
	runtest.Equal(t, "changes", len(harness.Find[*events.SessionConfigured](b, id)), 1)
	runtest.EqualLists(t, "calls", c.calls, []string{"first m1", "second m0 m1 m1", "third high"})
	runtest.Equal(t, "warned", len(c.warned), 1)
	runtest.Equal(t, "of the first", strings.Contains(c.warned[0], "settings config") && strings.Contains(c.warned[0], errMutator.Error()), true)
	told := c.changes(b, id)
	runtest.Equal(t, "notified", len(told), 1)
	runtest.DeepEqual(t, "of", told[0].Change, plugin.ConfigChange{Session: id, Previous: events.Config{Model: "m0"}, Current: want})
	runtest.DeepEqual(t, "with the state after it", told[0].State.Config, want)
}

// called is a provider with another name.
type called struct {
	llm.Provider
	name string
}

func (c called) ID() string { return c.name }

// testProviderRules also reads sessions without a provider: reads need none.
func testProviderRules(t *testing.T) {
	b := harness.StartIdle(t, harness.Reply(harness.Text("hi")))
	provider := scripted.New(b.Model.Answer)
	n, err := workers.NewNode(workers.Config{Bus: b.Bus, Providers: map[string]llm.Provider{
		"scripted": provider, "posing": called{provider, "real"}, "backup": called{provider, "backup"}, "locked": called{provider, "locked"},
	}, Locks: lock.Locks{Providers: []string{"scripted", "posing", "backup", "gone"}}})
	runtest.WantError(t, "node", err, nil)
	runtest.WantError(t, "start", n.Start(b.Ctx), nil)
	t.Cleanup(func() { n.Stop(b.Ctx) })
	b.Host = n.Host()
	for recorded, want := range map[string]struct {
		err       error
		code, say string
	}{
		"gone":   {api.ErrProviderUnavailable, "provider_unavailable", `"gone" is not registered`},
		"":       {api.ErrProviderUnconfigured, "provider_unconfigured", "not configured"},
		"posing": {api.ErrProviderMismatch, "provider_mismatch", `"posing" does not match live "real"`},
	} {
		id := b.Open(api.CreateRequest{Config: events.Config{Provider: recorded}})
		b.AppendTexts(id, "kept")
		_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: "t1", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
		runtest.WantError(t, "turn of "+recorded, err, want.err)
		for _, other := range []error{api.ErrProviderUnavailable, api.ErrProviderUnconfigured, api.ErrProviderMismatch} {
			runtest.Equal(t, "error is "+other.Error(), errors.Is(err, other), errors.Is(want.err, other))
		}
		record := b.AwaitTurn(id, "t1")
		runtest.Equal(t, "end", record.End, events.EndFailed)
		runtest.Equal(t, "code", record.Issue.Code, want.code)
		runtest.Equal(t, "message says "+want.say, strings.Contains(record.Issue.Message, want.say) && strings.Contains(record.Issue.Message, string(id)), true)
		runtest.Equal(t, "message names the providers that the locks allow", strings.HasSuffix(record.Issue.Message, ": config.provider may be backup, scripted"), recorded != "posing")
		runtest.Equal(t, "readable", b.Messages(id)[0], "user kept")
		_, err = b.Worker().RuntimeHost(id, nil, "").Complete(b.Ctx, plugin.CompletionRequest{Messages: []events.Message{plugin.Say(events.RoleUser, "hi")}}, "test")
		runtest.WantError(t, "completion of "+recorded, err, want.err)

		runtest.WantError(t, "configure", b.Configure(b.Ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
			c.Provider = "scripted"
			return c
		}}), nil)
		b.Model.AddReply("hi")
		runtest.Equal(t, "once it is configured", b.RunTurn(id, "t2", harness.Text("go")).End, events.EndFinished)
	}
}

// resumed records the calls of a session's plugins when a node restores the session.
type resumed struct {
	mu   sync.Mutex
	list []string
}

func (r *resumed) factories(node string) []plugin.Factory {
	record := func(s string) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.list = append(r.list, node+": "+s)
	}
	return []plugin.Factory{
		harness.ProtocolPlugin(harness.Protocol{OnConfigure: func(rt *plugin.ProtocolRuntime, m plugin.Materialization) {
			if m.IsRoot {
				record("configured root, has " + string(rt.Options()))
			} else {
				record("configured child of options " + m.Options["looks"])
			}
			rt.SetOptions([]byte(`{"n":1}`))
		}}),
		harness.PluginOf("looks", func(r *plugin.Registrar) {
			r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
				if e.Kind != plugin.SessionRestored {
					return nil
				}
				if e.State.Parent == "" {
					record("restored root at " + e.State.Config.Model)
				} else {
					record("restored child")
				}
				return nil
			})
		}),
	}
}

// record returns the records of a root or a child since the last call.
func (r *resumed) record(of string) (list []string) {
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
	b := harness.StartIdle(t, harness.Reply(harness.Text("one")), harness.Reply(harness.Text("two")), harness.Hang(hung), harness.Reply(harness.Text("three")))
	first, second := &resumed{}, &resumed{}
	n, kill := b.StartNodeOn(bustest.Open(t, b.Server), first.factories("first")...)
	b.Host = n.Host()
	root := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	child, err := b.CreateFrom(b.Ctx, root, api.CreateRequest{Relation: events.RelationChild, Options: map[string]string{"looks": `{}`}})
	runtest.WantError(t, "child", err, nil)
	b.RunTurn(root, "t1", harness.Text("go"))
	runtest.EqualLists(t, "opened", first.record("root"), []string{"first: configured root, has ", "first: restored root at m0"})
	b.RunTurn(child.Session, "t1", harness.Text("go"))
	runtest.EqualLists(t, "child opened", first.record("child"), []string{"first: configured child of options {}", "first: restored child"})
	runtest.Equal(t, "recorded", string(b.StateOf(root).Frame().Options), `{"n":1}`)
	b.StartTurn(root, "t2", harness.Text("again"))
	b.Wait("the model to be asked", hung)
	runtest.EqualLists(t, "a live one is not opened again", first.record("root"), nil)

	kill() // in the middle of the turn
	b.StartNode(second.factories("second")...)
	runtest.Equal(t, "end", b.AwaitTurn(root, "t2").End, events.EndFinished)
	runtest.EqualLists(t, "resumed", second.record("root"), []string{`second: configured root, has {"n":1}`, "second: restored root at m0"})
	runtest.Equal(t, "recorded once", len(harness.Find[*events.FrameConfigured](b, root)), 1)
	b.AwaitState(root, "the end", func(s *projector.State) bool { return s.Idle() })
}
