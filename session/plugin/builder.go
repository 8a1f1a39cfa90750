package plugin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// BuilderConfig configures a [Builder].
type BuilderConfig struct {
	Builtins  []Factory     // a factory of Factories with the same id replaces one of these
	Factories []Factory     // in their order, after the built-in factories
	Timeout   time.Duration // of one hook. Defaults to 30 s
	// Probe runs at the start of every hook with "plugin_hook.<point>.<plugin>", and the returned function runs at
	// its end. Defaults to nothing.
	Probe func(phase string) (end func())
	// Warn receives errors that are logged and otherwise ignored. Defaults to the log of the first worker that uses
	// the builder.
	Warn func(plugin, point string, err error)
}

// Builder builds the stacks of plugins of sessions. It is safe for concurrent use.
type Builder struct {
	factories []Factory
	timeout   time.Duration
	probe     func(phase string) (end func())

	lists lists

	mu     sync.Mutex
	live   map[events.SessionID]bool
	warned func(plugin, point string, err error) // nil drops warnings
}

// NewBuilder orders the factories. Two factories with one id, and one without an id, are errors.
func NewBuilder(cfg BuilderConfig) (*Builder, error) {
	builder := &Builder{timeout: cfg.Timeout, warned: cfg.Warn, live: make(map[events.SessionID]bool)}
	if builder.timeout == 0 {
		builder.timeout = 30 * time.Second
	}
	if builder.probe = cfg.Probe; builder.probe == nil {
		builder.probe = func(string) func() { return func() {} }
	}
	own := make(map[string]bool, len(cfg.Factories))
	var errs []error
	for _, f := range cfg.Factories {
		if own[f.ID()] || f.ID() == "" {
			errs = append(errs, fmt.Errorf("%w: factory %q occurs twice or has no id", ErrRegistration, f.ID()))
		}
		own[f.ID()] = true
	}
	for _, f := range cfg.Builtins {
		if !own[f.ID()] {
			builder.factories = append(builder.factories, f)
		}
	}
	builder.factories = append(builder.factories, cfg.Factories...)
	return builder, errors.Join(errs...)
}

// SetWarn sets the receiver of warnings, unless one is set.
func (b *Builder) SetWarn(warn func(plugin, point string, err error)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.warned == nil {
		b.warned = warn
	}
}

func (b *Builder) warn(plugin, point string, err error) {
	b.mu.Lock()
	warned := b.warned
	b.mu.Unlock()
	if warned != nil {
		warned(plugin, point, err)
	}
}

// External are the plugins that run as programs of their own, in stack order.
func (b *Builder) External() []api.ExternalPlugin {
	list := []api.ExternalPlugin{}
	for _, f := range b.factories {
		if r, ok := f.(Reporting); ok {
			list = append(list, r.Report())
		}
	}
	return list
}

// LeftOut are the tools that factories leave out.
func (b *Builder) LeftOut() (list []api.LeftOutTool) {
	for _, f := range b.factories {
		if l, ok := f.(LeavesOut); ok {
			list = append(list, l.LeftOut()...)
		}
	}
	return list
}

// BuildStack builds a session's stack from every factory that wants the session, in order. A nil snapshot restores
// nothing. The stack is live until [Stack.Close]. A second live stack of the same session is refused.
func (b *Builder) BuildStack(ctx context.Context, in BuildContext, snapshot []projector.PluginState) (*Stack, error) {
	b.mu.Lock()
	taken := b.live[in.Session]
	b.live[in.Session] = true
	b.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("%w: session %s is live already", ErrRegistration, in.Session)
	}
	s, err := b.buildStack(ctx, in, snapshot)
	if err != nil {
		b.release(in.Session)
		return nil, fmt.Errorf("build plugins of session %s: %w", in.Session, err)
	}
	return s, nil
}

func (b *Builder) release(id events.SessionID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.live, id)
}

// CheckConfig refuses a configuration whose protocol no plugin of this node registers. Other errors of its plugins
// appear when the stack is built. Errors: an [*events.FieldError] that is [events.ErrInvalid].
func (b *Builder) CheckConfig(in BuildContext) error {
	_, err := b.registered(in)
	if missing, ok := errors.AsType[*events.FieldError](err); ok && errors.Is(err, ErrUnavailable) {
		return &events.FieldError{Field: missing.Field, Reason: missing.Reason + ": check the name, or have the node's plugins provide it", Err: events.ErrInvalid}
	}
	return nil
}

// registered is a stack after the registration of its plugins, before they become ready.
func (b *Builder) registered(in BuildContext) (*Stack, error) {
	s := &Stack{
		builder: b, id: in.Session, catalogs: catalogs{entries: make(map[CatalogKey]*CatalogEntry)}, executing: make(chan struct{}, 1),
	}
	s.c = newContributions(b.lists.size())
	var err error
	if in.Extensions, err = b.extensions(); err != nil {
		return nil, err
	}
	s.build = in
	s.built = b.revisions(in)
	for _, f := range b.factories {
		if err := s.register(f, in); err != nil {
			return nil, err
		}
	}
	return s, s.complete()
}

func (b *Builder) buildStack(ctx context.Context, in BuildContext, snapshot []projector.PluginState) (*Stack, error) {
	s, err := b.registered(in)
	if err != nil {
		return nil, err
	}
	for i := range s.plugins {
		if p, ok := s.plugins[i].plugin.(SessionReadyNotifier); ok {
			_, err := contain(ctx, s, s.plugins[i].id, "session_ready", func(ctx context.Context) (struct{}, error) {
				return struct{}{}, p.SessionReady(ctx, s)
			})
			if err != nil {
				return nil, fmt.Errorf("plugin %s: %w", s.plugins[i].id, err)
			}
		}
	}
	for i := range s.plugins {
		m := &s.plugins[i]
		// The revision after registration is the same on every node.
		if m.lastRevision, err = recovered(m.id, "revision", func() (uint64, error) { _ = m.version(); return m.revision(), nil }); err != nil {
			return nil, err
		}
	}
	if snapshot == nil {
		return s, nil
	}
	return s, s.Restore(snapshot)
}

func (b *Builder) extensions() (Extensions, error) {
	all := make(Extensions)
	for _, f := range b.factories {
		e, ok := f.(Extending)
		if !ok {
			continue
		}
		own, err := recovered(f.ID(), "extensions", func() (map[string]any, error) { return e.Extensions(), nil })
		if err != nil {
			return nil, err
		}
		for id, payload := range own {
			all[id] = append(all[id], payload)
		}
	}
	return all, nil
}
