// Package registry knows the external plugins of a node: their manifests, which it registers and stores, and the programs that
// live, by their signs of life. It imports no package that calls programs. What it calls of those is [Node].
//
//	registration   registration.go owner.go term.go
//	manifests      manifest.go, and row.go for what is stored of them
//	programs       instance.go term.go
//	what it shows  status.go dropped.go
package registry

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/external/internal/rate"
	"github.com/lash-go/lash/workers/external/internal/setting"
)

// Node is what calls the programs that a registry knows. Calls of its methods may overlap.
type Node interface {
	// Compile compiles the tools of a manifest. Errors: [*events.FieldError].
	Compile(name string, m *wire.Manifest) (*plugin.Tools, error)
	// Known receives a manifest that has become the current one of this node. It must not block.
	Known(name string, m *wire.Manifest)
	// Fired answers a request to call hooks at a custom point.
	Fired(sender string, data []byte) []byte
	// Withdrawn receives the questions that a sign of life withdraws. It must not block.
	Withdrawn(name string, list []wire.Question)
}

// Registry knows the external plugins of a node. It is safe for concurrent use.
type Registry struct {
	bus    *bus.Bus
	log    *zap.Logger
	node   Node
	names  []string // in stack order
	stops  []func()
	ctx    context.Context //nolint:containedctx // of reads of manifests, ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup
	signed chan struct{} // has an element after a sign of life

	mu     sync.Mutex
	byName map[string]*known
}

// known is what this node knows of one plugin.
type known struct {
	settings     setting.Plugin
	current      *Offer   // what row has, compiled; [NoOffer] where none was registered
	row          row      // with the hash and the version of the current manifest
	revision     uint64   // of row; 0: none was registered
	skipped      string   // hash of the last stored manifest that this version refuses
	older        []*Offer // that turns may still have, the last used first
	instances    map[string]*instance
	terms        map[string]idTerms // by instance
	conflictSent time.Time          // when two programs with one id were last told to register again
	signsUntil   time.Time          // until when a node that starts only receives signs of life, see awaitSigns
	reading      bool               // the manifest's row is being read
	read         time.Time
	swept        time.Duration // on its clock, when silent instances were dropped last
	limits       *rate.Plugin
	drops        drops
	// received is how long this node could receive signs of life of the plugin, in nanoseconds. A silence counts on this clock: a
	// node that was frozen or had no connection does not take its own silence for the death of the instances.
	received atomic.Int64
}

// clock is how long this node could receive signs of life of the plugin.
func (k *known) clock() time.Duration { return time.Duration(k.received.Load()) }

// New makes a registry of plugins, in stack order. b and log are required. Errors: [*events.FieldError].
func New(b *bus.Bus, log *zap.Logger, plugins []setting.Plugin, node Node) (*Registry, error) {
	r := &Registry{bus: b, log: log, node: node, byName: make(map[string]*known), signed: make(chan struct{}, 1)}
	for i, settings := range plugins {
		name, field := settings.Name, fmt.Sprintf("plugins[%d]", i)
		if err := settings.Validate(field); err != nil {
			return nil, err
		}
		if r.byName[name] != nil {
			return nil, &events.FieldError{Field: field + ".name", Reason: fmt.Sprintf("%q occurs twice", name), Err: events.ErrInvalid}
		}
		r.names = append(r.names, name)
		r.byName[name] = &known{settings: settings, current: NoOffer(), instances: make(map[string]*instance), limits: rate.NewPlugin()}
	}
	r.ctx, r.cancel = context.WithCancel(context.Background()) // ends with Stop
	return r, nil
}

// Names are the plugins in stack order. The caller must not change the list.
func (r *Registry) Names() []string { return r.names }

// Settings are what the operator says about a plugin.
func (r *Registry) Settings(name string) *setting.Plugin { return &r.byName[name].settings }

// Limits are those of a plugin on this node.
func (r *Registry) Limits(name string) *rate.Plugin { return r.byName[name].limits }

// Clock is how long this node could receive signs of life of a plugin. Silences are measured with it.
func (r *Registry) Clock(name string) time.Duration { return r.byName[name].clock() }

// Received adds a time in which this node could receive signs of life of a plugin.
func (r *Registry) Received(name string, d time.Duration) { r.byName[name].received.Add(int64(d)) }

// startWait is how long Start waits for a sign of life of each registered plugin.
const startWait = wire.SignEvery * 3 / 2

// settleWait is how long Start waits for the sign of one more instance.
const settleWait = 100 * time.Millisecond

// Start reads the manifests, and receives registrations and signs of life until [Registry.Stop]. It waits for a sign of
// life of each registered plugin, 1.5 s at most.
func (r *Registry) Start(ctx context.Context) error {
	for _, name := range r.names {
		if err := r.Read(ctx, name); err != nil {
			return fmt.Errorf("external plugin %s: %w", name, err)
		}
	}
	if err := r.subscribe(); err != nil {
		r.Stop()
		return err
	}
	once, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for quiet := time.Duration(0); ; quiet = settleWait {
		if r.lacksInstance() {
			quiet = startWait
		}
		select {
		case <-r.signed:
		case <-time.After(quiet):
			return nil
		case <-once.Done():
			return nil
		}
	}
}

// subscribe begins to receive: signs of life first, then registrations.
func (r *Registry) subscribe() error {
	signs, err := r.bus.PluginSigns(r.names, r.Sign)
	if err != nil {
		return err
	}
	r.stops = append(r.stops, signs)
	for _, name := range r.names {
		stop, err := r.bus.ReceivingTime(name, wire.SignEvery/2, func(d time.Duration) { r.Received(name, d) })
		if err != nil {
			return err
		}
		r.stops = append(r.stops, stop)
	}
	r.work.Go(r.check)
	for _, name := range r.names {
		if err := r.bus.TellInstance(name, wire.All, wire.VerbSign, nil); err != nil {
			return err
		}
	}
	r.awaitSigns()
	serve, err := r.bus.ServePlugins(r.names, r.awaitTerm, r.Answer)
	if err == nil {
		r.stops = append(r.stops, serve)
	}
	return err
}

// lacksInstance reports whether a registered plugin has no instance.
func (r *Registry) lacksInstance() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, k := range r.byName {
		if k.revision > 0 && len(k.instances) == 0 {
			return true
		}
	}
	return false
}

// Stop ends the subscriptions.
func (r *Registry) Stop() {
	for _, stop := range r.stops {
		stop()
	}
	r.cancel()
	r.work.Wait()
}
