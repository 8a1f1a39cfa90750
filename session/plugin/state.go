package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Meta describes a plugin's saved state.
type Meta struct {
	Plugin   string
	Version  string
	Revision uint64
	State    json.RawMessage // nil: there is none, begin anew
}

// SnapshotWriter takes a plugin's artifacts.
type SnapshotWriter struct{ artifacts []events.Artifact }

// Write adds a named body. More than a few hundred are too many to save.
func (w *SnapshotWriter) Write(name string, data []byte) {
	w.artifacts = append(w.artifacts, events.Artifact{Name: name, Data: data})
}

// What an event holds of artifacts whose bodies are all kept outside the log, in bytes.
const (
	artifactBytes  = 128 // of each, beside its name
	artifactsBytes = 48 << 10
)

func (w *SnapshotWriter) check() error {
	size := 0
	for i := range w.artifacts {
		size += len(w.artifacts[i].Name) + artifactBytes
	}
	if size > artifactsBytes {
		return fmt.Errorf("%d artifacts: %w", len(w.artifacts), events.ErrTooLarge)
	}
	return nil
}

// SnapshotReader gives them back.
type SnapshotReader struct{ artifacts []events.Artifact }

// Read finds a named body; nil when there is none.
func (r SnapshotReader) Read(name string) []byte {
	for i := range r.artifacts {
		if r.artifacts[i].Name == name {
			return r.artifacts[i].Data
		}
	}
	return nil
}

// State holds a plugin's state: any value that JSON carries. Embed it, and the
// plugin is [Stateful]. It is safe for concurrent use.
type State[T any] struct {
	mu       sync.Mutex
	value    T
	revision uint64
}

// Load is the value. Change it by [State.Update] only.
func (s *State[T]) Load() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// Update changes the value.
func (s *State[T]) Update(change func(*T)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.value)
	s.revision++
}

// Revision implements [Stateful].
func (s *State[T]) Revision() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revision
}

// Snapshot implements [Stateful].
func (s *State[T]) Snapshot(*SnapshotWriter) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return json.Marshal(s.value)
}

// Restore implements [Stateful].
func (s *State[T]) Restore(meta Meta, _ SnapshotReader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var value T
	if len(meta.State) > 0 {
		if err := json.Unmarshal(meta.State, &value); err != nil {
			return err
		}
	}
	s.value, s.revision = value, meta.Revision
	return nil
}

// Snapshot is the state of every plugin of the stack, in stack order.
func (s *Session) Snapshot() ([]projector.PluginState, error) {
	list := make([]projector.PluginState, 0, len(s.plugins))
	for i := range s.plugins {
		state, err := s.plugins[i].snapshot()
		if err != nil {
			return nil, err
		}
		list = append(list, state)
	}
	return list, nil
}

func (m *member) snapshot() (projector.PluginState, error) {
	state := projector.PluginState{Plugin: m.id, Version: m.version(), Revision: m.revision()}
	p, ok := m.plugin.(Stateful)
	if !ok {
		return state, nil
	}
	var w SnapshotWriter
	data, err := caught(m.id, "snapshot", func() ([]byte, error) { return p.Snapshot(&w) })
	if err == nil && len(data) > 0 && !json.Valid(data) {
		err = fmt.Errorf("state is no JSON")
	}
	if err == nil {
		err = w.check()
	}
	if err != nil {
		return state, fmt.Errorf("%w: save %s: %w", ErrSnapshot, m.id, err)
	}
	state.State, state.Artifacts = data, w.artifacts
	return state, nil
}

// SnapshotIsCurrent reports whether a snapshot is what [Session.Snapshot] would give.
func (s *Session) SnapshotIsCurrent(prev []projector.PluginState) bool {
	if prev == nil || len(prev) != len(s.plugins) {
		return false
	}
	for i := range s.plugins {
		m := &s.plugins[i]
		if old := find(prev, m.id); old == nil || old.Version != m.version() || old.Revision != m.revision() {
			return false
		}
	}
	return true
}

func find(list []projector.PluginState, id string) *projector.PluginState {
	for i := range list {
		if list[i].Plugin == id {
			return &list[i]
		}
	}
	return nil
}

