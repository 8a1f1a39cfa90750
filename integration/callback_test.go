package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers/builtin/standard"
)

// nosy is a plugin that asks its host for everything, once a session, from one of its callbacks.
type nosy struct {
	t    *testing.T
	host atomic.Pointer[session.Host]
	from string

	mu    sync.Mutex
	asked map[events.SessionID]int
}

// ask is called from a callback.
func (n *nosy) ask(from string, id events.SessionID) {
	n.mu.Lock()
	first := from == n.from && n.asked[id] == 0
	if from == n.from {
		n.asked[id]++
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
	_, err = h.AppendNodes(ctx, id, api.AppendNodesRequest{Nodes: says("from " + from)})
	n.ok("append", err)
	n.ok("configure", h.Configure(ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Effort = "from " + from
		return c
	}}))
}

func (n *nosy) ok(what string, err error) {
	if err != nil {
		n.t.Errorf("%s within %s: %v", what, n.from, err)
	}
}

// times is how often the callback ran.
func (n *nosy) times(id events.SessionID) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.asked[id]
}

func (n *nosy) Register(r *plugin.Registrar) error {
	simple(r, "a")
	r.Lifecycle(func(_ context.Context, e plugin.Lifecycle) error {
		n.ask(string(e.Kind), e.Session)
		return nil
	})
	r.MutateConfig(func(_ context.Context, change plugin.ConfigChange, now events.Config) (events.Config, error) {
		n.ask("mutator", change.Session)
		return now, nil
	})
	r.Catalog(func(in plugin.CatalogContext) (plugin.CatalogContribution, error) {
		n.ask("catalog", in.Session)
		return plugin.CatalogContribution{}, nil
	})
	return nil
}

// nosyProtocol is the protocol beside it.
type nosyProtocol struct {
	protocol
	nosy *nosy
}

func (p nosyProtocol) AppendNodes(_ context.Context, s plugin.ProtocolSession, _ []api.AppendNode) error {
	p.nosy.ask("protocol", s.Session)
	return nil
}

// asking has a node with a nosy plugin.
func asking(t *testing.T, from string, script ...step) (*bundle, *nosy) {
	t.Helper()
	b := setupIdle(t, script...)
	n := &nosy{t: t, from: from, asked: make(map[events.SessionID]int)}
	b.node(plugin.New("nosy", func(plugin.BuildContext) (plugin.Plugin, error) { return n, nil }),
		declares(standard.ID, func(r *plugin.Registrar) {
			r.Protocol(nosyProtocol{nosy: n})
			r.Driver(protocol{})
		}))
	n.host.Store(b.Host)
	return b, n
}

// inTime fails the test where something does not come back.
func (b *bundle) inTime(what string, do func() error) {
	b.t.Helper()
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		must(b.t, what, err, nil)
	case <-b.ctx.Done():
		b.t.Fatalf("%s: got stuck", what)
	}
}

// model changes the model's name.
func (b *bundle) setModel(id events.SessionID, name string) error {
	return b.Configure(b.ctx, id, api.ConfigureRequest{Change: func(c events.Config) events.Config {
		c.Model = name
		return c
	}})
}

// doings are what leads to callbacks of plugins.
func (b *bundle) doings() map[string]func(events.SessionID) error {
	return map[string]func(events.SessionID) error{
		"turn": func(id events.SessionID) error {
			_, err := b.Run(b.ctx, id, api.TurnRequest{ID: "t", Input: events.TurnInput{Parts: []events.Part{text("go")}}})
			return err
		},
		"configure": func(id events.SessionID) error { return b.setModel(id, "m1") },
		"look": func(id events.SessionID) error {
			_, err := b.ToolState(b.ctx, id)
			return err
		},
		"set a level": func(id events.SessionID) error {
			_, err := b.SetToolsAvailability(b.ctx, id, []string{"a"}, events.Overridden(events.AvailCallable))
			return err
		},
		"append": func(id events.SessionID) error {
			_, err := b.AppendNodes(b.ctx, id, api.AppendNodesRequest{Nodes: says("mine")})
			return err
		},
	}
}

// TestCallbacksAsk lets a plugin ask its host for everything from each of its
// callbacks, whatever the callback was called for.
func TestCallbacksAsk(t *testing.T) {
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
				b, _ := asking(t, from, reply(text("hi")))
				id := b.open(api.CreateRequest{})
				b.inTime(doing, func() error { return b.doings()[doing](id) })
				s := b.await(id, "what the plugin asked for", func(s *projector.State) bool { return s.Config.Effort == "from "+from })
				node, err := s.Node(events.NodeID("from " + from))
				equal(t, "appended by the plugin", err == nil && node != nil, true)
				if doing == "configure" {
					equal(t, "configured", s.Config.Model, "m1")
				}
			})
		}
	}
}

// TestRestoredOnce has many look at a session that was not live: its plugins are told once.
func TestRestoredOnce(t *testing.T) {
	t.Parallel()
	b, n := asking(t, "session_restored")
	id := b.open(api.CreateRequest{})
	var wait sync.WaitGroup
	for range 16 {
		wait.Go(func() { b.inTime("look", func() error { return b.doings()["look"](id) }) })
	}
	wait.Wait()
	equal(t, "told", n.times(id), 1)
	for i := range 3 {
		b.inTime("configure", func() error { return b.setModel(id, fmt.Sprint(i)) })
	}
	equal(t, "told of a live session", n.times(id), 1)
}

// TestMutatorMoved changes the configuration from within a mutator: it is asked again, of what is there then.
func TestMutatorMoved(t *testing.T) {
	t.Parallel()
	b, n := asking(t, "mutator")
	id := b.open(api.CreateRequest{Config: events.Config{Model: "m0"}})
	b.inTime("configure", func() error { return b.setModel(id, "m1") })
	alike(t, "configuration", b.state(id).Config, events.Config{Model: "m1", Effort: "from mutator"})
	equal(t, "asked: the outer change, the inner one, the outer one again", n.times(id), 3)
	equal(t, "changes", len(find[*events.SessionConfigured](b, id)), 2)
}

// early is a plugin that asks its host while the session's plugins are still being built.
type early struct {
	host   *atomic.Pointer[session.Host]
	tools  error
	append error
}

func (*early) Register(r *plugin.Registrar) error {
	simple(r, "a")
	return nil
}

func (e *early) SessionReady(ctx context.Context, s *plugin.Session) error {
	_, e.tools = e.host.Load().ToolState(ctx, s.ID())
	_, e.append = e.host.Load().AppendNodes(ctx, s.ID(), api.AppendNodesRequest{Nodes: says("too early")})
	return nil
}

// TestBuildingAsks asks for what is being built from what builds it.
func TestBuildingAsks(t *testing.T) {
	t.Parallel()
	b := setupIdle(t)
	e := &early{host: new(atomic.Pointer[session.Host])}
	b.node(plugin.New("early", func(plugin.BuildContext) (plugin.Plugin, error) { return e, nil }))
	e.host.Store(b.Host)
	id := b.open(api.CreateRequest{})
	b.inTime("look", func() error { return b.doings()["look"](id) })
	must(t, "tools, from the history", e.tools, nil)
	must(t, "append, which the protocol would have to see", e.append, plugin.ErrBuilding)
	equalLists(t, "messages", b.messages(id), []string{})
	b.inTime("append", func() error { return b.doings()["append"](id) })
}
