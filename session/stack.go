package session

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// stacks are the plugins of the sessions that this process works on.
type stacks struct {
	mu       sync.Mutex
	live     map[events.SessionID]*stack
	overlays map[events.SessionID][]plugin.Overlay // that this process has handlers of, the newest first
}

// stack is one session's plugins, with what they were built for.
type stack struct {
	opening  chan struct{} // holds one while somebody builds it or brings it up to date
	plugins  *plugin.Session
	protocol string
	followed followed
	change   *events.FrameConfigured // what its materialisation wants recorded
	seen     [][]byte                // the frames' options that it was made from
	users    int                     // under the stacks' lock
	gone     bool                    // likewise: no longer in the map
}

// maxStacks bounds the stacks that a process keeps.
const maxStacks = 1024

// take finds or makes the stack of a session, for a user who gives it back.
func (s *stacks) take(id events.SessionID) *stack {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.live[id]
	if st == nil {
		for old, other := range s.live { // any idle one will do
			if len(s.live) < maxStacks {
				break
			}
			if other.users == 0 {
				s.dropLocked(old, other)
			}
		}
		st = &stack{opening: make(chan struct{}, 1)}
		s.live[id] = st
	}
	st.users++
	return st
}

func (s *stacks) dropLocked(id events.SessionID, st *stack) {
	delete(s.live, id)
	st.gone = true
	if st.plugins != nil && st.users == 0 {
		st.plugins.Close()
	}
}

// asksPlugins reports whether the host has to ask a session's plugins about a decision that they have a say
// in. Where it has none, and there may be some, it must not decide: [plugin.ErrUnavailable].
func (h *Host) asksPlugins() (bool, error) {
	if h.plugins == nil && !h.noPlugins {
		return false, fmt.Errorf("this host has no plugins, which have a say here: ask a node: %w", plugin.ErrUnavailable)
	}
	return h.plugins != nil, nil
}

// HoldStack keeps a session's plugins as they are in this process until release is called.
func (h *Host) HoldStack(id events.SessionID) (release func()) {
	st := h.stacks.take(id)
	return func() { h.stacks.giveBack(st) }
}

func (s *stacks) giveBack(st *stack) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if st.users--; st.users == 0 && st.gone && st.plugins != nil {
		st.plugins.Close()
	}
}

// Stack gives a session's plugins, at the states that the session saved, until
// release is called. They are built once in a process: the protocol is
// initialised, restored and configured, and the lifecycle told; who comes
// meanwhile does not wait for that telling, as a plugin that is told may. beside
// is what the building wants recorded; until the history has it, or something
// else in its place, every caller gets it. The state must be the caller's own,
// and no lock held: plugins may ask the host for anything.
// Errors: [plugin.ErrUnavailable] where the host has no plugins, and
// [plugin.ErrBuilding] where what builds them asks for them.
func (h *Host) Stack(ctx context.Context, state *projector.State) (p *plugin.Session, beside []events.Payload, release func(), err error) {
	if h.plugins == nil {
		return nil, nil, nil, fmt.Errorf("plugins: %w", plugin.ErrUnavailable)
	}
	st := h.stacks.take(state.Session)
	release = func() { h.stacks.giveBack(st) }
	p, beside, built, err := h.openStack(ctx, st, state)
	if err != nil {
		release()
		return nil, nil, nil, err
	}
	if built {
		p.Tell(api.Apart(ctx), plugin.Lifecycle{
			Kind: plugin.SessionRestored, Session: state.Session, State: h.told(ctx, state), Host: h.Services(state.Session, nil, ""),
		})
	}
	return p, beside, release, nil
}

// told is a copy of a state for plugins that are told of something. Where a body
// cannot be read they are told all the same, and it is a reference.
func (h *Host) told(ctx context.Context, state *projector.State) *projector.State {
	state = state.Clone()
	if err := blob.FillState(ctx, h.b, state); err != nil {
		h.zap.Warn("plugins are told without a body", zap.String("session", string(state.Session)), zap.Error(err))
	}
	return state
}

// buildingKey marks the context of what builds a stack: who asks for that stack with it waits for itself.
type buildingKey struct{}

// whileOpening marks the context of plugins that are built or brought to a state.
func whileOpening(ctx context.Context, st *stack) context.Context {
	return context.WithValue(api.Apart(ctx), buildingKey{}, st)
}

