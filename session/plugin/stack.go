package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
)

// Stack is a session's stack of plugins. It is safe for concurrent use.
type Stack struct {
	builder *Builder
	id      events.SessionID
	build   BuildContext
	plugins []member
	c       contributions
	built   []string // revisions of the factories

	mu       sync.Mutex
	overlay  overlay
	sources  []string  // names of the session's tool sources
	handlers []Overlay // overlays whose handlers this process has, newest first
	catalogs catalogs
	sender   func(text, kind string)

	locked *lockedOptions // nil: turns and frames set the protocol's options

	executing chan struct{} // semaphore: has one element while code runs
}

// member is one plugin of a stack. Its state goes through Unsaved, then Committed or Discarded.
type member struct {
	id           string
	plugin       Plugin
	saved        uint64      // revision in the history, as far as this node knows
	pending      uint64      // revision in the history after all pending saves are committed
	lastRevision uint64      // the plugin's own revision at the last restore or save
	lastSaved    *savedState // the last state handed to a save; nil after a restore
	discarded    bool        // a pending save failed: the plugin must be restored before its next save
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

// register builds a factory's plugin and runs its registration. A panic is an error.
func (s *Stack) register(f Factory, in BuildContext) error {
	_, err := recovered(f.ID(), "register", func() (struct{}, error) { return struct{}{}, s.registerPlugin(f, in) })
	return err
}

func (s *Stack) registerPlugin(f Factory, in BuildContext) error {
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

// complete checks that a protocol and a driver are registered. The session's configuration names the protocol, so the
// error names this field.
func (s *Stack) complete() error {
	s.c.tools.entries = s.builder.lists.of(s.c.tools.byName, nil)
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

// Close ends the stack in this process.
func (s *Stack) Close() { s.builder.release(s.id) }

// ID is the session's id.
func (s *Stack) ID() events.SessionID { return s.id }

// Tools are the tools that plugins registered, before overlays and restrictions. The caller must not change them.
func (s *Stack) Tools() *Tools { return s.c.tools }

// Protocol is the session's protocol. Panics and timeouts of its callbacks are errors.
func (s *Stack) Protocol() Protocol {
	return containedProtocol{s.builder, s.c.protocol.Plugin, s.c.protocol.Value}
}

// ProtocolIsStateful reports whether the plugin of the protocol is [Stateful].
func (s *Stack) ProtocolIsStateful() bool {
	return slices.ContainsFunc(s.plugins, func(m member) bool {
		_, stateful := m.plugin.(Stateful)
		return stateful && m.id == s.c.protocol.Plugin
	})
}

// lockedOptions are turn options of a protocol that only the node sets.
type lockedOptions struct{ own json.RawMessage }

// ProtocolPlugin is the id of the plugin that registers the session's protocol.
func (s *Stack) ProtocolPlugin() string { return s.c.protocol.Plugin }

// LockOptions makes own the protocol's options of all turns, whatever turns and frames say. The caller has the stack alone.
func (s *Stack) LockOptions(own json.RawMessage) { s.locked = &lockedOptions{own} }

// OptionsLocked reports whether turns and frames cannot set the protocol's options.
func (s *Stack) OptionsLocked() bool { return s.locked != nil }

// TurnOptions are the protocol's options in force: those of a lock, or else the turn's, or else the frame's. A nil stack has no lock.
func (s *Stack) TurnOptions(turn, frame []byte) []byte {
	switch {
	case s != nil && s.locked != nil:
		return s.locked.own
	case len(turn) > 0:
		return turn
	}
	return frame
}

// CodeExecutor runs the protocol's code. It is nil without an executor.
func (s *Stack) CodeExecutor() CodeExecutor {
	if s.c.executor == nil {
		return nil
	}
	return s.c.executor.Value
}

// LockExecutor waits until no code of the session runs in this process and prevents new runs until unlock is called.
// The error is the cause of a cancelled ctx.
func (s *Stack) LockExecutor(ctx context.Context) (unlock func(), err error) {
	select {
	case s.executing <- struct{}{}:
		return func() { <-s.executing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ProjectProse returns the text that users see of the model's prose. Without a projector, or if it fails, this is the
// prose itself.
func (s *Stack) ProjectProse(text string) string {
	if s.c.proseProject == nil {
		return text
	}
	p := s.c.proseProject
	shown, err := recovered(p.Plugin, "prose", func() (string, error) { return p.Value(text), nil })
	if err != nil {
		s.builder.warn(p.Plugin, "prose", err)
		return text
	}
	return shown
}

// HasStream reports whether a plugin transforms streams.
func (s *Stack) HasStream() bool { return len(s.c.streams) > 0 }

// HasLifecycle reports whether a plugin receives lifecycle events.
func (s *Stack) HasLifecycle() bool { return len(s.c.lifecycle) > 0 }

// Monitors are the monitors that plugins declare, with unique ids.
func (s *Stack) Monitors() []events.MonitorSpec {
	list := make([]events.MonitorSpec, len(s.c.monitors))
	for i, m := range s.c.monitors {
		list[i] = m.Value
		list[i].ID = events.MonitorID(m.Plugin + "-" + string(m.Value.ID))
	}
	return list
}
