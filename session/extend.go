package session

import (
	"context"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/internal/check"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// ApplyExtension passes an extension to the protocol, and records it with the plugin states that it changed. A
// protocol whose plugin is [plugin.Stateful] keeps the effect in its state. Other protocols receive all extensions
// again, in order, when a process opens the session and after each restore. Errors: [*events.FieldError],
// [*api.LimitError], and the protocol's own.
func (h *Host) ApplyExtension(ctx context.Context, id events.SessionID, e events.Extension) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	if err := check.ExtensionForm("", e); err != nil {
		return err
	}
	meta, s, done, err := h.appliedBefore(ctx, id, requestContent{operation.ApplyExtension.Name, "apply extension", &e}, reqMeta)
	if err != nil || done {
		return err
	}
	return h.withStackOf(ctx, s, func(p *plugin.Stack, s *projector.State) error { return h.extend(ctx, p, s, meta, e) })
}

// extend runs under the stack's lock, so that the protocols of this process receive extensions in the order of the
// history.
func (h *Host) extend(ctx context.Context, p *plugin.Stack, s *projector.State, meta commitMeta, e events.Extension) error {
	st, unlock, err := h.stacks.Lock(ctx, s.Session)
	if err != nil {
		return err
	}
	defer unlock()
	fact := &events.SessionExtended{Extension: e, Saved: p.ProtocolIsStateful()}
	fits := func(s *projector.State) error {
		if err := check.Open(s); err != nil || fact.Saved {
			return err
		}
		return check.Extension(s, e)
	}
	if err := fits(s); err != nil {
		return err
	}
	return st.Extend(ctx, p, e, fact.Saved, func() (before int, err error) {
		before = -1
		err = h.saveStates(ctx, s.Session, meta, p, func(s *projector.State) ([]events.Event, error) {
			before = len(s.Extensions)
			return []events.Event{events.Of("", fact)}, fits(s)
		})
		return before, err
	})
}
