package stack

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/lock"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
)

// Config of the stacks of a process. Logger and RuntimeHost are required.
type Config struct {
	Plugins     *plugin.Builder // nil: the process has no plugins
	Blobs       blob.Reader
	Locks       lock.Locks
	Max         int // sessions whose plugins are kept while nothing uses them. Defaults to 1024
	Logger      *zap.Logger
	RuntimeHost func(events.SessionID) plugin.RuntimeHost // the capabilities that a session's plugins get
	// CommitAt is the id of a commit in the log; [events.ErrShorter] where there is none. nil: histories are never replaced.
	CommitAt func(ctx context.Context, id events.SessionID, seq events.Seq) (events.CommitID, error)
}

// Stacks are the plugins of the sessions that a process works on. They are safe for concurrent use.
type Stacks struct {
	cfg Config

	mu       sync.Mutex
	live     map[events.SessionID]*Stack
	overlays map[events.SessionID][]plugin.Overlay // whose handlers this process has, the newest first
}

// New makes stacks; none is built yet.
func New(cfg Config) *Stacks {
	cfg.Max = cmp.Or(max(cfg.Max, 0), 1024)
	return &Stacks{cfg: cfg, live: make(map[events.SessionID]*Stack), overlays: make(map[events.SessionID][]plugin.Overlay)}
}

// Stack is one session's plugins, with the part of the history that they were updated to.
type Stack struct {
	opening  chan struct{} // full while a goroutine builds the stack or updates it to a state; it has the fields up to users
	plugins  *plugin.Stack
	protocol string
	followed followed
	change   *events.FrameConfigured // what the protocol's configuration wants recorded
	options  [][]byte                // the frames' options that it was made from

	users   int  // under the lock of the stacks
	dropped bool // likewise: the map does not have it any more
}

// acquire is the session's stack, which is kept until release.
func (s *Stacks) acquire(id events.SessionID) *Stack {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.live[id]
	if st == nil {
		for old, other := range s.live { // a stack in use stays, so that its plugins stay the same
			if len(s.live) < s.cfg.Max {
				break
			}
			if other.users == 0 {
				s.drop(old, other)
			}
		}
		st = &Stack{opening: make(chan struct{}, 1)}
		s.live[id] = st
	}
	st.users++
	return st
}

// drop removes a stack. The caller has mu.
func (s *Stacks) drop(id events.SessionID, st *Stack) {
	delete(s.live, id)
	st.dropped = true
	if st.plugins != nil && st.users == 0 {
		st.plugins.Close()
	}
}

func (s *Stacks) release(st *Stack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.users--; st.users == 0 && st.dropped && st.plugins != nil {
		st.plugins.Close()
	}
}

// Hold keeps a session's plugins as they are in this process until release is called.
func (s *Stacks) Hold(id events.SessionID) (release func()) {
	st := s.acquire(id)
	return func() { s.release(st) }
}

// Forget drops what this process has of a session that is closed.
func (s *Stacks) Forget(id events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.overlays, id)
	if st := s.live[id]; st != nil && st.users == 0 {
		s.drop(id, st)
	}
}

// buildingKey marks the context of code that builds a stack: a request for that stack from there would wait for itself.
type buildingKey struct{}

// whileOpening is the context of plugins that are built or updated to a state.
func whileOpening(ctx context.Context, st *Stack) context.Context {
	return context.WithValue(api.WithoutCaller(ctx), buildingKey{}, st)
}

