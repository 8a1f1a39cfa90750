package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// HostConfig of a [Host].
type HostConfig struct {
	Builtins  []Factory     // those whose id a factory below has are left out
	Factories []Factory     // the host's own, in their order, after the built-in ones
	Timeout   time.Duration // of one hook. Defaults to 30 s
	// Probe brackets every hook: it is told "plugin_hook.<point>.<plugin>" at
	// the beginning, and what it returns is called at the end. Defaults to nothing.
	Probe func(phase string) (end func())
	// Warn is told what is logged and otherwise ignored. Defaults to the log of the first worker that uses the host.
	Warn func(plugin, point string, err error)
}

// Host builds the stacks of plugins of sessions. It is safe for concurrent use.
type Host struct {
	factories []Factory
	timeout   time.Duration
	probe     func(phase string) (end func())

	mu     sync.Mutex
	live   map[events.SessionID]bool
	warned func(plugin, point string, err error) // nil: nobody
}

// NewHost puts factories in order (host specification 4.1). Of two with one id the error names it.
func NewHost(cfg HostConfig) (*Host, error) {
	h := &Host{timeout: cfg.Timeout, warned: cfg.Warn, live: make(map[events.SessionID]bool)}
	if h.timeout == 0 {
		h.timeout = 30 * time.Second
	}
	if h.probe = cfg.Probe; h.probe == nil {
		h.probe = func(string) func() { return func() {} }
	}
	own := make(map[string]bool, len(cfg.Factories))
	var errs []error
	for _, f := range cfg.Factories {
		if own[f.ID()] || f.ID() == "" {
			errs = append(errs, fmt.Errorf("%w: factory %q stands twice or has no id", ErrRegistration, f.ID()))
		}
		own[f.ID()] = true
	}
	for _, f := range cfg.Builtins {
		if !own[f.ID()] {
			h.factories = append(h.factories, f)
		}
	}
	h.factories = append(h.factories, cfg.Factories...)
	return h, errors.Join(errs...)
}

// WarnTo sets who is told what is logged and otherwise ignored, unless somebody is already.
func (h *Host) WarnTo(warn func(plugin, point string, err error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.warned == nil {
		h.warned = warn
	}
}

func (h *Host) warn(plugin, point string, err error) {
	h.mu.Lock()
	warned := h.warned
	h.mu.Unlock()
	if warned != nil {
		warned(plugin, point, err)
	}
}

// Session is a session's stack of plugins. Its methods may be called from many goroutines.
type Session struct {
	host    *Host
	id      events.SessionID
	build   BuildContext
	plugins []member
	c       contributions

	mu       sync.Mutex
	overlay  overlay
	added    []string  // tool sources
	known    []Overlay // whose handlers this process has, the newest first
	catalogs catalogs
	sender   func(text, kind string)

	executing chan struct{} // holds one while code runs
}

// member is one plugin of a stack.
type member struct {
	id     string
	plugin Plugin
	saved  uint64 // revision that the history has, as far as it is known here
	handed uint64 // revision that it will have once what was given out has landed
	seen   uint64 // the plugin's own revision when it was restored or given out last
	given  *given // what was given out last; nil where nothing was since it was restored
	lost   bool   // something given out will not land: it is restored before it gives out more
}

func (m *member) version() string {
	if v, ok := m.plugin.(Versioned); ok {
		return v.Version()
	}
	return "1"
}

func (m *member) revision() uint64 {
	if p, ok := m.plugin.(Stateful); ok {
		return p.Revision()
	}
	return 0
}

// BuildSession builds a session's stack: every factory that wants the session,
// in order; a nil snapshot restores nothing. The session is live until
// [Session.Close]; of two live ones with one id the second is refused.
func (h *Host) BuildSession(ctx context.Context, in BuildContext, snapshot []projector.PluginState) (*Session, error) {
	h.mu.Lock()
	taken := h.live[in.Session]
	h.live[in.Session] = true
	h.mu.Unlock()
	if taken {
		return nil, fmt.Errorf("%w: session %s is live already", ErrRegistration, in.Session)
	}
	s, err := h.buildSession(ctx, in, snapshot)
	if err != nil {
		h.release(in.Session)
		return nil, fmt.Errorf("build plugins of session %s: %w", in.Session, err)
	}
	return s, nil
}

func (h *Host) release(id events.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.live, id)
}

