package harness

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/bus/busembed"
	"github.com/lash-go/lash/bus/bustest"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/internal/runtest"
	"github.com/lash-go/lash/session"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/workers"
	"github.com/lash-go/lash/workers/builtin/standard"
	"github.com/lash-go/lash/workers/llm"
	"github.com/lash-go/lash/workers/llm/scripted"
)

// System is a server, a host and a model that plays a script. [System.StartWorker] and [System.StartNode] start the
// nodes that run its turns.
type System struct {
	*session.Host
	T       *testing.T
	Ctx     context.Context // ends before the test is killed
	Server  *busembed.Server
	Bus     *bus.Bus
	Model   *Model
	Tools   *plugin.Tools
	TraceTo session.TraceFunc // of nodes that start later
	Roles   []workers.Role    // likewise; nil: all
	byHand  sync.Map          // sessions whose decisions are the test's own
}

// ByHand says that the test writes a session's decisions itself: they are not compared with the machine's.
func (b *System) ByHand(id events.SessionID) { b.byHand.Store(id, true) }

// Context is a context that ends with the test, and before the test is killed.
func Context(t *testing.T) context.Context {
	t.Helper()
	return ContextFor(t, 8*time.Minute)
}

// ContextFor is [Context] for a test that takes longer.
func ContextFor(t *testing.T, most time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	t.Cleanup(cancel)
	return ctx
}

// Start returns a system with a worker that plays the script.
func Start(t *testing.T, script ...Step) *System {
	t.Helper()
	b := StartIdle(t, script...)
	b.StartWorker(b.Bus)
	return b
}

// StartIdle returns a system without a worker.
func StartIdle(t *testing.T, script ...Step) *System {
	t.Helper()
	return StartOn(t, busembed.Config{}, script...)
}

// StartOn is [StartIdle] on a server of that configuration.
func StartOn(t *testing.T, cfg busembed.Config, script ...Step) *System {
	t.Helper()
	server := bustest.Server(t, cfg)
	return StartWith(t, server, bustest.Open(t, server), script...)
}

// StartWith is [StartIdle] on a server that runs.
func StartWith(t *testing.T, server *busembed.Server, on *bus.Bus, script ...Step) *System {
	t.Helper()
	b := &System{T: t, Ctx: Context(t), Server: server, Bus: on, Model: &Model{T: t, Script: script}, Tools: plugin.NewTools()}
	b.Host = b.NewHost(on)
	t.Cleanup(b.compareAll) // after the nodes have stopped
	return b
}

// NewHost is a host without plugins.
func (b *System) NewHost(on *bus.Bus) *session.Host {
	b.T.Helper()
	h, err := session.New(session.Config{Bus: on, Logger: zaptest.NewLogger(b.T), Plugins: session.NoPlugins()})
	runtest.NoError(b.T, err)
	return h
}

// OtherHost is a host on a connection of its own, as in another process.
func (b *System) OtherHost() *session.Host {
	b.T.Helper()
	return b.NewHost(bustest.Open(b.T, b.Server))
}

// StartWorker starts a worker that ends with the test. kill stops it at once, in the middle of its work.
func (b *System) StartWorker(on *bus.Bus) (kill func()) {
	b.T.Helper()
	w := b.NewWorker(on)
	if err := w.Start(b.Ctx); err != nil {
		b.T.Fatal(err)
	}
	var once sync.Once
	stop := func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // in a cleanup the test's context has ended
			cancel()
			w.Stop(now)
		})
	}
	b.T.Cleanup(stop)
	return stop
}

// NewWorker is a worker that is not started.
func (b *System) NewWorker(on *bus.Bus) *workers.Node {
	b.T.Helper()
	w, err := workers.NewNode(workers.Config{
		Roles: TurnRoles(),
		Bus:   on, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Provider: "scripted",
		Tools: func(events.SessionID) *plugin.Tools { return b.Tools }, Logger: zaptest.NewLogger(b.T),
		ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	runtest.NoError(b.T, err)
	return w
}

// TurnRoles are the roles of a node that runs turns and their tools only.
func TurnRoles() []workers.Role { return []workers.Role{workers.RoleTurn, workers.RoleTool} }

// StartNode starts a node with the standard protocol and these plugins. The system's host becomes the host of the
// node.
func (b *System) StartNode(factories ...plugin.Factory) *workers.Node {
	b.T.Helper()
	n, _ := b.StartNodeOn(b.Bus, factories...)
	b.Host = n.Host()
	return n
}

// NewNode is a node that is not started. A plugin with the id of the standard protocol replaces it.
func (b *System) NewNode(on *bus.Bus, factories ...plugin.Factory) *workers.Node {
	b.T.Helper()
	builder, err := plugin.NewBuilder(plugin.BuilderConfig{Builtins: []plugin.Factory{standard.Factory()}, Factories: factories})
	runtest.NoError(b.T, err)
	n, err := workers.NewNode(workers.Config{
		Bus: on, Providers: map[string]llm.Provider{"scripted": scripted.New(b.Model.Answer)}, Provider: "scripted",
		Plugins: builder, Roles: b.Roles, Logger: zaptest.NewLogger(b.T), Trace: b.TraceTo, ModelRetry: workers.ModelRetry{Attempts: 4, Base: time.Millisecond, Max: 2 * time.Millisecond},
	})
	runtest.NoError(b.T, err)
	return n
}

// StartNodeOn starts a node that ends with the test. kill stops it at once.
func (b *System) StartNodeOn(on *bus.Bus, factories ...plugin.Factory) (n *workers.Node, kill func()) {
	b.T.Helper()
	n = b.NewNode(on, factories...)
	return n, b.Launch(n)
}

// Launch starts a node that ends with the test. kill stops it at once.
func (b *System) Launch(n *workers.Node) (kill func()) {
	b.T.Helper()
	if err := n.Start(b.Ctx); err != nil {
		b.T.Fatal(err)
	}
	var once sync.Once
	kill = func() {
		once.Do(func() {
			now, cancel := context.WithCancel(context.Background()) // in a cleanup the test's context has ended
			cancel()
			n.Stop(now)
		})
	}
	b.T.Cleanup(kill)
	return kill
}
