package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// asksPlugins reports whether the host has to ask a session's plugins about a decision that they can change or refuse.
// A host without plugins must not decide where a node may have such plugins: [plugin.ErrUnavailable].
func (h *Host) asksPlugins() (bool, error) {
	if h.plugins == nil && !h.noPlugins {
		return false, fmt.Errorf("this host has no plugins, which have a say here: ask a node: %w", plugin.ErrUnavailable)
	}
	return h.plugins != nil, nil
}

// Stack is a session's plugins, at the states that the session saved, until
// release is called. A process builds them once. record is what their building wants recorded; every caller gets it
// until the history has it, or something else in its place. The state must be the caller's own,
// and the caller must have no lock: plugins may ask the host for anything.
// Errors: [plugin.ErrUnavailable] where the host has no plugins, and
// [plugin.ErrBuilding] for a call by the code that builds them.
func (h *Host) Stack(ctx context.Context, state *projector.State) (p *plugin.Session, record []events.Payload, release func(), err error) {
	return h.stacks.Open(ctx, state)
}

// HoldStack keeps a session's plugins as they are in this process until release is called.
func (h *Host) HoldStack(id events.SessionID) (release func()) { return h.stacks.Hold(id) }

// FollowStack brings a session's plugins to what other processes recorded, and drops changes of them that are not recorded.
func (h *Host) FollowStack(ctx context.Context, state *projector.State, p *plugin.Session) error {
	return h.stacks.Follow(ctx, state, p)
}

// KeepOverlay keeps the handlers of an overlay's tools for the session's plugins, which are built
// again now and then, and returns all that are kept, the newest first.
func (h *Host) KeepOverlay(id events.SessionID, o plugin.Overlay) []plugin.Overlay {
	return h.stacks.KeepOverlays(id, o)
}
