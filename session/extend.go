package session

import (
	"context"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// followed is how far a live protocol was brought along a session's history.
// It is read and changed by who has the stack's opening.
type followed struct {
	at       events.Seq     // of the newest state that it was brought to
	frame    events.FrameID // that it was restored in
	moves    int64          // of the leaf, when it was restored
	replaced events.Seq     // where the extensions had been replaced, when it was restored
	extended int            // extensions that it was handed since it was restored
	lost     bool           // it was handed one that the history does not have: it is to be restored
}

// restore restores the protocol, which knows of no extension then.
func (h *Host) restore(ctx context.Context, st *stack, p *plugin.Session, state *projector.State) error {
	restored := state.Clone()
	if err := blob.FillState(ctx, h.b, restored); err != nil {
		return err
	}
	st.followed = followed{lost: true}
	if err := p.Protocol().Restore(ctx, plugin.ProtocolSession{Session: state.Session}, restored); err != nil {
		return err
	}
	st.followed = followed{at: state.Seq, frame: state.Frame().ID, moves: state.Moves, replaced: state.Replaced}
	return nil
}

// follow brings a stack to the history: the protocol is restored after a branch and
// in a new frame, and handed the extensions that are new; the overlay is that of
// the history. A state that is older than one before changes nothing.
func (h *Host) follow(ctx context.Context, st *stack, state *projector.State) error {
	f := &st.followed
	if state.Seq < f.at {
		return nil
	}
	if f.lost || f.frame != state.Frame().ID || f.moves != state.Moves || f.replaced != state.Replaced {
		if err := h.restore(ctx, st, st.plugins, state); err != nil {
			return fmt.Errorf("restore session %s: %w", state.Session, err)
		}
	}
	if err := st.plugins.FollowSources(state.ToolSources); err != nil {
		return fmt.Errorf("session %s: %w", state.Session, err)
	}
	for f.extended < len(state.Extensions) {
		if err := st.plugins.Protocol().ApplyExtension(ctx, state.Extensions[f.extended]); err != nil {
			return fmt.Errorf("extension %d of session %s: %w", f.extended, state.Session, err)
		}
		f.extended++
	}
	f.at = state.Seq
	st.plugins.FollowOverlay(state.Overlay, false)
	return nil
}

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

// opening takes a session's stack, and its opening, until done is called.
func (h *Host) opening(ctx context.Context, id events.SessionID) (st *stack, done func(), err error) {
	st = h.stacks.take(id)
	if ctx.Value(buildingKey{}) == st {
		err = fmt.Errorf("plugins of session %s: %w", id, plugin.ErrBuilding)
	} else {
		select {
		case st.opening <- struct{}{}:
			return st, func() { <-st.opening; h.stacks.giveBack(st) }, nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
	}
	h.stacks.giveBack(st)
	return nil, nil, err
}

// extend keeps the stack's opening, so that protocols here are handed extensions in the order of the history.
func (h *Host) extend(ctx context.Context, p *plugin.Session, s *projector.State, by stamp, e events.Extension) error {
	st, done, err := h.opening(ctx, s.Session)
	if err != nil {
		return err
	}
	defer done()
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
	if err := p.Protocol().ApplyExtension(context.WithValue(ctx, buildingKey{}, st), e); err != nil {
		return &events.FieldError{Field: "extension", Reason: err.Error(), Err: api.ErrProtocol}
	}
	before := -1
	err = h.saveStates(ctx, s.Session, by, p, func(s *projector.State) ([]events.Event, error) {
		before = len(s.Extensions)
		return []events.Event{events.Of("", fact)}, check(s)
	})
	switch {
	case fact.Saved, st.plugins != p: // the plugins were built anew meanwhile
	case err == nil && before == st.followed.extended:
		st.followed.extended++
	default:
		st.followed.lost = true
	}
	return err
}
