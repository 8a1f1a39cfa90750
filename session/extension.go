package session

import (
	"context"
	"fmt"

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

// ReplaceExtensions replaces all extensions of the session; the list may be empty. It repairs a session whose
// protocol refuses an extension, for example after an upgrade, and which therefore runs no turn. Every node restores
// the protocol and passes it the new list. With an empty list it calls no plugin. A protocol that saves its state,
// see [plugin.Stateful], accepts only the empty list: the effect of earlier extensions stays in that state.
// [Host.ApplyExtension] adds one extension. Errors: [*events.FieldError], also of an extension that the protocol
// refuses, which is [api.ErrProtocol], and [*api.LimitError].
func (h *Host) ReplaceExtensions(ctx context.Context, id events.SessionID, list []events.Extension) error {
	ctx, reqMeta := api.TakeRequestMeta(ctx)
	kept := &projector.State{}
	for i, e := range list {
		if err := check.ExtensionForm(fmt.Sprintf("extensions[%d].", i), e); err != nil {
			return err
		}
		if err := check.Extension(kept, e); err != nil {
			return err
		}
		kept.Extensions = append(kept.Extensions, e)
	}
	meta, s, done, err := h.appliedBefore(ctx, id, requestContent{operation.ReplaceExtensions.Name, "replace extensions", &list}, reqMeta)
	if err == nil && !done {
		err = check.Open(s)
	}
	if err != nil || done {
		return err
	}
	record := func() error {
		return h.decideUntilAppended(ctx, id, decideOptions{meta: meta, repeatHints: true}, func(s *projector.State) ([]events.Event, error) {
			return []events.Event{events.Of("", &events.SessionExtensionsSet{Extensions: list})}, check.Open(s)
		})
	}
	if len(list) == 0 {
		return record()
	}
	if _, err := h.checkPlugins(); err != nil {
		return err
	}
	if h.plugins == nil {
		return fmt.Errorf("extensions: %w", plugin.ErrUnavailable)
	}
	st, unlock, err := h.stacks.Lock(ctx, id)
	if err != nil {
		return err
	}
	defer unlock()
	defer st.MustRestore() // also after a refusal: the live protocol has received extensions that the history does not have
	if err := h.stacks.TryExtensions(ctx, st, s, list); err != nil {
		return err
	}
	return record()
}
