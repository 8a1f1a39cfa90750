package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
)

// Config of an instance. Conn, Plugin and Version are required.
type Config struct {
	Conn    *nats.Conn // a connection with the credentials of the plugin; the caller closes it
	Plugin  plugin.Factory
	Version string // of the plugin: instances of one version have the same tools
	Prefix  string // of the fleet's subjects. Defaults to [events.DefaultPrefix]
	// Instance begins the id of the instance, as a pod's name: a token of at most 51 characters. Each start adds a random
	// part, so that no start has the id of another. Empty: the id is random.
	Instance string
	// Keep is how long an outcome is kept that no node says is recorded. Defaults to 10 minutes.
	Keep   time.Duration
	Prompt []wire.Fragment                  // texts in the system prompts of all sessions
	Hooks  map[events.HookPoint]HookOptions // by point. Defaults to the defaults of each
	Custom map[string]CustomFunc            // by the names of custom points, which other plugins fire
	// Scope says which sessions share an instance. With [wire.ScopeSession] the plugin may also be a [SessionStarter]
	// and an [Idler].
	Scope wire.Scope
	// Rollback makes this version the current one again after a later one replaced it.
	Rollback bool
	// Grace is how long [Instance.Run] waits for running calls when it ends. Defaults to 60 s.
	Grace  time.Duration
	Logger *zap.Logger // nil logs nothing
}

// Instance is a running instance of a plugin.
type Instance struct {
	cfg   Config
	tools *plugin.Tools
	hooks map[string]hookFunc // by point
	calls *calls

	machine string

	subs        []*nats.Subscription
	manifest    *wire.Manifest
	hash        atomic.Pointer[string] // of the manifest, computed here until a node has registered it
	term        atomic.Pointer[string] // of this program, among those with its id; nil before a node has given it
	registering atomic.Bool            // again, as nodes have lost the manifest
	refused     atomic.Pointer[error]  // of that registration
	sessions    sessions               // that are placed here
	leaving     atomic.Bool            // it says that it takes no new calls
	endOnce     sync.Once
	asked       chan struct{} // closed when a node, or the plugin itself, wants the instance to end

	ctx    context.Context //nolint:containedctx // of the calls, ends with Stop
	cancel context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool           // Stop waits: no work begins
	work    sync.WaitGroup // added to under mu, unless stopped
}

// begin runs work in a goroutine that Stop waits for. Once Stop waits, begin returns false and runs nothing.
func (i *Instance) begin(work func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.stopped {
		i.work.Go(work)
	}
	return !i.stopped
}

// ErrStopped is the cause for the end of calls that run when an instance stops.
var ErrStopped = errors.New("the instance stopped")

// registerWait limits one attempt to register, registerPause the time until the next one. An instance that nodes refuse
// as one of too many tries again after limitedWait, and registerTries times at most.
const (
	registerWait  = wire.RegisterRepeat
	registerPause = time.Second
	registerTries = 5
	limitedWait   = 2 * time.Second
)

// Start registers the plugin and runs its calls until [Instance.Stop]. It waits for a server and a node until ctx ends.
// Errors: an [*events.FieldError] for an invalid plugin, a [*wire.Error] if a node refuses the registration, an error of
// NATS if the servers refuse the credentials, and ctx.Err() if it ends before.
func Start(ctx context.Context, cfg Config) (*Instance, error) {
	i, err := declared(&cfg)
	if err != nil {
		return nil, err
	}
	hash := i.manifest.Hash()
	i.hash.Store(&hash)
	i.machine, _ = os.Hostname()                                          // for operators; empty where it has none
	i.ctx, i.cancel = context.WithCancelCause(context.WithoutCancel(ctx)) // ends with Stop
	i.calls = newCalls(cfg.Keep)
	if err := i.connected(ctx); err != nil {
		i.cancel(ErrStopped)
		return nil, fmt.Errorf("plugin %s: %w", cfg.Plugin.ID(), err)
	}
	if err := i.listen(); err != nil {
		return nil, errors.Join(err, i.Stop(ctx))
	}
	if err := i.register(ctx); err != nil {
		return nil, errors.Join(err, i.Stop(ctx))
	}
	i.sign()
	i.begin(i.signs)
	return i, nil
}

// randomChars is the length of the random part of an id, which follows a name and a hyphen.
const randomChars = 12

// instanceID is a new id. A program that starts again must not have an id that nodes know: they would ask it for calls
// of the program before, and it would run them again.
func instanceID(name string) (string, error) {
	if name == "" {
		return rand.Text(), nil
	}
	if err := CheckInstance("config.instance", name); err != nil {
		return "", err
	}
	return name + "-" + rand.Text()[:randomChars], nil
}

// endWork lets no more work begin.
func (i *Instance) endWork() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.stopped = true
}