// Fingerprint identifies the versions and revisions of the stack, in its order (host specification 4.5).
func (s *Session) Fingerprint() uint64 {
	hash := sha256.New()
	for i := range s.plugins {
		m := &s.plugins[i]
		hash.Write([]byte(m.id + "\x00" + m.version() + "\x00"))
		hash.Write(binary.LittleEndian.AppendUint64(nil, m.revision()))
		hash.Write([]byte{0xff})
	}
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}

// Restore sets the state of every plugin. One without an entry begins anew;
// entries of other plugins are ignored.
func (s *Session) Restore(list []projector.PluginState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		if err := s.plugins[i].restore(find(list, s.plugins[i].id)); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) restore(from *projector.PluginState) error {
	p, ok := m.plugin.(Stateful)
	if !ok {
		return nil
	}
	meta, reader := Meta{Plugin: m.id, Version: m.version(), Revision: p.Revision()}, SnapshotReader{}
	if from != nil {
		meta = Meta{Plugin: m.id, Version: from.Version, Revision: from.Revision, State: from.State}
		reader.artifacts = from.Artifacts
	}
	_, err := caught(m.id, "restore", func() (struct{}, error) { return struct{}{}, p.Restore(meta, reader) })
	if err != nil {
		return fmt.Errorf("%w: restore %s: %w", ErrSnapshot, m.id, err)
	}
	m.saved, m.seen, m.lost, m.given = 0, p.Revision(), false, nil
	if from != nil {
		m.saved = from.Revision
	}
	m.handed = m.saved
	return nil
}

// Follow restores the plugins whose states another node has changed, and those
// of which something given out was lost: what this node changed meanwhile is
// lost with it. A look at the history that is older than one before changes nothing.
func (s *Session) Follow(list []projector.PluginState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		m := &s.plugins[i]
		from := find(list, m.id)
		now := uint64(0)
		if from != nil {
			now = from.Revision
		}
		switch {
		case now < m.saved, now == m.saved && !m.lost:
		case now == m.handed && !m.lost && m.given.same(from):
			m.saved = now
		default:
			if err := m.restore(from); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unsaved gives the states that changed since they were restored or given out,
// to be recorded; then [Session.Landed] or [Session.Lost] is due. A plugin
// whose state cannot be taken keeps its old one; the error tells.
func (s *Session) Unsaved() (list []events.Payload, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		m := &s.plugins[i]
		if m.lost || m.revision() == m.seen {
			continue
		}
		state, failed := m.snapshot()
		fact := &events.PluginStateSaved{
			Plugin: m.id, Version: state.Version, Base: m.handed, Revision: state.Revision, State: state.State, Artifacts: state.Artifacts,
		}
		if failed == nil {
			failed = fact.Validate()
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("plugin %s: %w", m.id, failed))
			continue
		}
		list = append(list, fact)
		m.handed, m.seen, m.given = state.Revision, state.Revision, (*given)(&state)
	}
	return list, err
}

// Landed says that states given out are in the history now, and counted there.
func (s *Session) Landed(list []events.Payload) {
	s.given(list, func(m *member, fact *events.PluginStateSaved) {
		switch {
		case fact.Revision <= m.saved:
		case fact.Base == m.saved && fact.Revision <= m.handed:
			m.saved = fact.Revision
		default: // it was restored meanwhile
			m.lost = true
		}
	})
}

// Lost says that states given out will not be in the history. Their plugins
// are restored by the next [Session.Follow], and give out nothing until then.
func (s *Session) Lost(list []events.Payload) {
	s.given(list, func(m *member, fact *events.PluginStateSaved) {
		if m.saved < fact.Revision && fact.Revision <= m.handed {
			m.lost = true
		}
	})
}

// HasLost reports whether a [Session.Follow] is due.
func (s *Session) HasLost() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.plugins, func(m member) bool { return m.lost })
}

func (s *Session) given(list []events.Payload, tell func(*member, *events.PluginStateSaved)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range list {
		fact, ok := p.(*events.PluginStateSaved)
		if !ok {
			continue
		}
		for i := range s.plugins {
			if s.plugins[i].id == fact.Plugin {
				tell(&s.plugins[i], fact)
			}
		}
	}
}

// given is the state of a plugin that was given out last.
type given projector.PluginState

// same tells a state of the history from another node's that has the same revision.
func (g *given) same(from *projector.PluginState) bool {
	return g != nil && from != nil && g.Version == from.Version && bytes.Equal(g.State, from.State) &&
		slices.EqualFunc(g.Artifacts, from.Artifacts, func(a, b events.Artifact) bool {
			return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
		})
}
