package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/plugin"
)

// SetOverlay lays tools and contributions over a session's own, until another
// one does or the session is closed here. They are live objects, so that they
// count in this process only, for the turns that its worker runs; there they
// outlive the plugins' building. A session that forks the plugins of this one
// begins with them. The same again changes nothing; so does one that cannot be composed.
func (h *Host) SetOverlay(ctx context.Context, id events.SessionID, o plugin.Overlay) error {
	return h.withStack(ctx, id, func(p *plugin.Session, s *projector.State) error {
		if err := open(s); err != nil {
			return err
		}
		if err := p.SetOverlay(o); err != nil {
			return err
		}
		h.KeepOverlay(id, p.Overlay())
		return nil
	})
}

// RefreshCatalog builds a session's tool catalogue anew, with the overlay as it is.
func (h *Host) RefreshCatalog(ctx context.Context, id events.SessionID) error {
	return h.withStack(ctx, id, func(p *plugin.Session, _ *projector.State) error {
		p.RefreshCatalog()
		return nil
	})
}

// InvalidateCaches forgets what this process has built of a session's tool catalogue.
func (h *Host) InvalidateCaches(ctx context.Context, id events.SessionID) error {
	return h.withStack(ctx, id, func(p *plugin.Session, _ *projector.State) error {
		p.InvalidateCaches()
		return nil
	})
}

// KeepOverlay has a session's plugins overlaid with this again once they are built again in this process.
func (h *Host) KeepOverlay(id events.SessionID, o plugin.Overlay) {
	h.stacks.mu.Lock()
	defer h.stacks.mu.Unlock()
	if o.IsZero() {
		delete(h.stacks.overlays, id)
		return
	}
	h.stacks.overlays[id] = o
}

// overlaid is what a session's plugins are overlaid with in this process. The zero overlay is none.
func (s *stacks) overlaid(id events.SessionID) plugin.Overlay {
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