// declared fills in the defaults, and lists the plugin's tools and hooks.
func declared(cfg *Config) (*Instance, error) {
	cfg.Prefix = cmp.Or(cfg.Prefix, events.DefaultPrefix)
	cfg.Keep = cmp.Or(cfg.Keep, wire.KeepOutcome)
	cfg.Grace = cmp.Or(cfg.Grace, time.Minute)
	cfg.Logger = cmp.Or(cfg.Logger, zap.NewNop())
	if cfg.Conn == nil || cfg.Plugin == nil {
		return nil, &events.FieldError{Field: "config", Reason: "Conn and Plugin are required", Err: events.ErrInvalid}
	}
	id, err := instanceID(cfg.Instance)
	if err = errors.Join(events.CheckToken("plugin.id", cfg.Plugin.ID()), err); err != nil {
		return nil, err
	}
	cfg.Instance = id
	if p, ok := cfg.Plugin.(Program); ok {
		m := p.Manifest()
		cfg.Scope = m.Scope
		return &Instance{cfg: *cfg, manifest: m, asked: make(chan struct{})}, m.Validate()
	}
	d, err := plugin.Declare(cfg.Plugin)
	if err != nil {
		return nil, err
	}
	m := &wire.Manifest{Version: cfg.Version, Scope: cfg.Scope, Prompt: cfg.Prompt}
	list, hooks, err := hooksOf(d, cfg)
	if err != nil {
		return nil, err
	}
	m.Hooks = list
	for _, entry := range d.Tools.Entries() {
		tool, _ := d.Tools.Find(entry.Name)
		m.Tools = append(m.Tools, wire.Tool{
			Name: entry.Name, Description: entry.Description, Schema: entry.Look().Schema, Effects: entry.Effects,
			TimeoutMS: tool.Timeout.Milliseconds(), Serial: entry.Serial,
		})
	}
	return &Instance{cfg: *cfg, tools: d.Tools, hooks: hooks, manifest: m, asked: make(chan struct{})}, m.Validate()
}

func (i *Instance) subject(verb string) string {
	return strings.Join([]string{i.cfg.Prefix, "plugin", i.cfg.Plugin.ID(), i.cfg.Instance, verb}, ".")
}

// connected waits until the connection has a server.
func (i *Instance) connected(ctx context.Context) error {
	conn := i.cfg.Conn
	changes := conn.StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer conn.RemoveStatusListener(changes)
	for !conn.IsConnected() {
		if conn.IsClosed() {
			return cmp.Or(conn.LastError(), nats.ErrConnectionClosed)
		}
		select {
		case <-changes:
		case <-ctx.Done():
			return fmt.Errorf("no server answers: %w", ctx.Err())
		}
	}
	return nil
}

// listen subscribes to the messages of nodes. Each is handled at once, so that a cancel overtakes running calls.
func (i *Instance) listen() error {
	for verb, handle := range map[string]func(*nats.Msg){
		wire.VerbCall: i.call, wire.VerbCancel: i.cancelCall, wire.VerbRecorded: i.recorded, wire.VerbCallback: i.answered, wire.VerbHook: i.hook,
		wire.VerbRegister: i.registerAgain, wire.VerbDrain: i.drainRequested, wire.VerbSessionStart: i.startSession, wire.VerbIdle: i.idle,
	} {
		sub, err := i.cfg.Conn.Subscribe(i.subject(verb), handle)
		if err != nil {
			return fmt.Errorf("instance %s: %w", i.cfg.Instance, err)
		}
		i.subs = append(i.subs, sub)
	}
	all := strings.Join([]string{i.cfg.Prefix, "plugin", i.cfg.Plugin.ID(), wire.All, wire.VerbSign}, ".")
	sub, err := i.cfg.Conn.Subscribe(all, func(*nats.Msg) { i.sign() })
	if err != nil {
		return fmt.Errorf("instance %s: %w", i.cfg.Instance, err)
	}
	i.subs = append(i.subs, sub)
	return i.cfg.Conn.Flush()
}

