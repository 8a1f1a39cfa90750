package stack

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/memory"
	"github.com/lash-go/lash/session/plugin"
)

// openLocked builds a stack or updates it to the state. The caller has the stack's lock, and so does not wait for memory.
func (s *Stacks) openLocked(ctx context.Context, st *Stack, state *projector.State) (p *plugin.Stack, unrecorded []events.Payload, built bool, err error) {
	ctx = memory.Now(ctx)
	saved, err := s.savedStates(ctx, state.Plugins)
	in := s.BuildContext(state)
	in.Saved, in.InTurn = saved, state.Turn() != nil
	lost := false
	if err == nil && st.plugins != nil {
		lost, err = s.hasLostCommits(ctx, st, state)
	}
	if err == nil && st.plugins != nil && (lost || st.protocol != state.Config.Protocol || state.Seq >= st.followed.at && st.plugins.Outdated(in)) {
		st.plugins.Close() // another history, another protocol, or other plugins: another stack
		st.plugins = nil
	}
	if err == nil && st.plugins == nil {
		built = true
		err = s.build(whileOpening(ctx, st), st, state, in)
	} else if err == nil {
		err = st.plugins.Follow(saved)
	}
	if err == nil {
		err = s.follow(whileOpening(ctx, st), st, state)
	}
	if err != nil {
		return nil, nil, false, err
	}
	if st.change != nil && !slices.EqualFunc(st.options, optionsOf(state), bytes.Equal) {
		st.change = nil
	}
	if st.change != nil {
		unrecorded = append(unrecorded, st.change)
	}
	return st.plugins, unrecorded, built, nil
}

func (s *Stacks) build(ctx context.Context, st *Stack, state *projector.State, in plugin.BuildContext) error {
	built, err := s.cfg.Plugins.BuildStack(ctx, in, nil)
	if err != nil {
		return err
	}
	if err = s.materialise(ctx, st, built, state, in.Saved); err != nil {
		built.Close()
		return fmt.Errorf("open session %s: %w", state.Session, err)
	}
	built.AddOverlayHandlers(s.Overlays(state.Session)...)
	st.plugins, st.protocol = built, state.Config.Protocol
	return nil
}

// materialise initialises a new stack's protocol, restores the plugins' states and the protocol, and configures it.
func (s *Stacks) materialise(ctx context.Context, st *Stack, p *plugin.Stack, state *projector.State, saved []projector.PluginState) error {
	if err := p.Protocol().Initialize(ctx, plugin.ProtocolSession{Session: state.Session}); err != nil {
		return err
	}
	if len(saved) > 0 {
		if err := p.Restore(saved); err != nil {
			return err
		}
	}
	if err := s.restore(ctx, st, p, state); err != nil {
		return err
	}
	locked, recorded := s.cfg.Locks.Plugin(p.ProtocolPlugin()), state.Frame().Options
	if locked {
		recorded = nil
	}
	rt := plugin.NewProtocolRuntime(recorded)
	if err := p.Protocol().Configure(ctx, rt, plugin.Materialization{Options: s.cfg.Locks.Open(state.Options), IsRoot: state.Parent == ""}); err != nil {
		return err
	}
	if locked { // the history keeps what the session had
		p.LockOptions(rt.Options())
		st.change, st.options = nil, optionsOf(state)
		return nil
	}
	st.change, st.options = rt.Change(), optionsOf(state)
	return nil
}

// bytesOf is the size of the bodies that a stack is built from, in bytes.
func bytesOf(state *projector.State) (n int64) {
	v, _ := state.View() // an error is that of the build
	for i := range state.Plugins {
		n += state.Plugins[i].Blob.Size
		for _, a := range state.Plugins[i].Artifacts {
			n += a.Blob.Size
		}
	}
	return n + blob.SpilledBytes(v)
}

// optionsOf are the protocol's options of every frame.
func optionsOf(s *projector.State) [][]byte {
	list := make([][]byte, len(s.Frames))
	for i := range s.Frames {
		list[i] = s.Frames[i].Options
	}
	return list
}

// savedStates are the saved states of plugins with their bodies.
func (s *Stacks) savedStates(ctx context.Context, list []projector.PluginState) ([]projector.PluginState, error) {
	out := make([]projector.PluginState, len(list))
	for i, saved := range list {
		var err error
		if saved.State, err = blob.Body(ctx, s.cfg.Blobs, saved.State, saved.Blob); err != nil {
			return nil, fmt.Errorf("state of plugin %s: %w", saved.Plugin, err)
		}
		saved.Artifacts = append([]events.Artifact(nil), saved.Artifacts...)
		for j := range saved.Artifacts {
			a := &saved.Artifacts[j]
			if a.Data, err = blob.Body(ctx, s.cfg.Blobs, a.Data, a.Blob); err != nil {
				return nil, fmt.Errorf("artifact %s of plugin %s: %w", a.Name, saved.Plugin, err)
			}
		}
		out[i] = saved
	}
	return out, nil
}
