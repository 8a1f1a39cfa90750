package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// What a session keeps of extensions whose protocol does not save what it makes of them.
const (
	MaxExtensions     = 64       // in number
	MaxExtensionBytes = 64 << 10 // their bodies together
)

// checkExtension refuses an extension that the session cannot keep beside those that it has.
func checkExtension(s *projector.State, e events.Extension) error {
	total := len(e.Body)
	for i := range s.Extensions {
		total += len(s.Extensions[i].Body)
	}
	switch {
	case len(s.Extensions) >= MaxExtensions:
		return &api.LimitError{What: "extensions", Limit: MaxExtensions}
	case total > MaxExtensionBytes:
		return &api.LimitError{What: "bytes of extensions", Limit: MaxExtensionBytes}
	}
	return nil
}

// wellFormed refuses an extension that no history could hold. What its fields are in stands before their names.
func wellFormed(in string, e events.Extension) error {
	switch {
	case e.Type == "" || len(e.Type) > events.MaxIDBytes:
		return &events.FieldError{Field: in + "type", Reason: fmt.Sprintf("has %d bytes, want 1 to %d", len(e.Type), events.MaxIDBytes), Err: events.ErrInvalid}
	case len(e.Body) > MaxExtensionBytes:
		return &events.FieldError{Field: in + "body", Reason: fmt.Sprintf("has %d bytes, limit is %d", len(e.Body), MaxExtensionBytes), Err: events.ErrTooLarge}
	}
	return checkJSON(in+"body", e.Body)
}

// ApplyExtension hands the protocol an object of its own, and records it with
// what it changed of plugins' states. A protocol whose plugin is
// [plugin.Stateful] keeps what it needs of it there; others are handed it again,
// after all that came before it, wherever the session is opened and after each
// restore. Errors: [*events.FieldError], [*api.LimitError], and the protocol's own.
func (h *Host) ApplyExtension(ctx context.Context, id events.SessionID, e events.Extension) error {
	ctx, asked := api.TakeAsked(ctx)
	if err := wellFormed("", e); err != nil {
		return err
	}
	by, s, done, err := h.appliedBefore(ctx, id, command{operation.ApplyExtension.Name, "apply extension", &e}, asked)
	if err != nil || done {
		return err
	}
	return h.withStackOf(ctx, s, func(p *plugin.Session, s *projector.State) error { return h.extend(ctx, p, s, by, e) })
}

// extend has the stack's lock, so that protocols of this process get extensions in the order of the history.
func (h *Host) extend(ctx context.Context, p *plugin.Session, s *projector.State, by stamp, e events.Extension) error {
	st, unlock, err := h.stacks.Lock(ctx, s.Session)
	if err != nil {
		return err
	}
	defer unlock()
	fact := &events.SessionExtended{Extension: e, Saved: p.SavesProtocol()}
	check := func(s *projector.State) error {
		if err := open(s); err != nil || fact.Saved {
			return err
		}
		return checkExtension(s, e)
	}
	if err := check(s); err != nil {
		return err
	}
	return st.Extend(ctx, p, e, fact.Saved, func() (before int, err error) {
		before = -1
		err = h.saveStates(ctx, s.Session, by, p, func(s *projector.State) ([]events.Event, error) {
			before = len(s.Extensions)
			return []events.Event{events.Of("", fact)}, check(s)
		})
		return before, err
	})
}