// register repeats the request while no node answers.
func (i *Instance) register(ctx context.Context) error {
	body, err := wire.Encode(&wire.Registration{Protocol: wire.Version, Instance: i.cfg.Instance, Term: i.ownTerm(), Manifest: *i.manifest, Rollback: i.cfg.Rollback})
	if err != nil {
		return fmt.Errorf("register %s: %w", i.cfg.Plugin.ID(), err)
	}
	subject := i.cfg.Prefix + ".plugins." + i.cfg.Plugin.ID() + "." + wire.VerbRegister
	limited := 0 // tries that were refused as too many
	for try := 1; ; try++ {
		once, cancel := context.WithTimeout(ctx, registerWait)
		m, err := i.cfg.Conn.RequestWithContext(once, subject, body)
		cancel()
		wait := min(time.Duration(try)*100*time.Millisecond, registerPause)
		if err == nil {
			err = i.registered(m.Data)
			if refused, ok := errors.AsType[*wire.Error](err); !ok || refused.Code != wire.CodeRateLimited || limited >= registerTries {
				return err
			}
			limited++
			wait = time.Duration(limited) * limitedWait
		}
		if refused := i.cfg.Conn.LastError(); errors.Is(refused, nats.ErrPermissionViolation) {
			return fmt.Errorf("register %s: the credentials are of another plugin: %w", i.cfg.Plugin.ID(), refused)
		}
		if i.cfg.Conn.IsClosed() {
			return fmt.Errorf("register %s: %w", i.cfg.Plugin.ID(), cmp.Or(i.cfg.Conn.LastError(), err))
		}
		if try == 1 && m == nil {
			i.cfg.Logger.Warn("no node answers the registration: waiting for one", zap.String("subject", subject))
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			return fmt.Errorf("register %s: no node answers on %s: %w", i.cfg.Plugin.ID(), subject, ctx.Err())
		}
	}
}

// registerAgain registers the plugin where the nodes' table of manifests was lost.
func (i *Instance) registerAgain(*nats.Msg) {
	if !i.registering.CompareAndSwap(false, true) {
		return
	}
	i.begin(func() {
		defer i.registering.Store(false)
		err := i.register(i.ctx)
		if err == nil {
			return
		}
		i.cfg.Logger.Warn("register again", zap.Error(err))
		if refused, ok := errors.AsType[*wire.Error](err); ok && refused.Code != wire.CodeRateLimited {
			i.refused.Store(&err)
			i.end()
		} // else the next sign of life leads to the next request
	})
}

// ownTerm is the term of this program; empty before a node has given it.
func (i *Instance) ownTerm() string {
	if term := i.term.Load(); term != nil {
		return *term
	}
	return ""
}

// isForeign reports whether a message is for another program with the id of this one. Such a message gets no answer.
func (i *Instance) isForeign(term string) bool { return term != "" && term != i.ownTerm() }

func (i *Instance) registered(answer []byte) error {
	var r wire.Registered
	if err := json.Unmarshal(answer, &r); err != nil {
		return fmt.Errorf("register %s: %w", i.cfg.Plugin.ID(), err)
	}
	if r.Error != nil {
		return fmt.Errorf("register %s: %w", i.cfg.Plugin.ID(), r.Error)
	}
	if r.Hash != "" {
		i.hash.Store(&r.Hash)
	}
	if r.Term != "" {
		i.term.CompareAndSwap(nil, &r.Term) // the answers to two requests have two terms
	}
	return nil
}

// signs sends signs of life, of the instance and of its calls, until Stop.
func (i *Instance) signs() {
	every := time.NewTicker(wire.SignEvery)
	defer every.Stop()
	for {
		select {
		case <-i.ctx.Done():
			return
		case <-every.C:
			i.sign()
			for _, reply := range i.calls.readers() {
				_ = i.send(reply, &wire.Progress{})
			}
			i.calls.forgetOld(time.Now())
			i.endForgotten(time.Now())
		}
	}
}

func (i *Instance) sign() {
	running, ended, failed := i.calls.counts()
	data, err := i.calls.signed(wire.Sign{Hash: *i.hash.Load(), Term: i.ownTerm(), Draining: i.leaving.Load(), Machine: i.machine, Running: running, Calls: ended, Failures: failed})
	if err == nil {
		_ = i.cfg.Conn.Publish(i.cfg.Prefix+".plugin-live."+i.cfg.Plugin.ID()+"."+i.cfg.Instance, data) // the next one follows
	}
}

// send sends an answer. Errors: a [*wire.Error] for one that is too large; what is lost on the way, the node asks for
// again.
func (i *Instance) send(reply string, p *wire.Progress) error {
	if reply == "" {
		return nil
	}
	data, err := wire.Encode(p)
	if err == nil {
		err = i.cfg.Conn.Publish(reply, data)
	}
	if err != nil {
		i.cfg.Logger.Warn("an answer could not be sent", zap.Error(err))
	}
	return err
}

// Stop cancels the calls that run, sends their outcomes, and ends the instance. Errors: the cause of ctx's end, if a
// tool does not return before.
func (i *Instance) Stop(ctx context.Context) error {
	i.leaving.Store(true)
	if i.calls.drain() {
		i.sign()
	}
	i.cancel(ErrStopped)
	i.endWork()
	done := make(chan struct{})
	go func() { // ends with the tools
		i.work.Wait()
		close(done)
	}()
	var err error
	select {
	case <-done:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	for _, sub := range i.subs {
		_ = sub.Unsubscribe()
	}
	if i.calls.hasWithdrawn() {
		i.sign() // the last one
	}
	_ = i.cfg.Conn.FlushTimeout(time.Second) // without a server no node waits for the outcomes
	return err
}
