package plugin

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
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

// Write adds a named body.
func (w *SnapshotWriter) Write(name string, data []byte) {
	w.artifacts = append(w.artifacts, events.Artifact{Name: name, Data: data})
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
	data, err := p.Snapshot(&w)
	if err == nil && len(data) > 0 && !json.Valid(data) {
		err = fmt.Errorf("state is no JSON")
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
	if err := p.Restore(meta, reader); err != nil {
		return fmt.Errorf("%w: restore %s: %w", ErrSnapshot, m.id, err)
	}
	m.saved = 0
	if from != nil {
		m.saved = from.Revision
	}
	m.handed = m.saved
	return nil
}

// Follow restores the plugins whose states another node has changed: the
// history has a revision that is neither the one last seen nor one given out
// here. What this node changed meanwhile is lost with it.
func (s *Session) Follow(list []projector.PluginState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		m := &s.plugins[i]
		from, now := find(list, m.id), uint64(0)
		if from != nil {
			now = from.Revision
		}
		switch now {
		case m.handed:
			m.saved = now
		case m.saved:
		default:
			if err := m.restore(from); err != nil {
				return err
			}
		}
	}
	return nil
}

// Unsaved gives the states that changed since they were restored or given out,
// to be recorded; what is given out and then not recorded needs a
// [Session.Restore]. A plugin whose state cannot be taken keeps its old one; the error tells.
func (s *Session) Unsaved() (list []events.Payload, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.plugins {
		m := &s.plugins[i]
		if m.revision() == m.handed {
			continue
		}
		state, failed := m.snapshot()
		if failed != nil {
			err = failed
			continue
		}
		list = append(list, &events.PluginStateSaved{
			Plugin: m.id, Version: state.Version, Base: m.handed, Revision: state.Revision, State: state.State, Artifacts: state.Artifacts,
		})
		m.handed = state.Revision
	}
	return list, err
}