// openStack builds a stack, or brings it up to date.
func (h *Host) openStack(ctx context.Context, st *stack, state *projector.State) (p *plugin.Session, beside []events.Payload, built bool, err error) {
	if ctx.Value(buildingKey{}) == st {
		return nil, nil, false, fmt.Errorf("plugins of session %s: %w", state.Session, plugin.ErrBuilding)
	}
	select {
	case st.opening <- struct{}{}:
		defer func() { <-st.opening }()
	case <-ctx.Done():
		return nil, nil, false, fmt.Errorf("plugins of session %s: %w", state.Session, context.Cause(ctx))
	}
	return h.openLocked(ctx, st, state)
}

// openLocked is openStack for who has the stack's opening.
func (h *Host) openLocked(ctx context.Context, st *stack, state *projector.State) (p *plugin.Session, beside []events.Payload, built bool, err error) {
	if st.plugins != nil && st.protocol != state.Config.Protocol {
		st.plugins.Close() // another protocol: another stack
		st.plugins = nil
	}
	saved, err := h.filled(ctx, state.Plugins)
	if err == nil && st.plugins == nil {
		built = true
		err = h.buildStack(whileOpening(ctx, st), st, state, saved)
	} else if err == nil {
		err = st.plugins.Follow(saved)
	}
	if err == nil {
		err = h.follow(whileOpening(ctx, st), st, state)
	}
	if err != nil {
		return nil, nil, false, err
	}
	if st.change != nil && !slices.EqualFunc(st.seen, optionsOf(state), bytes.Equal) {
		st.change = nil
	}
	if st.change != nil {
		beside = append(beside, st.change)
	}
	return st.plugins, beside, built, nil
}

// FollowStack brings a session's plugins to what others recorded, and drops what they changed and nobody will record.
func (h *Host) FollowStack(ctx context.Context, state *projector.State, p *plugin.Session) error {
	saved, err := h.filled(ctx, state.Plugins)
	if err != nil {
		return err
	}
	return p.Follow(saved)
}

func (h *Host) buildStack(ctx context.Context, st *stack, state *projector.State, saved []projector.PluginState) error {
	built, err := h.plugins.BuildSession(ctx, h.buildContext(state), nil)
	if err != nil {
		return err
	}
	if err = h.materialise(ctx, st, built, state, saved); err != nil {
		built.Close()
		return fmt.Errorf("open session %s: %w", state.Session, err)
	}
	built.KnowOverlays(h.stacks.overlaid(state.Session)...)
	st.plugins, st.protocol = built, state.Config.Protocol
	return nil
}

func (h *Host) buildContext(s *projector.State) plugin.BuildContext {
	return plugin.BuildContext{
		Session: s.Session, Parent: s.Parent, Config: s.Config, Options: h.locks.Open(s.Options), Access: s.Access, Subagent: s.Subagent,
	}
}

// materialise brings a new stack to life (host specification 2.2, 5.1).
func (h *Host) materialise(ctx context.Context, st *stack, p *plugin.Session, state *projector.State, saved []projector.PluginState) error {
	ps := plugin.ProtocolSession{Session: state.Session}
	if err := p.Protocol().Initialize(ctx, ps); err != nil {
		return err
	}
	if len(saved) > 0 {
		if err := p.Restore(saved); err != nil {
			return err
		}
	}
	if err := h.restore(ctx, st, p, state); err != nil {
		return err
	}
	rt := plugin.NewProtocolRuntime(state.Frame().Options)
	if err := p.Protocol().Configure(ctx, rt, plugin.Materialization{Options: h.locks.Open(state.Options), IsRoot: state.Parent == ""}); err != nil {
		return err
	}
	st.change, st.seen = rt.Change(), optionsOf(state)
	return nil
}

// optionsOf are the protocol's options of every frame.
func optionsOf(s *projector.State) [][]byte {
	list := make([][]byte, len(s.Frames))
	for i := range s.Frames {
		list[i] = s.Frames[i].Options
	}
	return list
}

// filled gives saved plugin states their bodies.
func (h *Host) filled(ctx context.Context, list []projector.PluginState) ([]projector.PluginState, error) {
	out := make([]projector.PluginState, len(list))
	for i, s := range list {
		var err error
		if s.State, err = blob.Body(ctx, h.b, s.State, s.Blob); err != nil {
			return nil, fmt.Errorf("state of plugin %s: %w", s.Plugin, err)
		}
		s.Artifacts = append([]events.Artifact(nil), s.Artifacts...)
		for j := range s.Artifacts {
			a := &s.Artifacts[j]
			if a.Data, err = blob.Body(ctx, h.b, a.Data, a.Blob); err != nil {
				return nil, fmt.Errorf("artifact %s of plugin %s: %w", a.Name, s.Plugin, err)
			}
		}
		out[i] = s
	}
	return out, nil
}
