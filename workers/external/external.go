package external

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/bus"
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin/wire"
)

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
	bus    *bus.Bus
	log    *zap.Logger
	idle   time.Duration
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
	current   *offer   // what row has, compiled; [noOffer] where none was registered
	row       row      // with the hash and the version of the current manifest
	revision  uint64   // of row; 0: none was registered
	skipped   string   // hash of the last stored manifest that this version refuses
	older     []*offer // that turns may still have, the last used first
	instances map[string]*instance
	terms     map[string]heardTerms // by instance
	told      time.Time             // when two programs with one id were told last
	listens   time.Time             // until when a first registration waits, see listen
	reading   bool                  // the manifest's row is being read
	read      time.Time
	swept     time.Duration // on the clock of hearing, when silent instances were dropped last
	observes  bool          // its events are being delivered
	fires     int           // requests to call hooks at custom points that run
	closing   bool          // a withdrawn question is being closed
	closed    map[wire.Question]bool
	limits    *requests
	drops     drops
	// hearing is how long this node has heard the plugin's signs of life, in nanoseconds. A silence counts on this clock: a node
	// that was frozen or had no connection does not take its own silence for the death of the instances.
	hearing atomic.Int64
}

// clock is how long this node has heard signs of life of the plugin.
func (k *known) clock() time.Duration { return time.Duration(k.hearing.Load()) }

type instance struct {
	wire.Sign // the last one

	heard time.Duration // on the node's clock of hearing
}

// maxInstances limits the instances of one plugin that a node knows. Further ones get no calls from it.
const maxInstances = 1024

// New checks the configuration. Errors: [*events.FieldError].
func New(cfg Config) (*Plugins, error) {
	p := &Plugins{bus: cfg.Bus, log: cfg.Logger, idle: cmp.Or(cfg.Idle, 30*time.Second), byName: make(map[string]*known), heard: make(chan struct{}, 1)}
	if p.log == nil {
		p.log = zap.NewNop()
	}
	p.log = p.log.Named("external")
	if p.grace = cmp.Or(cfg.CancelGrace, wire.CancelGrace); p.grace < 0 {
		return nil, &events.FieldError{Field: "cancel_grace", Reason: "is negative", Err: events.ErrInvalid}
	}
	for i, settings := range cfg.Plugins {
		name, field := settings.Name, fmt.Sprintf("plugins[%d]", i)
		if err := settings.Validate(field); err != nil {
			return nil, err
		}
		if p.byName[name] != nil {
			return nil, &events.FieldError{Field: field + ".name", Reason: fmt.Sprintf("%q occurs twice", name), Err: events.ErrInvalid}
		}
		p.names = append(p.names, name)
		p.byName[name] = &known{settings: settings, current: noOffer(), instances: make(map[string]*instance), limits: newRequests()}
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
	signs, err := p.bus.PluginSigns(p.names, p.sign)
	if err != nil {
		return err
	}
	p.stops = []func(){signs}
	for _, name := range p.names {
		k := p.byName[name]
		hearing, err := p.bus.Hearing(name, wire.SignEvery/2, func(d time.Duration) { k.hearing.Add(int64(d)) })
		if err != nil {
			p.Stop()
			return err
		}
		p.stops = append(p.stops, hearing)
	}
	p.work.Go(p.check)
	for _, name := range p.names {
		if err := p.bus.TellInstance(name, wire.All, wire.VerbSign, nil); err != nil {
			p.Stop()
			return err
		}
	}
	p.listen()
	serve, err := p.bus.ServePlugins(p.names, p.answer)
	if err != nil {
		p.Stop()
		return err
	}
	p.stops = append(p.stops, serve)
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

// sign handles a sign of life.
func (p *Plugins) sign(name, id string, data []byte) {
	var s wire.Sign
	switch {
	case len(data) > wire.MaxSignBytes:
		p.drop(name, signTooLarge)
		return
	case wire.Decode(data, &s) != nil, s.Validate() != nil, len(s.Hash) > hex.EncodedLen(sha256.Size), id == wire.All, events.CheckToken("instance", id) != nil:
		p.drop(name, signInvalid)
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
		k.sweepLocked(k.clock())
		if len(k.instances) >= maxInstances {
			p.drop(name, signTooMany)
			return
		}
	}
	if !p.winsLocked(name, k, id, s.Term) {
		p.drop(name, signOther)
		return
	}
	k.instances[id] = &instance{s, k.clock()}
	select {
	case p.heard <- struct{}{}:
	default: // Start has one to read, or has ended
	}
	if s.Hash != k.row.Hash && !k.row.hasReplaced(s.Hash) && !k.reading && now.Sub(k.read) > rereadEvery {
		k.reading, k.read = true, now
		p.work.Go(func() { p.reread(name, id, s.Hash) })
	}
	p.withdrawnLocked(name, k, s.Withdrawn)
}

// sweepLocked drops instances that are silent, at most once per [wire.SignEvery].
func (k *known) sweepLocked(now time.Duration) {
	if k.swept > 0 && now-k.swept < wire.SignEvery {
		return
	}
	k.swept = now
	for old, i := range k.instances {
		if now-i.heard > wire.Lease {
			delete(k.instances, old)
		}
	}
}

// takes reports whether an instance gets new calls.
func (k *known) takes(i *instance, now time.Duration) bool {
	return i != nil && now-i.heard <= wire.Lease && !i.Draining && i.Hash == k.row.Hash
}

// pick is the instance for a call, or for a session where no call is named; empty if none lives.
func (p *Plugins) pick(name string, call wire.CallID, without ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	k, best, most := p.byName[name], "", uint64(0)
	for id, i := range k.instances {
		if !k.takes(i, k.clock()) || slices.Contains(without, id) {
			continue
		}
		if rank := rankOf(call, id); best == "" || rank > most || rank == most && id > best {
			best, most = id, rank
		}
	}
	return best
}

// rankOf is the rank of an instance for a call. Each byte of the ids reaches each bit of it: ids of instances often differ in their
// last byte alone.
func rankOf(call wire.CallID, id string) uint64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", call.Session, call.Call, id))
	return binary.BigEndian.Uint64(sum[:])
}

// gone drops an instance that does not answer. Its next sign of life brings it back.
func (p *Plugins) gone(name, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.byName[name].instances, id)
}
