package session

import (
	"context"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// SetOverlay lays tools and contributions over a session's own, until another
// one does or the session is closed. The history has what they are, so every
// node offers them; what runs the tools elsewhere says [plugin.Overlay]. A
// session that forks the plugins of this one begins with them. The same again
// changes nothing; so does one that cannot be composed. Errors: those of [plugin.Overlay.Check].
func (h *Host) SetOverlay(ctx context.Context, id events.SessionID, o plugin.Overlay) error {
	if err := o.Check(); err != nil {
		return err
	}
	return h.withStack(ctx, id, func(p *plugin.Session, s *projector.State) error {
		if err := open(s); err != nil {
			return err
		}
		fact := o.Recorded()
		p.AddOverlayHandlers(h.KeepOverlay(id, o)...)
		return h.decideThen(ctx, id, h.stamp("overlay", api.Asked{}), func(s *projector.State) ([]events.Event, error) {
			if err := open(s); err != nil || plugin.SameOverlay(s.Overlay.SessionOverlaid, fact) {
				return nil, err
			}
			return []events.Event{events.Of("", &fact)}, nil
		}, func(s *projector.State, _ bool) error {
			p.FollowOverlay(s.Overlay, false)
			return nil
		})
	})
}

// InvalidateCaches forgets what this process has built of a session's tool catalogue.
func (h *Host) InvalidateCaches(ctx context.Context, id events.SessionID) error {
	return h.withStack(ctx, id, func(p *plugin.Session, _ *projector.State) error {
		p.InvalidateCaches()
		return nil
	})
}

// KeepOverlay keeps the handlers of an overlay's tools for the session's plugins, which are built
// again now and then, and gives all that are kept, the newest first.
func (h *Host) KeepOverlay(id events.SessionID, o plugin.Overlay) []plugin.Overlay {
	return h.keepOverlays(id, []plugin.Overlay{o})
}

func (h *Host) keepOverlays(id events.SessionID, list []plugin.Overlay) []plugin.Overlay {
	h.stacks.mu.Lock()
	defer h.stacks.mu.Unlock()
	kept := h.stacks.overlays[id]
	for _, o := range slices.Backward(list) {
		kept = plugin.PrependOverlay(kept, o)
	}
	if len(kept) > 0 {
		h.stacks.overlays[id] = kept
	}
	return kept
}

// overlaid are the overlays of a session that this process has handlers of.
func (s *stacks) overlaid(id events.SessionID) []plugin.Overlay {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overlays[id]
}

// forget drops what this process has of a session that is closed.
func (s *stacks) forget(id events.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.overlays, id)
	if st := s.live[id]; st != nil && st.users == 0 {
		s.dropLocked(id, st)
	}
}