// lock waits until no other goroutine builds the stack. Errors: [plugin.ErrBuilding], and the cause of ctx's end.
func (st *Stack) lock(ctx context.Context, id events.SessionID) error {
	err := plugin.ErrBuilding
	if ctx.Value(buildingKey{}) != st {
		select {
		case st.opening <- struct{}{}:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	return fmt.Errorf("plugins of session %s: %w", id, err)
}

func (st *Stack) unlock() { <-st.opening }

// Open returns the session's plugins, restored to the state, until release is called. A process builds them once for a
// session, and then notifies them that the session was restored; another caller does not wait for that notice, because
// a plugin may be the caller.
//
// unrecorded has the events that the configuration of the protocol wants recorded. Each caller gets them until the history
// has them, or other options in their place. The state must be the caller's own. Plugins may call the host, so the
// caller must have no lock. Errors: [plugin.ErrUnavailable] in a process without plugins, [plugin.ErrBuilding] for a
// call by the code that builds the stack.
func (s *Stacks) Open(ctx context.Context, state *projector.State) (p *plugin.Stack, unrecorded []events.Payload, release func(), err error) {
	if s.cfg.Plugins == nil {
		return nil, nil, nil, fmt.Errorf("plugins: %w", plugin.ErrUnavailable)
	}
	ctx, account := memory.Part(ctx)
	defer account.Close()
	st := s.acquire(state.Session)
	release = func() { s.release(st) }
	p, unrecorded, built, err := s.open(ctx, st, state)
	if errors.Is(err, api.ErrMemory) { // it waits for it without the lock
		account.GiveBack()
		if err = account.Reserve(ctx, bytesOf(state)); err == nil {
			p, unrecorded, built, err = s.open(ctx, st, state)
		}
	}
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	if built {
		p.NotifyLifecycle(api.WithoutCaller(ctx), plugin.Lifecycle{
			Kind: plugin.SessionRestored, Session: state.Session, State: s.Filled(ctx, state), Host: s.cfg.RuntimeHost(state.Session),
		})
	}
	return p, unrecorded, release, nil
}

// open locks a stack, and builds it or updates it to the state.
func (s *Stacks) open(ctx context.Context, st *Stack, state *projector.State) (p *plugin.Stack, unrecorded []events.Payload, built bool, err error) {
	if err := st.lock(ctx, state.Session); err != nil {
		return nil, nil, false, err
	}
	defer st.unlock()
	return s.openLocked(ctx, st, state)
}

// Filled returns a copy of a state with its bodies, for a notice to plugins. A body that cannot be read stays a
// reference, and the log has a warning.
func (s *Stacks) Filled(ctx context.Context, state *projector.State) *projector.State {
	state = state.Clone()
	if err := blob.FillState(ctx, s.cfg.Blobs, state); err != nil {
		s.cfg.Logger.Warn("plugins are notified without a body", zap.String("session", string(state.Session)), zap.Error(err))
	}
	return state
}

// Follow updates a session's plugins to what other processes recorded, and drops changes of them that are not recorded.
func (s *Stacks) Follow(ctx context.Context, state *projector.State, p *plugin.Stack) error {
	ctx, account := memory.Part(ctx)
	defer account.Close()
	saved, err := s.savedStates(ctx, state.Plugins)
	if err != nil {
		return err
	}
	return p.Follow(saved)
}

// BuildContext is what the plugins of a session are built from.
func (s *Stacks) BuildContext(state *projector.State) plugin.BuildContext {
	return plugin.BuildContext{
		Session: state.Session, Parent: state.Parent, Labels: state.Labels, Config: state.Config, Options: s.cfg.Locks.Open(state.Options), Access: state.Access, Subagent: state.Subagent,
	}
}

// KeepOverlays stores the handlers of overlays' tools for the session's plugins, which a process may build again. It
// returns all stored overlays, the newest first.
func (s *Stacks) KeepOverlays(id events.SessionID, list ...plugin.Overlay) []plugin.Overlay {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.overlays[id]
	for i := len(list) - 1; i >= 0; i-- {
		kept = plugin.PrependOverlay(kept, list[i])
	}
	if len(kept) > 0 {
		s.overlays[id] = kept
	}
	return kept
}

// Overlays are the overlays of a session whose handlers this process has.
func (s *Stacks) Overlays(id events.SessionID) []plugin.Overlay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlays[id]
}

// Lock is the session's stack, which no other goroutine builds or updates until unlock is called. Errors:
// [plugin.ErrBuilding], and the cause of ctx's end.
func (s *Stacks) Lock(ctx context.Context, id events.SessionID) (st *Stack, unlock func(), err error) {
	st = s.acquire(id)
	if err := st.lock(ctx, id); err != nil {
		s.release(st)
		return nil, nil, err
	}
	return st, func() { st.unlock(); s.release(st) }, nil
}