// Takes refuses a configuration that names a protocol that no plugin is here:
// to ask again does not help. What else is wrong with its plugins, its building says. Errors: an
// [*events.FieldError] that is [events.ErrInvalid].
func (h *Host) Takes(in BuildContext) error {
	_, err := h.registered(in)
	if missing, ok := errors.AsType[*events.FieldError](err); ok && errors.Is(err, ErrUnavailable) {
		return &events.FieldError{Field: missing.Field, Reason: missing.Reason + ": check the name, or have the node's plugins provide it", Err: events.ErrInvalid}
	}
	return nil
}

// registered is a stack whose plugins have declared what they are, and no more.
func (h *Host) registered(in BuildContext) (*Session, error) {
	s := &Session{
		host: h, id: in.Session, catalogs: catalogs{entries: make(map[CatalogKey]*CatalogEntry)}, executing: make(chan struct{}, 1),
	}
	s.c = contributions{
		tools: NewTools(), owners: make(map[string]string), reserved: make(map[toolID]*Registered),
		sources: make(map[string]Owned[SourceFunc]),
		actions: make(map[string]Owned[action]),
	}
	var err error
	if in.Extensions, err = h.extensions(); err != nil {
		return nil, err
	}
	s.build = in
	for _, f := range h.factories {
		if err := s.register(f, in); err != nil {
			return nil, err
		}
	}
	return s, s.complete()
}

func (h *Host) buildSession(ctx context.Context, in BuildContext, snapshot []projector.PluginState) (*Session, error) {
	s, err := h.registered(in)
	if err != nil {
		return nil, err
	}
	for i := range s.plugins {
		if p, ok := s.plugins[i].plugin.(Readier); ok {
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
		// Every node begins with the same.
		if m.seen, err = caught(m.id, "revision", func() (uint64, error) { _ = m.version(); return m.revision(), nil }); err != nil {
			return nil, err
		}
	}
	if snapshot == nil {
		return s, nil
	}
	return s, s.Restore(snapshot)
}

func (h *Host) extensions() (Extensions, error) {
	all := make(Extensions)
	for _, f := range h.factories {
		e, ok := f.(Extending)
		if !ok {
			continue
		}
		own, err := caught(f.ID(), "extensions", func() (map[string]any, error) { return e.Extensions(), nil })
		if err != nil {
			return nil, err
		}
		for id, payload := range own {
			all[id] = append(all[id], payload)
		}
	}
	return all, nil
}

// register builds a factory's plugin and takes what it declares.
func (s *Session) register(f Factory, in BuildContext) error {
	_, err := caught(f.ID(), "register", func() (struct{}, error) { return struct{}{}, s.registerPlugin(f, in) })
	return err
}

func (s *Session) registerPlugin(f Factory, in BuildContext) error {
	if w, ok := f.(Selective); ok && !w.Wants(in) {
		return nil
	}
	p, err := f.Build(in)
	if err != nil {
		return fmt.Errorf("%w: build %s: %w", ErrRegistration, f.ID(), err)
	}
	if p == nil {
		return fmt.Errorf("%w: build %s: it gave no plugin", ErrRegistration, f.ID())
	}
	r := &Registrar{plugin: f.ID(), c: &s.c}
	if err := errors.Join(append([]error{p.Register(r)}, r.errs...)...); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrRegistration, f.ID(), err)
	}
	s.plugins = append(s.plugins, member{id: f.ID(), plugin: p})
	return nil
}

// complete checks the slots that must be filled. Which plugins fill them, the
// session's configuration says: one that names no protocol of this node can be changed.
func (s *Session) complete() error {
	s.c.sorted()
	if err := s.c.checkSources(); err != nil {
		return err
	}
	var why string
	switch {
	case s.c.protocol == nil:
		why = "no plugin of this node registers a protocol of this name"
	case s.c.driver == nil:
		why = "no plugin of this node drives turns of this protocol"
	default:
		return nil
	}
	return &events.FieldError{
		Field: "config.protocol", Reason: fmt.Sprintf("%.100q: %s", s.build.Config.Protocol, why),
		Err: fmt.Errorf("%w: %w", ErrUnavailable, ErrRegistration),
	}
}

