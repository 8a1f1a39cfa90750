package external

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/session/schema"
)

// Config of a node's external plugins. Bus is required.
type Config struct {
	Bus    *bus.Bus
	Names  []string    // of the plugins, in stack order: tokens, each once
	Logger *zap.Logger // nil logs nothing
}

// Plugins are the external plugins of a node. They are safe for concurrent use.
type Plugins struct {
	bus    *bus.Bus
	log    *zap.Logger
	names  []string
	stops  []func()
	ctx    context.Context //nolint:containedctx // of reads of manifests, ends with Stop
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu     sync.Mutex
	byName map[string]*known
}

// known is what this node knows of one plugin.
type known struct {
	hash      string
	version   string
	revision  uint64 // of the manifest's row; 0: none was registered
	tools     *plugin.Tools
	instances map[string]*instance
	reading   bool // the manifest's row is being read
}

type instance struct {
	heard    time.Time
	hash     string
	draining bool
	running  int
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
	p := &Plugins{bus: cfg.Bus, log: cfg.Logger, names: slices.Clone(cfg.Names), byName: make(map[string]*known)}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	p.log = p.log.Named("external")
	for i, name := range cfg.Names {
		field := fmt.Sprintf("names[%d]", i)
		if err := events.CheckToken(field, name); err != nil {
			return nil, err
		}
		if p.byName[name] != nil {
			return nil, &events.FieldError{Field: field, Reason: fmt.Sprintf("%q occurs twice", name), Err: events.ErrInvalid}
		}
		p.byName[name] = &known{tools: plugin.NewTools(), instances: make(map[string]*instance)}
	}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // ends with Stop
	return p, nil
}

// startWait is how long Start waits for a sign of life of each registered plugin.
const startWait = wire.SignEvery * 3 / 2

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
	for p.unheard() && bus.Sleep(once, 5*time.Millisecond) {
	}
	return nil
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
		k.hash, k.version, k.revision, k.tools = r.Hash, r.Manifest.Version, revision, tools
	}
}

// toolsOf compiles the tools of a manifest.
func (p *Plugins) toolsOf(name string, m *wire.Manifest) (*plugin.Tools, error) {
	set := plugin.NewTools()
	for i := range m.Tools {
		t := &m.Tools[i]
		declared := plugin.Tool{
			Name: t.Name, Description: t.Description, Effects: t.Effects, Serial: t.Serial,
			Timeout: time.Duration(t.TimeoutMS) * time.Millisecond,
		}
		field := fmt.Sprintf("manifest.tools[%d].schema", i)
		if len(t.Schema) > 0 {
			var err error
			if declared.Schema, err = compiled(field, t.Schema); err != nil {
				return nil, err
			}
		}
		declared.Recorded = func(call plugin.Call) { p.recorded(name, call) }
		if !t.Effects.Repeatable() {
			declared.Holder = func(effect events.EffectID) string { return p.pick(name, string(effect)) }
		}
		if err := set.Add(declared, p.handler(name, t.Name, t.Effects.Repeatable())); err != nil {
			return nil, &events.FieldError{Field: fmt.Sprintf("manifest.tools[%d]", i), Reason: err.Error(), Err: events.ErrInvalid}
		}
	}
	return set, nil
}

func compiled(field string, data []byte) (*jsonschema.Schema, error) {
	return schema.Parse(field, data)
}

// answer handles a request of a plugin.
func (p *Plugins) answer(name, op string, data []byte) []byte {
	answer := wire.Registered{}
	hash, err := p.register(name, op, data)
	refused := (*wire.Error)(nil)
	switch field := (*events.FieldError)(nil); {
	case err == nil:
		answer.Hash = hash
	case errors.As(err, &refused):
		answer.Error = refused
	case errors.As(err, &field):
		answer.Error = &wire.Error{Code: wire.CodeBadRequest, Field: field.Field, Message: err.Error()}
	default:
		p.log.Warn("registration failed", zap.String("plugin", name), zap.Error(err))
		answer.Error = &wire.Error{Code: wire.CodeInternal, Message: "the node could not store the registration: try again"}
	}
	out, _ := json.Marshal(&answer) // strings only
	return out
}

// registerTries is how often a registration is repeated that another one overtook.
const registerTries = 5

