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
	users   int           // effects that have not ended
	filled  *conversation // nil: not loaded yet
	give    func()        // returns the memory of filled; nil: none was taken
}

// Hold keeps the bodies that plugins need in memory until release: each effect of the snapshot has both, from before the first one runs.
func (s *Snapshot) Hold() (release func()) {
	s.filling.Lock()
	defer s.filling.Unlock()
	s.users++
	return func() {
		s.filling.Lock()
		defer s.filling.Unlock()
		if s.users--; s.users == 0 {
			s.drop()
		}
	}
}

// drop forgets the bodies, where they have memory that somebody else may need.
func (s *Snapshot) drop() {
	if s.give != nil {
		s.give()
		s.filled, s.give = nil, nil
	}
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

// copiesOfBodies is how often the bodies of a conversation are in memory: for plugins, and in a prompt.
const copiesOfBodies = 2

// bodies loads the conversation with the bodies outside the log. All plugins of the effects that start together share
// it. After an error the next call tries again.
func (s *Snapshot) bodies(ctx context.Context) (filled *conversation, err error) {
	s.filling.Lock()
	defer s.filling.Unlock()
	if s.filled != nil {
		return s.filled, nil
	}
	size := blob.SpilledBytes(s.view)
	keeps := size == 0 || s.users > 0 // a plugin that asks after its effect gets bodies of its own
	if size > 0 && keeps {
		if s.give, err = s.env.Memory.Take(ctx, string(s.session), copiesOfBodies*size); err != nil {
			return nil, err
		}
	}
	filled = &conversation{}
	if filled.view, err = blob.FillView(ctx, s.env.Blobs, s.view); err == nil {
		filled.input, err = blob.FillInput(ctx, s.env.Blobs, s.input)
	}
	switch {
	case err != nil:
		s.drop()
		return nil, err
	case keeps:
		s.filled = filled
	}
	return filled, nil
}

// State implements [session.Working].
func (s *Snapshot) State() *projector.State { return s.state }

// Whole implements [session.Working].
func (s *Snapshot) Whole(ctx context.Context) (*projector.State, error) {
	filled, err := s.bodies(ctx)
	if err != nil {
		return nil, err
	}
	s.copying.Lock()
	state := s.state.Clone()
	s.copying.Unlock()
	state.CacheView(filled.view)
	return state, nil
}

// host serves the plugins of an effect.
func (s *Snapshot) host(effect events.EffectID) plugin.RuntimeHost {
	return s.env.Worker.RuntimeHost(s.session, s, effect)
}
