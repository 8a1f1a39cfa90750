package call

import (
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// Snapshot is a session's state as the effects that start together see it.
// Nothing changes it, so any number of effects may read it at once.
type Snapshot struct {
	env     *Env
	state   *projector.State
	copying sync.Mutex // two clones of one state must not overlap: a clone marks what it shares
	view    projector.ReadView
	options []byte // the protocol's turn options in force
	session events.SessionID
	turn    events.TurnID
	input   events.TurnInput
}

// Snapshot copies a state. options are the protocol's turn options in force.
func (e *Env) Snapshot(state *projector.State, options []byte) *Snapshot {
	s := &Snapshot{env: e, state: state.Clone(), options: options, session: state.Session}
	s.view, _ = state.View() // never fails for a whole state; the original, not the copy, keeps the view for the next snapshot
	if t := s.state.Turn(); t != nil {
		s.turn, s.input = t.ID, t.Input
	}
	return s
}

// callable reports whether the catalogue offers a tool.
func (s *Snapshot) callable(tool string) bool {
	entry, known := s.state.Catalog.Tool(tool)
	return known && entry.Callable()
}

// runsOnce reports whether a tool must not run twice.
func (s *Snapshot) runsOnce(tool string) bool {
	entry, known := s.state.Catalog.Tool(tool)
	return known && !entry.Effects.Repeatable()
}

// host serves the plugins of an effect.
func (s *Snapshot) host(effect events.EffectID) plugin.RuntimeHost {
	return s.env.Host.Services(s.session, s.copy, effect)
}

// copy is the state for one plugin, which may change it.
func (s *Snapshot) copy() *projector.State {
	s.copying.Lock()
	defer s.copying.Unlock()
	return s.state.Clone()
}
