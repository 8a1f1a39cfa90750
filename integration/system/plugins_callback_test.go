package system

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/integration/internal/harness"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// callingPlugin is a plugin that calls every method of its host, once a session, from one of its callbacks.
type callingPlugin struct {
	t    *testing.T
	host atomic.Pointer[session.Host]
	from string

	mu    sync.Mutex
	calls map[events.SessionID]int
}

// call runs in a callback.
func (n *callingPlugin) call(from string, id events.SessionID) {
	n.mu.Lock()
	first := from == n.from && n.calls[id] == 0
	if from == n.from {
		n.calls[id]++
	}
	n.mu.Unlock()
	h := n.host.Load()
	if !first || h == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	_, err := h.State(ctx, id)
	n.ok("state", err)
	_, err = h.ToolState(ctx, id)
	n.ok("tool state", err)
	_, err = h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("from " + from)})
	n.ok("append", err)
	ref, err := h.StoreBlob(ctx, id, []byte("of "+from))
	n.ok("store a body", err)
	_, err = h.ReadBlob(ctx, id, ref.Digest)
	n.ok("read a body", err)
	n.ok("configure", h.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Effort = "from " + from
		return c
	}}))
}

func (n *callingPlugin) ok(what string, err error) {
	runtest.WantError(n.t, fmt.Sprintf("%s within %s", what, n.from), err, nil)
}

// times is the number of runs of the callback.
func (n *callingPlugin) times(id events.SessionID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[id]
}

func (n *callingPlugin) Register(r *plugin.Registrar) error {
	harness.NamedTools(r, "a")
	r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
		n.call(string(e.Kind), e.Session)
		return nil
	})
	r.MutateConfig(func(_ context.Context, change plugin.ConfigChange, now events.Config) (events.Config, error) {
		n.call("mutator", change.Session)
		return now, nil
	})
	r.Catalog(func(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
		n.call("catalog", in.Session)
		return plugin.CatalogContribution{}, nil
	})
	return nil
}

// callingProtocol is the protocol of the same stack.
type callingProtocol struct {
	harness.Protocol
	callingPlugin *callingPlugin
}

func (p callingProtocol) AppendNodes(_ context.Context, s plugin.ProtocolSession, _ []api.AppendNode) error {
	p.callingPlugin.call("protocol", s.Session)
	return nil
}

// callingPlugins has a node with a callingPlugin plugin.
func callingPlugins(t *testing.T, from string, script ...harness.Step) (*harness.System, *callingPlugin) {
	t.Helper()
	b := harness.StartIdle(t, script...)
	n := &callingPlugin{t: t, from: from, calls: make(map[events.SessionID]int)}
	b.StartNode(plugin.New("callingPlugin", func(plugin.BuildContext) (plugin.Plugin, error) { return n, nil }),
		harness.PluginOf(standard.ID, func(r *plugin.Registrar) {
			r.Protocol(callingProtocol{callingPlugin: n})
			r.Driver(harness.Protocol{})
		}))
	n.host.Store(b.Host)
	return b, n
}

// inTime fails the test where do does not return in time.
func inTime(b *harness.System, what string, do func() error) {
	b.T.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		runtest.WantError(b.T, what, err, nil)
	case <-b.Ctx.Done():
		b.T.Fatalf("%s: got stuck", what)
	}
}

// operationsWithCallbacks are the operations that call plugins.
func operationsWithCallbacks(b *harness.System) map[string]func(events.SessionID) error {
	return map[string]func(events.SessionID) error{
		"turn": func(id events.SessionID) error {
			_, err := b.Run(b.Ctx, id, api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{harness.Text("go")}}})
			return err
		},
		"configure": func(id events.SessionID) error { return b.SetModel(id, "m1") },
		"look": func(id events.SessionID) error {
			_, err := b.ToolState(b.Ctx, id)
			return err
		},
		"set a level": func(id events.SessionID) error {
			_, err := b.SetToolsAvailability(b.Ctx, id, []string{"a"}, events.Overridden(events.AvailCallable))
			return err
		},
		"append": func(id events.SessionID) error {
			_, err := b.AppendNodes(b.Ctx, id, api.AppendNodesRequest{Nodes: harness.UserMessages("mine")})
			return err
		},
	}
}

