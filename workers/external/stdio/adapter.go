package stdio

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/plugin"
	"github.com/lash-go/lash/session/plugin/wire"
	"github.com/lash-go/lash/workers/internal/process"
)

// Config of an adapter. Plugin and Command are required.
type Config struct {
	Plugin  string   // name of the plugin, a token
	Command []string // the program and its arguments
	// Sandbox is a command that runs Command, which follows it. In each of its words {cwd} stands for Dir.
	Sandbox []string
	Dir     string            // working directory of the program. Defaults to that of this process
	Env     map[string]string // environment of the program, in addition to PATH
	// Idle ends the child of a session after this time without a call or hook, for plugins of scope session; 0: never.
	Idle time.Duration
	// RegisterWait limits the time from the start of a child to its register line. Defaults to 10 s.
	RegisterWait time.Duration
	Logger       *zap.Logger // gets the standard error of the program, line by line. nil logs nothing
}

// Adapter runs a program as child processes. It implements [remote.Program].
type Adapter struct {
	cfg        Config
	command    process.Command
	manifest   *wire.Manifest
	hash       string
	repeatable map[string]bool // by tool
	draining   atomic.Bool

	mu    sync.Mutex
	slots map[events.SessionID]*slot // "" for what has no placement: hooks that observe, and all of a plugin without scope session
}

// New checks the configuration, starts a child and reads what the program registers. Errors: an [*events.FieldError] for
// an invalid configuration or manifest, and why the program did not register.
func New(ctx context.Context, cfg Config) (*Adapter, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	a := &Adapter{cfg: cfg, repeatable: make(map[string]bool), slots: make(map[events.SessionID]*slot)}
	a.command = process.Command{Dir: cfg.Dir, Env: cfg.Env}
	for _, word := range cfg.Sandbox {
		a.command.Args = append(a.command.Args, strings.ReplaceAll(word, "{cwd}", cfg.Dir))
	}
	a.command.Args = append(a.command.Args, cfg.Command...)
	c, err := a.open(ctx)
	if err != nil {
		return nil, err
	}
	for i := range a.manifest.Tools {
		t := &a.manifest.Tools[i]
		a.repeatable[t.Name] = t.Effects.Repeatable()
	}
	shared := newSlot(nil)
	a.slots[""] = shared
	if a.manifest.Scope == wire.ScopeSession { // each session has a child of its own
		c.close()
		<-c.gone
		return a, nil
	}
	shared.child = c
	return a, nil
}

func (cfg *Config) check() (err error) {
	cfg.RegisterWait = cmp.Or(cfg.RegisterWait, 10*time.Second)
	cfg.Logger = cmp.Or(cfg.Logger, zap.NewNop()).Named(cfg.Plugin)
	if err := events.CheckToken("plugin", cfg.Plugin); err != nil {
		return err
	}
	if len(cfg.Command) == 0 {
		return &events.FieldError{Field: "command", Reason: "is required", Err: events.ErrInvalid}
	}
	if cfg.Dir == "" {
		if cfg.Dir, err = os.Getwd(); err != nil {
			return err
		}
	}
	if info, err := os.Stat(cfg.Dir); err != nil || !info.IsDir() {
		return &events.FieldError{Field: "dir", Reason: cfg.Dir + " is no directory", Err: events.ErrInvalid}
	}
	for name := range cfg.Env {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			return &events.FieldError{Field: "env", Reason: fmt.Sprintf("%q is no name of a variable", name), Err: events.ErrInvalid}
		}
	}
	return nil
}

// open starts a child that has registered the manifest. The first one decides which that is.
func (a *Adapter) open(ctx context.Context) (*child, error) {
	c, err := spawn(ctx, a.cfg.Logger, a.command)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", a.cfg.Command[0], err)
	}
	if err := a.register(ctx, c); err != nil {
		c.end(err)
		<-c.gone
		return nil, fmt.Errorf("%s: %w", a.cfg.Command[0], err)
	}
	return c, nil
}

func (a *Adapter) register(ctx context.Context, c *child) error {
	once, cancel := context.WithTimeoutCause(ctx, a.cfg.RegisterWait, fmt.Errorf("it sent no register line within %s", a.cfg.RegisterWait))
	defer cancel()
	select {
	case r := <-c.registered:
		hash := r.Manifest.Hash()
		switch err := r.Manifest.Validate(); {
		case r.Protocol != wire.Version:
			return &events.FieldError{Field: "protocol", Reason: fmt.Sprintf("is %d, want %d", r.Protocol, wire.Version), Err: events.ErrInvalid}
		case err != nil:
			return err
		case a.hash != "" && a.hash != hash:
			return errors.New("it registered another manifest than before: start the adapter again")
		}
		if a.hash == "" {
			a.manifest, a.hash = &r.Manifest, hash
		}
		c.send(lineInit, &initial{Plugin: a.cfg.Plugin, Hash: a.hash})
		return nil
	case <-c.gone:
		return fmt.Errorf("it ended before it registered: %s", c.reason())
	case <-once.Done():
		return context.Cause(once)
	}
}

// ID implements [plugin.Factory].
func (a *Adapter) ID() string { return a.cfg.Plugin }

// Build implements [plugin.Factory]. The program runs in no node.
func (a *Adapter) Build(plugin.BuildContext) (plugin.Plugin, error) {
	return nil, fmt.Errorf("plugin %s is a program of its own", a.cfg.Plugin)
}

// Manifest is what the first child registered.
func (a *Adapter) Manifest() *wire.Manifest { return a.manifest }

// Drain tells all children that no new calls come, once.
func (a *Adapter) Drain() {
	if !a.draining.CompareAndSwap(false, true) {
		return
	}
	for _, s := range a.all() {
		if c := s.current(); c != nil {
			c.send(lineDrain, struct{}{})
		}
	}
}

// Close ends all children: it closes their inputs, and kills those that do not end. It returns when their process
// groups are dead, after 4 s at most. Calls that run in them end.
func (a *Adapter) Close() {
	list := a.all()
	for _, s := range list {
		s.end()
	}
	for _, s := range list {
		if c := s.current(); c != nil {
			<-c.gone
		}
	}
}

func (a *Adapter) all() (list []*slot) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.slots {
		list = append(list, s)
	}
	return list
}
