package external

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/callback"
	"github.com/lash-go/lash/workers/external/internal/registry"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// Plugin is what the operator says about a plugin.
type Plugin = setting.Plugin

// Config of a node's external plugins. Bus is required.
type Config struct {
	Bus     *bus.Bus
	Plugins []Plugin // in stack order; each name once
	// CancelGrace is how long a tool may take to return after its turn was cancelled or its time is over. Defaults to
	// [wire.CancelGrace].
	CancelGrace time.Duration
	// Idle is how long a session on an instance of scope session has no call before the instance gets a hint.
	// Defaults to 30 s; below 0 there is none.
	Idle   time.Duration
	Logger *zap.Logger // nil logs nothing
}

// Plugins are the external plugins of a node. They are safe for concurrent use.
type Plugins struct {
	registry *registry.Registry
	bus      *bus.Bus
	log      *zap.Logger
	idle     time.Duration
	grace    time.Duration
	api      atomic.Pointer[callback.API] // nil: callbacks are refused

	ctx    context.Context //nolint:containedctx // of what runs without a call, ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu    sync.Mutex
	works map[string]*works // by plugin
}

// works are what runs for a plugin without a call.
type works struct {
	observes bool // its events are being delivered
	fires    int  // requests to call hooks at custom points that run
	closing  bool // a withdrawn question is being closed
	closed   map[wire.Question]bool
}

// New checks the configuration. Errors: [*events.FieldError].
func New(cfg Config) (*Plugins, error) {
	p := &Plugins{
		bus: cfg.Bus, log: cmp.Or(cfg.Logger, zap.NewNop()).Named("external"), idle: cmp.Or(cfg.Idle, 30*time.Second),
		grace: cmp.Or(cfg.CancelGrace, wire.CancelGrace), works: make(map[string]*works),
	}
	if p.grace < 0 {
		return nil, &events.FieldError{Field: "cancel_grace", Reason: "is negative", Err: events.ErrInvalid}
	}
	var err error
	if p.registry, err = registry.New(cfg.Bus, p.log, cfg.Plugins, node{p}); err != nil {
		return nil, err
	}
	for _, name := range p.registry.Names() {
		p.works[name] = new(works)
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // ends with Stop
	return p, nil
}

// node is what the registry calls: tools are compiled in factory.go, events delivered in observe.go, requests to call hooks answered
// in fire.go, withdrawn questions closed in withdraw.go.
type node struct{ p *Plugins }

// Start reads the manifests, and receives registrations and signs of life until [Plugins.Stop]. It waits for a sign of
// life of each registered plugin, 1.5 s at most.
func (p *Plugins) Start(ctx context.Context) error { return p.registry.Start(ctx) }

// Stop ends the subscriptions. Calls end with their own contexts.
func (p *Plugins) Stop() {
	p.registry.Stop()
	p.cancel()
	p.work.Wait()
}

// Status is what this node knows of the plugins, in the order of the configuration.
func (p *Plugins) Status() []api.ExternalPlugin { return p.registry.Status() }

// Lacks says what the plugins cannot do yet, a line for each plugin without a manifest or without an instance that
// lives, and for each tool of the settings that no manifest has. It is empty if there is nothing.
func (p *Plugins) Lacks() []string { return p.registry.Lacks() }

// Dropped yields how many messages of each plugin this node did not take, by reason.
func (p *Plugins) Dropped(yield func(plugin, reason string, n int64)) { p.registry.Dropped(yield) }
