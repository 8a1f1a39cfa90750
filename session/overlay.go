package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/check"
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
		if err := check.Open(s); err != nil {
			return err
		}
		fact := o.Recorded()
		p.AddOverlayHandlers(h.stacks.KeepOverlays(id, o)...)
		return h.decideThen(ctx, id, h.stamp("overlay", api.Asked{}), func(s *projector.State) ([]events.Event, error) {
			if err := check.Open(s); err != nil || plugin.SameOverlay(s.Overlay.SessionOverlaid, fact) {
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