// Close ends the session's life in this process.
func (s *Session) Close() { s.host.release(s.id) }

// ID is the session's id.
func (s *Session) ID() events.SessionID { return s.id }

// Host is what built the stack.
func (s *Session) Host() *Host { return s.host }

// Access is what the session may use.
func (s *Session) Access() events.ToolAccess { return s.build.Access }

// Subagent says as what the session was made.
func (s *Session) Subagent() events.Subagent { return s.build.Subagent }

// Extensions are those of every factory.
func (s *Session) Extensions() Extensions { return s.build.Extensions }

// Tools are those that the plugins registered, before overlays and restrictions. It must not be changed.
func (s *Session) Tools() *Tools { return s.c.tools }

// Protocol is the session's protocol. Its panics, and its silence past the time of hooks, are errors.
func (s *Session) Protocol() Protocol {
	return contained{s.host, s.c.protocol.Plugin, s.c.protocol.Value}
}

// SavesProtocol reports whether the plugin that is the protocol keeps a state in the history.
func (s *Session) SavesProtocol() bool {
	return slices.ContainsFunc(s.plugins, func(m member) bool {
		_, stateful := m.plugin.(Stateful)
		return stateful && m.id == s.c.protocol.Plugin
	})
}

// CodeExecutor runs the protocol's code; nil where nothing does.
func (s *Session) CodeExecutor() CodeExecutor {
	if s.c.executor == nil {
		return nil
	}
	return s.c.executor.Value
}

// Executing waits until no code of the session runs in this process, and keeps
// it so until done is called. The error is what ended ctx.
func (s *Session) Executing(ctx context.Context) (done func(), err error) {
	select {
	case s.executing <- struct{}{}:
		return func() { <-s.executing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ProjectProse gives what users see of the model's prose: the prose itself where nothing projects it, or fails to.
func (s *Session) ProjectProse(text string) string {
	if s.c.proseProject == nil {
		return text
	}
	p := s.c.proseProject
	shown, err := caught(p.Plugin, "prose", func() (string, error) { return p.Value(text), nil })
	if err != nil {
		s.host.warn(p.Plugin, "prose", err)
		return text
	}
	return shown
}

// HasStream reports whether some plugin transforms streams.
func (s *Session) HasStream() bool { return len(s.c.streams) > 0 }

// HasLifecycle reports whether some plugin is told of the session's life.
func (s *Session) HasLifecycle() bool { return len(s.c.lifecycle) > 0 }

// Fork builds a stack for another session with this one's state. The context
// says whose child it is and what it may use; overlay may be nil.
func (s *Session) Fork(ctx context.Context, in BuildContext) (*Session, error) {
	snapshot, err := s.Snapshot()
	if err != nil {
		return nil, err
	}
	fork, err := s.host.BuildSession(ctx, in, snapshot)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	fork.overlay, fork.known, fork.added = s.overlay, slices.Clone(s.known), s.added
	fork.overlay.seq = 0 // the other session's history has it at another sequence
	return fork, nil
}

// ForkWithCatalog is [Session.Fork] with another overlay of the tool catalogue.
func (s *Session) ForkWithCatalog(ctx context.Context, in BuildContext, o Overlay) (*Session, error) {
	fork, err := s.Fork(ctx, in)
	if err != nil {
		return nil, err
	}
	if err := fork.SetOverlay(o); err != nil {
		fork.Close()
		return nil, err
	}
	return fork, nil
}

// Monitors are the monitors that plugins declare, with their ids made unique.
func (s *Session) Monitors() []events.MonitorSpec {
	list := make([]events.MonitorSpec, len(s.c.monitors))
	for i, m := range s.c.monitors {
		list[i] = m.Value
		list[i].ID = events.MonitorID(m.Plugin + "-" + string(m.Value.ID))
	}
	return list
}
