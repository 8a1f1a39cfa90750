package call

import (
	"context"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// Snapshot is a session's state for the effects that start together. It never changes, so any number of effects may
// read it at the same time.
type Snapshot struct {
	env     *Env
	state   *projector.State
	copying sync.Mutex // two clones of one state must not overlap: a clone marks what it shares
	view    projector.ReadView
	options []byte // the protocol's turn options in force
	session events.SessionID
	turn    events.TurnID
	input   events.TurnInput

	filling sync.Mutex
	filled  *conversation // nil: not loaded yet
}

// conversation is a conversation with all bodies, for plugins.
type conversation struct {
	view  projector.ReadView
	input events.TurnInput
}

// Snapshot copies a state. options are the protocol's turn options in force.
func (e *Env) Snapshot(state *projector.State, options []byte) *Snapshot {
	s := &Snapshot{env: e, state: state.Clone(), options: options, session: state.Session}
	s.view, _ = state.View() // never fails for a whole state; the original, not the copy, keeps the view for the next snapshot
	if t := s.state.Turn(); t != nil {
		s.turn, s.input = t.ID, t.Input
		s.input.Plugins = e.Worker.OpenOptions(s.input.Plugins)
		if len(s.input.Options) > 0 {
			s.input.Options = options // a lock may replace the turn's own
		}
	}
	return s
}

// callable reports whether the catalogue offers a tool.
func (s *Snapshot) callable(tool string) bool {
	entry, known := s.state.Catalog.Tool(tool)
	return known && entry.Callable()
}

// takenOver reports whether an earlier worker had the turn.
func (s *Snapshot) takenOver() bool {
	t := s.state.Turn()
	return t != nil && t.Attempt > 1
}

// runsOnce reports whether a tool must not run twice.
func (s *Snapshot) runsOnce(tool string) bool {
	entry, known := s.state.Catalog.Tool(tool)
	return known && !entry.Effects.Repeatable()
}

// bodies loads the conversation with the bodies outside the log. All plugins of the effects that start together share
// it. After an error the next call tries again.
func (s *Snapshot) bodies(ctx context.Context) (*conversation, error) {
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.filled != nil {
		return s.filled, nil
	}
	view, err := blob.FillView(ctx, s.env.Blobs, s.view)
	if err != nil {
		return nil, err
	}
	input, err := blob.FillInput(ctx, s.env.Blobs, s.input)
	if err != nil {
		return nil, err
	}
	s.filled = &conversation{view, input}
	return s.filled, nil
}

// stateWithBodies is a copy of the state, whose views have every body.
func (s *Snapshot) stateWithBodies(ctx context.Context) (*projector.State, error) {
	if _, err := s.bodies(ctx); err != nil {
		return nil, err
	}
	return s.copy(), nil
}

// host serves the plugins of an effect.
func (s *Snapshot) host(effect events.EffectID) plugin.RuntimeHost {
	return s.env.Worker.RuntimeHost(s.session, s.copy, effect)
}

// copy is the state for one plugin, which may change it. Its views have every
// body, once [Snapshot.bodies] has brought them.
func (s *Snapshot) copy() *projector.State {
	s.copying.Lock()
	state := s.state.Clone()
	s.copying.Unlock()
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.filled != nil {
		state.CacheView(s.filled.view)
	}
	return state
}
