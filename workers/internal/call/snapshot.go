package call

import (
	"context"
	"sync"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/memory"
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

	filling sync.Mutex      // of an effect that loads bodies
	memory  *memory.Account // of the effects

	mu     sync.Mutex    // never held during a wait
	users  int           // effects that need the bodies
	filled *conversation // nil: not loaded yet
}

// Hold is the context of an effect, which shares the memory of the snapshot's effects: the bodies stay in it while one of them needs them. With
// rest the effect gives them up until back is called: the turn that it waits for may need their memory. With release it ends.
func (s *Snapshot) Hold(ctx context.Context) (within context.Context, rest func() (back func()), release func()) {
	absent := 1 // 0: it needs them
	move := func(by int) {
		s.mu.Lock()
		defer s.mu.Unlock()
		before := absent
		absent += by
		switch {
		case absent == 0:
			if s.users++; s.users == 1 {
				s.memory.Reopen()
			}
		case before == 0:
			if s.users--; s.users == 0 {
				s.memory.Close()
				s.filled = nil
			}
		}
	}
	move(-1)
	rest = func() func() {
		move(1)
		return func() { move(-1) }
	}
	return s.memory.In(ctx), rest, func() { move(1) }
}

// conversation is a conversation with all bodies, for plugins.
type conversation struct {
	view  projector.ReadView
	input events.TurnInput
}

// Snapshot copies a state. options are the protocol's turn options in force.
func (e *Env) Snapshot(state *projector.State, options []byte) *Snapshot {
	s := &Snapshot{env: e, state: state.Clone(), options: options, session: state.Session, memory: e.Memory.Account(string(state.Session), 0)}
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
	filled, used := s.kept(nil)
	if filled != nil {
		return filled, nil
	}
	if used { // a plugin that asks after its effect gets bodies of its own
		bytes := copiesOfBodies*blob.SpilledBytes(s.view) + blob.PartsBytes(s.input.Parts)
		if err := s.memory.Reserve(ctx, bytes); err != nil {
			return nil, err
		}
		defer func() {
			if err != nil {
				s.memory.Return(bytes)
			}
		}()
	}
	filled = &conversation{}
	if filled.view, err = blob.FillView(ctx, s.env.Blobs, s.view); err == nil {
		filled.input, err = blob.FillInput(ctx, s.env.Blobs, s.input)
	}
	if err == nil {
		s.kept(filled)
	}
	return filled, err
}

// kept is the loaded conversation; loaded, where it is not nil, becomes it while an effect needs it.
func (s *Snapshot) kept(loaded *conversation) (filled *conversation, used bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if loaded != nil && s.users > 0 {
		s.filled = loaded
	}
	return s.filled, s.users > 0
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

// environment is where the commands of a call run, or, with no name, programs. It is the one that the turn began with: what the
// gate judged of a call holds until the call runs.
func (s *Snapshot) environment(named string) (plugin.Environment, error) {
	session := s.state.Config.Environment
	if t := s.state.Turn(); t != nil {
		session = t.Environment
	}
	return s.env.Environments.For(session, named)
}

// host serves the plugins of an effect.
func (s *Snapshot) host(effect events.EffectID) plugin.RuntimeHost {
	return s.env.Worker.RuntimeHost(s.session, s, effect)
}
