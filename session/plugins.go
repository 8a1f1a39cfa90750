package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// checkPlugins reports whether the host must call a session's plugins for a decision that they can change or refuse. A
// host without plugins must not decide where a node may have such plugins: [plugin.ErrUnavailable].
func (h *Host) checkPlugins() (bool, error) {
	if h.plugins == nil && !h.noPlugins {
		return false, fmt.Errorf("this host has no plugins, which have a say here: ask a node: %w", plugin.ErrUnavailable)
	}
	return h.plugins != nil, nil
}

// Stack returns a session's plugins, at their saved states, until release is called. A process builds them once per
// session. record lists the events that the build needs recorded; every caller receives them until the history has
// them or their replacement. The caller owns the state and has no lock, because plugins may call any method of the
// host. Errors: [plugin.ErrUnavailable] where the host has no plugins, and [plugin.ErrBuilding] for a call from the
// code that builds them.
func (h *Host) Stack(ctx context.Context, state *projector.State) (p *plugin.Session, record []events.Payload, release func(), err error) {
	return h.stacks.Open(ctx, state)
}

// HoldStack prevents the removal of a session's plugins from this process until release is called.
func (h *Host) HoldStack(id events.SessionID) (release func()) { return h.stacks.Hold(id) }

// FollowStack updates a session's plugins to the states that other processes recorded, and drops their unrecorded
// changes.
func (h *Host) FollowStack(ctx context.Context, state *projector.State, p *plugin.Session) error {
	return h.stacks.Follow(ctx, state, p)
}

// KeepOverlay stores the handlers of an overlay's tools in this process, because the session's plugins are rebuilt
// from time to time. It returns all stored overlays, the newest first.
func (h *Host) KeepOverlay(id events.SessionID, o plugin.Overlay) []plugin.Overlay {
	return h.stacks.KeepOverlays(id, o)
}
