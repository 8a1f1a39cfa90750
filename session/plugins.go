package session

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Plugins says which plugins take part in a host's decisions: mutators of configurations, a protocol that checks appended
// nodes, tools. The zero value says that nodes may have some which this host does not have: it refuses requests that need
// them as [plugin.ErrUnavailable], and package client sends such requests to a node.
type Plugins struct {
	builder *plugin.Builder
	none    bool
}

// WithPlugins are plugins in the process of the host. nil gives the zero value.
func WithPlugins(builder *plugin.Builder) Plugins { return Plugins{builder: builder} }

// NoPlugins says that no node has such plugins: the host decides from the history alone.
func NoPlugins() Plugins { return Plugins{none: true} }

// checkPlugins reports whether the host has to call a session's plugins for a decision that they can change or refuse. A
// host without plugins must not decide where a node may have such plugins: [plugin.ErrUnavailable].
func (h *Host) checkPlugins() (mustCall bool, err error) {
	if h.plugins == nil && !h.cfg.Plugins.none {
		return false, fmt.Errorf("this request needs the session's plugins, which this host does not have; send it to a node: %w", plugin.ErrUnavailable)
	}
	return h.plugins != nil, nil
}

// Stack returns a session's plugins, at their saved states, until release is called. A process builds them once per
// session. unrecorded lists the events that the build needs recorded; every caller receives them until the history has
// them or their replacement. The caller owns the state and has no lock, because plugins may call any method of the
// host. Errors: [plugin.ErrUnavailable] where the host has no plugins, and [plugin.ErrBuilding] for a call from the
// code that builds them.
func (w Worker) Stack(ctx context.Context, state *projector.State) (p *plugin.Stack, unrecorded []events.Payload, release func(), err error) {
	return w.Host.stacks.Open(ctx, state)
}

// HoldStack prevents the removal of a session's plugins from this process until release is called.
func (w Worker) HoldStack(id events.SessionID) (release func()) { return w.Host.stacks.Hold(id) }

// FollowStack updates a session's plugins to the states that other processes recorded, and drops their unrecorded
// changes.
func (w Worker) FollowStack(ctx context.Context, state *projector.State, p *plugin.Stack) error {
	return w.Host.stacks.Follow(ctx, state, p)
}

// KeepOverlay stores the handlers of an overlay's tools in this process, because the session's plugins are rebuilt
// from time to time. It returns all stored overlays, the newest first.
func (w Worker) KeepOverlay(id events.SessionID, o plugin.Overlay) []plugin.Overlay {
	return w.Host.stacks.KeepOverlays(id, o)
}

// withStack calls work with a session's plugins at the current state.
func (h *Host) withStack(ctx context.Context, id events.SessionID, work func(*plugin.Stack, *projector.State) error) error {
	s, err := h.State(ctx, id)
	if err != nil {
		return err
	}
	return h.withStackOf(ctx, s, work)
}

// withStackOf is withStack on a state that the caller has just read.
func (h *Host) withStackOf(ctx context.Context, s *projector.State, work func(*plugin.Stack, *projector.State) error) error {
	p, unrecorded, release, err := h.stacks.Open(ctx, s)
	if err != nil {
		return err
	}
	defer release()
	if !api.ReadsOnly(ctx) { // else the next caller with the right records it
		// The cause "materialise" says that the events follow from building the session's plugins, not from a request.
		if err := h.record(ctx, s.Session, "materialise", unrecorded); err != nil {
			return err
		}
	}
	return work(p, s)
}

// record appends events that need no decision.
func (h *Host) record(ctx context.Context, id events.SessionID, cause string, list []events.Payload) error {
	if len(list) == 0 {
		return nil
	}
	return h.decide(ctx, id, cause, func(*projector.State) ([]events.Event, error) {
		out := make([]events.Event, len(list))
		for i, p := range list {
			out[i] = events.Of("", p)
		}
		return out, nil
	})
}

// saveStates records the plugin states that changed outside of a turn, and the events of with, which may be nil.
// Where a copy of the request did so meanwhile, saveStates drops these changes.
func (h *Host) saveStates(ctx context.Context, id events.SessionID, meta commitMeta, p *plugin.Stack, with decideFunc) error {
	list, err := p.Unsaved()
	if err != nil || len(list) == 0 && with == nil {
		return err
	}
	moved, recorded := false, false
	o := decideOptions{meta: meta, then: func(_ *projector.State, appended bool) error {
		recorded = appended
		return nil
	}}
	err = h.decideUntilAppended(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
		var out []events.Event
		moved = false
		for _, fact := range list {
			saved := fact.(*events.PluginStateSaved)
			now := uint64(0)
			if old := s.Plugin(saved.Plugin); old != nil {
				now = old.Revision
			}
			moved = moved || now != saved.Base
			out = append(out, events.Of("", saved))
		}
		if moved {
			return nil, nil
		}
		if with == nil {
			return out, nil
		}
		more, err := with(s)
		return append(out, more...), err
	})
	if err == nil && recorded {
		p.Committed(list)
		return nil
	}
	p.Discarded(list)
	if moved {
		err = fmt.Errorf("session %s: %w", id, api.ErrStateMoved)
	}
	now, loadErr := h.State(ctx, id)
	if loadErr == nil {
		loadErr = h.stacks.Follow(ctx, now, p)
	}
	return errors.Join(err, loadErr)
}
