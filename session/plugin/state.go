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
	State    json.RawMessage // nil without a saved state
}

// SnapshotWriter receives a plugin's artifacts.
type SnapshotWriter struct{ artifacts []events.Artifact }

// Write adds a named artifact. A state can have a few hundred artifacts at most.
func (w *SnapshotWriter) Write(name string, data []byte) {
	w.artifacts = append(w.artifacts, events.Artifact{Name: name, Data: data})
}

// Sizes in bytes that an event needs for artifacts whose bodies are stored outside the log.
const (
	artifactBytes  = 128 // of one artifact, without its name
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

// SnapshotReader reads a plugin's saved artifacts.
type SnapshotReader struct{ artifacts []events.Artifact }

// Read returns the artifact of a name, or nil.
func (r SnapshotReader) Read(name string) []byte {
	for i := range r.artifacts {
		if r.artifacts[i].Name == name {
			return r.artifacts[i].Data
		}
	}
	return nil
}

// State makes a plugin [Stateful]: embed it. T is any type that JSON can carry. It is safe for concurrent use.
type State[T any] struct {
	mu       sync.Mutex
	value    T
	revision uint64
}

// Load returns the value. Only [State.Update] may change it.
func (s *State[T]) Load() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.value
}

// Update changes the value and increments the revision.
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

// Snapshot returns the state of every plugin of the stack, in stack order.
func (s *Stack) Snapshot() ([]projector.PluginState, error) {
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
	data, err := recovered(m.id, "snapshot", func() ([]byte, error) { return p.Snapshot(&w) })
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

// SnapshotIsCurrent reports whether a snapshot equals the result of [Stack.Snapshot].
func (s *Stack) SnapshotIsCurrent(prev []projector.PluginState) bool {
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

// Fingerprint is a hash of the ids, versions and revisions of the stack's plugins, in stack order.
func (s *Stack) Fingerprint() uint64 {
	hash := sha256.New()
	for i := range s.plugins {
		m := &s.plugins[i]
		hash.Write([]byte(m.id + "\x00" + m.version() + "\x00"))
		hash.Write(binary.LittleEndian.AppendUint64(nil, m.revision()))
		hash.Write([]byte{0xff})
	}
	return binary.LittleEndian.Uint64(hash.Sum(nil))
}

// Restore sets the state of every plugin. A plugin without an entry is reset; entries of other plugins are ignored.
func (s *Stack) Restore(list []projector.PluginState) error {
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
	_, err := recovered(m.id, "restore", func() (struct{}, error) { return struct{}{}, p.Restore(meta, reader) })
	if err != nil {
		return fmt.Errorf("%w: restore %s: %w", ErrSnapshot, m.id, err)
	}
	m.saved, m.lastRevision, m.discarded, m.lastSaved = 0, p.Revision(), false, nil
	if from != nil {
		m.saved = from.Revision
	}
	m.pending = m.saved
	return nil
}

// Follow restores plugins whose states another node changed, and plugins with a discarded save. Local changes of
// these plugins are lost. A list that is older than an earlier one changes nothing.
func (s *Stack) Follow(list []projector.PluginState) error {
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
		case now < m.saved, now == m.saved && !m.discarded:
		case now == m.pending && !m.discarded && m.lastSaved.same(from):
			m.saved = now
		default:
			if err := m.restore(from); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unsaved returns the events that record the changed states. The caller reports their outcome with
// [Stack.Committed] or [Stack.Discarded]. If a plugin's state cannot be saved, the others are returned with an
// error.
func (s *Stack) Unsaved() (list []events.Payload, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		m := &s.plugins[i]
		if m.discarded || m.revision() == m.lastRevision {
			continue
		}
		state, failed := m.snapshot()
		fact := &events.PluginStateSaved{
			Plugin: m.id, Version: state.Version, Base: m.pending, Revision: state.Revision, State: state.State, Artifacts: state.Artifacts,
		}
		if failed == nil {
			failed = fact.Validate()
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("plugin %s: %w", m.id, failed))
			continue
		}
		list = append(list, fact)
		m.pending, m.lastRevision, m.lastSaved = state.Revision, state.Revision, (*savedState)(&state)
	}
	return list, err
}

// Committed reports that the history has the states that [Stack.Unsaved] returned.
func (s *Stack) Committed(list []events.Payload) {
	s.eachSaved(list, func(m *member, fact *events.PluginStateSaved) {
		switch {
		case fact.Revision <= m.saved:
		case fact.Base == m.saved && fact.Revision <= m.pending:
			m.saved = fact.Revision
		default: // restored meanwhile
			m.discarded = true
		}
	})
}

// Discarded reports that states of [Stack.Unsaved] will not be in the history. The next [Stack.Follow] restores
// their plugins. Until then [Stack.Unsaved] does not return states of them.
func (s *Stack) Discarded(list []events.Payload) {
	s.eachSaved(list, func(m *member, fact *events.PluginStateSaved) {
		if m.saved < fact.Revision && fact.Revision <= m.pending {
			m.discarded = true
		}
	})
}

// HasDiscarded reports whether a plugin needs [Stack.Follow].
func (s *Stack) HasDiscarded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.plugins, func(m member) bool { return m.discarded })
}

func (s *Stack) eachSaved(list []events.Payload, tell func(*member, *events.PluginStateSaved)) {
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

// savedState is the last state of a plugin that was handed to a save.
type savedState projector.PluginState

// same compares a state of the history with this one. Two nodes may save different states with the same revision.
func (g *savedState) same(from *projector.PluginState) bool {
	return g != nil && from != nil && g.Version == from.Version && bytes.Equal(g.State, from.State) &&
		slices.EqualFunc(g.Artifacts, from.Artifacts, func(a, b events.Artifact) bool {
			return a.Name == b.Name && bytes.Equal(a.Data, b.Data)
		})
}
