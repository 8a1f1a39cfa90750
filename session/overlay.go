package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/plugin"
)

// SetOverlay adds tools and contributions to a session's own, until the next SetOverlay or the close of the session.
// The history stores their declarations, so every node offers them; [plugin.Overlay] says how another node runs the
// tools. A session that forks the plugins of this one starts with the overlay. An equal overlay changes nothing, and
// neither does one that fails to compose. Errors: those of [plugin.Overlay.Check].
func (h *Host) SetOverlay(ctx context.Context, id events.SessionID, o plugin.Overlay) error {
	if err := o.Check(); err != nil {
		return err
	}
	return h.withStack(ctx, id, func(p *plugin.Stack, s *projector.State) error {
		if err := check.Open(s); err != nil {
			return err
		}
		fact := o.Recorded()
		p.AddOverlayHandlers(h.stacks.KeepOverlays(id, o)...)
		o := decideOptions{meta: h.followingMeta(ctx, "overlay"), then: func(s *projector.State, _ bool) error {
			p.FollowOverlay(s.Overlay, false)
			return nil
		}}
		return h.decideUntilAppended(ctx, id, o, func(s *projector.State) ([]events.Event, error) {
			if err := check.Open(s); err != nil || plugin.SameOverlay(s.Overlay.SessionOverlaid, fact) {
				return nil, err
			}
			return []events.Event{events.Of("", &fact)}, nil
		})
	})
}