// TestCallbacksCallTheHost has a plugin call every method of its host from each of its callbacks, during every operation
// that calls it.
func TestCallbacksCallTheHost(t *testing.T) {
	t.Parallel()
	for from, doings := range map[string][]string{
		"session_restored":       {"turn", "configure", "look", "set a level", "append"},
		"session_config_changed": {"configure"},
		"mutator":                {"configure"},
		"catalog":                {"turn", "look", "set a level"},
		"protocol":               {"append"},
		"turn_persisted":         {"turn"},
	} {
		for _, doing := range doings {
			t.Run(from+" of "+doing, func(t *testing.T) {
				t.Parallel()
				b, _ := callingPlugins(t, from, harness.Reply(harness.Text("hi")))
				id := b.Open(api.CreateRequest{})
				inTime(b, doing, func() error { return operationsWithCallbacks(b)[doing](id) })
				s := b.AwaitState(id, "what the plugin asked for", func(s *projector.State) bool { return s.Config.Effort == "from "+from })
				node, err := s.Node(events.NodeID("from " + from))
				runtest.Equal(t, "appended by the plugin", err == nil && node != nil, true)
				if doing == "configure" {
					runtest.Equal(t, "configured", s.Config.Model, "m1")
				}
			})
		}
	}
}

// TestRestoredOnce has many concurrent reads of a session that is not live: its plugins are restored once.
func TestRestoredOnce(t *testing.T) {
	t.Parallel()
	b, n := callingPlugins(t, "session_restored")
	id := b.Open(api.CreateRequest{})
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() { inTime(b, "look", func() error { return operationsWithCallbacks(b)["look"](id) }) })
	}
	wait.Wait()
	runtest.Equal(t, "notified", n.times(id), 1)
	for i := range 3 {
		inTime(b, "configure", func() error { return b.SetModel(id, fmt.Sprint(i)) })
	}
	runtest.Equal(t, "told of a live session", n.times(id), 1)
}

// TestMutatorMoved changes the configuration from within a mutator: the mutator is called again, with the new
// configuration.
func TestMutatorMoved(t *testing.T) {
	t.Parallel()
	b, n := callingPlugins(t, "mutator")
	id := b.Open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	inTime(b, "configure", func() error { return b.SetModel(id, "m1") })
	runtest.DeepEqual(t, "configuration", b.StateOf(id).Config, events.Config{Model: "m1", Effort: "from mutator"})
	runtest.Equal(t, "asked: the outer change, the inner one, the outer one again", n.times(id), 3)
	runtest.Equal(t, "changes", len(harness.Find[*events.SessionConfigured](b, id)), 2)
}

// buildCaller is a plugin that calls its host while the session's plugins are being built.
type buildCaller struct {
	host   *atomic.Pointer[session.Host]
	tools  error
	append error
}

func (*buildCaller) Register(r *plugin.Registrar) error {
	harness.NamedTools(r, "a")
	return nil
}

func (e *buildCaller) SessionReady(ctx context.Context, s *plugin.Stack) error {
	_, e.tools = e.host.Load().ToolState(ctx, s.ID())
	_, e.append = e.host.Load().AppendNodes(ctx, s.ID(), api.AppendNodesRequest{Nodes: harness.UserMessages("too early")})
	return nil
}

// TestBuildingPluginCallsTheHost requests a session's plugins from a plugin that is part of that build.
func TestBuildingPluginCallsTheHost(t *testing.T) {
	t.Parallel()
	b := harness.StartIdle(t)
	e := &buildCaller{host: new(atomic.Pointer[session.Host])}
	b.StartNode(plugin.New("early", func(plugin.BuildContext) (plugin.Plugin, error) { return e, nil }))
	e.host.Store(b.Host)
	id := b.Open(api.CreateRequest{})
	inTime(b, "look", func() error { return operationsWithCallbacks(b)["look"](id) })
	runtest.WantError(t, "tools, from the history", e.tools, nil)
	runtest.WantError(t, "append, which the protocol would have to see", e.append, plugin.ErrBuilding)
	runtest.EqualLists(t, "messages", b.Messages(id), []string{})
	inTime(b, "append", func() error { return operationsWithCallbacks(b)["append"](id) })
}