// register checks a manifest and stores it.
func (p *Plugins) register(name, op string, data []byte) (hash string, err error) {
	if op != "register" {
		return "", &wire.Error{Code: wire.CodeBadRequest, Field: "op", Message: fmt.Sprintf("no operation %q: an instance sends register first", op)}
	}
	var in wire.Registration
	if err := json.Unmarshal(data, &in); err != nil {
		return "", &wire.Error{Code: wire.CodeBadRequest, Message: "the registration is no JSON of its form: " + err.Error()}
	}
	if in.Protocol != wire.Version {
		return "", &wire.Error{Code: wire.CodeUnsupported, Field: "protocol", Message: fmt.Sprintf("is %d, this node speaks %d", in.Protocol, wire.Version)}
	}
	if err := in.Validate(); err != nil {
		return "", err
	}
	if !slices.Contains(p.names, name) {
		return "", &wire.Error{Code: wire.CodeBadRequest, Field: "plugin", Message: fmt.Sprintf("no node has the plugin %q: the operator names it", name)}
	}
	tools, err := p.toolsOf(name, &in.Manifest)
	if err != nil {
		return "", err
	}
	for range registerTries {
		if hash, err = p.store(name, &in.Manifest, tools); !errors.Is(err, bus.ErrStale) {
			return hash, err
		}
	}
	return "", err
}

// store puts the manifest's row, unless it has the manifest already.
func (p *Plugins) store(name string, m *wire.Manifest, tools *plugin.Tools) (hash string, err error) {
	stored, err := p.bus.Manifests().Get(p.ctx, events.SessionID(name))
	if err != nil {
		return "", err
	}
	r, old := row{Hash: m.Hash(), Manifest: *m}, row{}
	if stored.Revision > 0 {
		if err := json.Unmarshal(stored.Value, &old); err != nil {
			return "", err
		}
	}
	switch {
	case old.Hash == r.Hash:
		p.take(name, &r, tools, stored.Revision)
		return r.Hash, nil
	case old.Manifest.Version == m.Version:
		return "", &wire.Error{Code: wire.CodeConflict, Field: "manifest", Message: fmt.Sprintf("version %q is registered with other tools: give the plugin a new version", m.Version)}
	}
	value, err := json.Marshal(&r)
	if err != nil {
		return "", err
	}
	revision, err := p.bus.Manifests().Put(p.ctx, events.SessionID(name), value, stored.Revision)
	if err != nil {
		return "", err
	}
	p.take(name, &r, tools, revision)
	p.log.Info("plugin registered", zap.String("plugin", name), zap.String("version", m.Version))
	return r.Hash, nil
}

// sign handles a sign of life.
func (p *Plugins) sign(name, id string, data []byte) {
	var s wire.Sign
	if json.Unmarshal(data, &s) != nil || events.CheckToken("instance", id) != nil {
		return
	}
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
	k.instances[id] = &instance{heard: now, hash: s.Hash, draining: s.Draining, running: s.Running}
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
		if time.Since(i.heard) > wire.Lease || i.draining || i.hash != k.hash || slices.Contains(without, id) {
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

// Factories are the plugins for the stacks of sessions, in the order of their names.
func (p *Plugins) Factories() []plugin.Factory {
	list := make([]plugin.Factory, len(p.names))
	for i, name := range p.names {
		list[i] = factory{p, name}
	}
	return list
}

// factory is one external plugin.
type factory struct {
	p    *Plugins
	name string
}

func (f factory) ID() string { return f.name }

// Build implements [plugin.Factory]: the tools of the known manifest.
func (f factory) Build(plugin.BuildContext) (plugin.Plugin, error) {
	f.p.mu.Lock()
	tools := f.p.byName[f.name].tools
	f.p.mu.Unlock()
	return plugin.OfTools(f.name, func(events.SessionID) *plugin.Tools { return tools }).Build(plugin.BuildContext{})
}

func (f factory) Revision() uint64 {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	return f.p.byName[f.name].revision
}

// Status is what a node knows of one plugin.
type Status struct {
	Plugin    string
	Version   string // of the registered manifest; empty: none is registered
	Tools     []string
	Instances []InstanceStatus // that live, by id
}

// InstanceStatus is one instance that lives.
type InstanceStatus struct {
	ID       string
	Current  bool // has the registered manifest
	Draining bool
	Running  int // calls, at its last sign of life
}

// Status lists the plugins, in the order of their names in the configuration.
func (p *Plugins) Status() []Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := make([]Status, len(p.names))
	for i, name := range p.names {
		k := p.byName[name]
		list[i] = Status{Plugin: name, Version: k.version}
		for _, entry := range k.tools.Entries() {
			list[i].Tools = append(list[i].Tools, entry.Name)
		}
		for _, id := range slices.Sorted(maps.Keys(k.instances)) {
			if s := k.instances[id]; time.Since(s.heard) <= wire.Lease {
				list[i].Instances = append(list[i].Instances, InstanceStatus{id, s.hash == k.hash, s.draining, s.running})
			}
		}
	}
	return list
}
