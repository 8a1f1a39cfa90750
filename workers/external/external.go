package external

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Config of a node's external plugins. Bus is required.
type Config struct {
	Bus     *bus.Bus
	Plugins []Plugin // in stack order; each name once
	// CancelGrace is how long a tool may take to return after its turn was cancelled or its time is over. Defaults to
	// [wire.CancelGrace].
	CancelGrace time.Duration
	Logger      *zap.Logger // nil logs nothing
}

// Plugins are the external plugins of a node. They are safe for concurrent use.
type Plugins struct {
	bus    *bus.Bus
	log    *zap.Logger
	names  []string // in stack order
	stops  []func()
	ctx    context.Context //nolint:containedctx // of reads of manifests, ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup
	heard  chan struct{} // has an element after a sign of life
	grace  time.Duration
	api    atomic.Pointer[hostAPI] // nil: callbacks are refused

	mu     sync.Mutex
	byName map[string]*known
}

// known is what this node knows of one plugin.
type known struct {
	settings  Plugin
	hash      string
	version   string
	revision  uint64 // of the manifest's row; 0: none was registered
	tools     *plugin.Tools
	manifest  *wire.Manifest
	instances map[string]*instance
	reading   bool // the manifest's row is being read
	observes  bool // its events are being delivered
	fires     int  // requests to call hooks at custom points that run
}

type instance struct {
	wire.Sign // the last one

	heard time.Time
}

// maxInstances limits the instances of one plugin that a node knows. Further ones get no calls from it.
const maxInstances = 1024

// row is a manifest as it is stored.
type row struct {
	Hash     string        `json:"hash"`
	Manifest wire.Manifest `json:"manifest"`
}

// New checks the configuration. Errors: [*events.FieldError].
func New(cfg Config) (*Plugins, error) {
	p := &Plugins{bus: cfg.Bus, log: cfg.Logger, byName: make(map[string]*known), heard: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	p.log = p.log.Named("external")
	if p.grace = cmp.Or(cfg.CancelGrace, wire.CancelGrace); p.grace < 0 {
		return nil, &events.FieldError{Field: "cancel_grace", Reason: "is negative", Err: events.ErrInvalid}
	}
	for i, settings := range cfg.Plugins {
		name, field := settings.Name, fmt.Sprintf("plugins[%d].name", i)
		if err := events.CheckToken(field, name); err != nil {
			return nil, err
		}
		if p.byName[name] != nil {
			return nil, &events.FieldError{Field: field, Reason: fmt.Sprintf("%q occurs twice", name), Err: events.ErrInvalid}
		}
		if err := checkCallbacks(fmt.Sprintf("plugins[%d].callbacks", i), settings.Callbacks); err != nil {
			return nil, err
		}
		p.names = append(p.names, name)
		p.byName[name] = &known{settings: settings, tools: plugin.NewTools(), manifest: new(wire.Manifest), instances: make(map[string]*instance)}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // ends with Stop
	return p, nil
}

// startWait is how long Start waits for a sign of life of each registered plugin.
const startWait = wire.SignEvery * 3 / 2

// settleWait is how long Start waits for the sign of one more instance.
const settleWait = 100 * time.Millisecond

// Start reads the manifests, and receives registrations and signs of life until [Plugins.Stop]. It waits for a sign of
// life of each registered plugin, 1.5 s at most.
func (p *Plugins) Start(ctx context.Context) error {
	for _, name := range p.names {
		if err := p.read(ctx, name); err != nil {
			return fmt.Errorf("external plugin %s: %w", name, err)
		}
	}
	serve, err := p.bus.ServePlugins(p.answer)
	if err != nil {
		return err
	}
	signs, err := p.bus.PluginSigns(p.sign)
	if err != nil {
		serve()
		return err
	}
	p.stops = []func(){serve, signs}
	for _, name := range p.names {
		if err := p.bus.TellInstance(name, wire.All, "sign", nil); err != nil {
			p.Stop()
			return err
		}
	}
	once, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	for quiet := time.Duration(0); ; quiet = settleWait {
		if p.unheard() {
			quiet = startWait
		}
		select {
		case <-p.heard:
		case <-time.After(quiet):
			return nil
		case <-once.Done():
			return nil
		}
	}
}

// unheard reports whether a registered plugin has no instance.
func (p *Plugins) unheard() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, k := range p.byName {
		if k.revision > 0 && len(k.instances) == 0 {
			return true
		}
	}
	return false
}

// Stop ends the subscriptions. Calls end with their own contexts.
func (p *Plugins) Stop() {
	for _, stop := range p.stops {
		stop()
	}
	p.cancel()
	p.work.Wait()
}

// read takes over the stored manifest of a plugin, if there is one.
func (p *Plugins) read(ctx context.Context, name string) error {
	stored, err := p.bus.Manifests().Get(ctx, events.SessionID(name))
	if err != nil || stored.Revision == 0 {
		return err
	}
	var r row
	if err := json.Unmarshal(stored.Value, &r); err != nil {
		return err
	}
	tools, err := p.toolsOf(name, &r.Manifest)
	if err == nil {
		p.take(name, &r, tools, stored.Revision)
	}
	return err
}

// take makes a manifest the known one, unless a later one is known.
func (p *Plugins) take(name string, r *row, tools *plugin.Tools, revision uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	if revision > k.revision {
		k.hash, k.version, k.revision, k.tools, k.manifest = r.Hash, r.Manifest.Version, revision, tools, &r.Manifest
		p.observeLocked(name, k)
	}
}

// sign handles a sign of life.
func (p *Plugins) sign(name, id string, data []byte) {
	var s wire.Sign
	if json.Unmarshal(data, &s) != nil || events.CheckToken("instance", id) != nil || len(s.Hash) > hex.EncodedLen(sha256.Size) {
		return
	}
	s.Machine = strings.ToValidUTF8(s.Machine[:min(len(s.Machine), wire.MaxMachine)], "")
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	if k == nil {
		return
	}
	now := time.Now()
	if k.instances[id] == nil && len(k.instances) >= maxInstances {
		for old, i := range k.instances {
			if now.Sub(i.heard) > wire.Lease {
				delete(k.instances, old)
			}
		}
		if len(k.instances) >= maxInstances {
			return
		}
	}
	k.instances[id] = &instance{s, now}
	select {
	case p.heard <- struct{}{}:
	default: // Start has one to read, or has ended
	}
	if s.Hash != k.hash && !k.reading {
		k.reading = true
		p.work.Go(func() { p.reread(name, id) })
	}
}

// reread reads the row of a plugin, after an instance showed another manifest. If there is no row, the instance
// registers again.
func (p *Plugins) reread(name, id string) {
	if err := p.read(p.ctx, name); err != nil {
		p.log.Warn("read manifest", zap.String("plugin", name), zap.Error(err))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	k := p.byName[name]
	k.reading = false
	if k.revision == 0 { // the bucket was lost
		_ = p.bus.TellInstance(name, id, "register", nil) // the next sign of life leads here again
	}
}

// pick is the instance for a call; empty if none lives.
func (p *Plugins) pick(name, call string, without ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, best, most := p.byName[name], "", uint64(0)
	for id, i := range k.instances {
		if time.Since(i.heard) > wire.Lease || i.Draining || i.Hash != k.hash || slices.Contains(without, id) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(call + " " + id))
		if rank := h.Sum64(); best == "" || rank > most || rank == most && id > best {
			best, most = id, rank
		}
	}
	return best
}

// gone drops an instance that does not answer. Its next sign of life brings it back.
func (p *Plugins) gone(name, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byName[name].instances, id)
}
