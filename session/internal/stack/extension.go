package stack

import (
	"context"
	"errors"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/blob"
	"github.com/lash-go/lash/session/plugin"
)

// followed is the part of a session's history that a live protocol has.
type followed struct {
	at          events.Seq      // of the newest state that it was updated to
	commit      events.CommitID // at that sequence; empty: not known
	incarnation string          // of the log's stream that this state is of; empty: not known
	frame       events.FrameID  // that it was restored in
	moves       int64           // of the leaf, when it was restored
	replaced    events.Seq      // of the last replacement of extensions, when it was restored
	extended    int             // extensions that it got since it was restored
	mustRestore bool            // it got an extension that the history does not have: it has to be restored
}

// restore restores the protocol, which has no extension then.
func (s *Stacks) restore(ctx context.Context, st *Stack, p *plugin.Stack, state *projector.State) error {
	restored := state.Clone()
	if err := blob.FillState(ctx, s.cfg.Blobs, restored); err != nil {
		return err
	}
	st.followed = followed{mustRestore: true}
	if err := p.Protocol().Restore(ctx, plugin.ProtocolSession{Session: state.Session}, restored); err != nil {
		return err
	}
	st.followed = followed{at: state.Seq, commit: state.LastCommit(), incarnation: state.Incarnation(), frame: state.Frame().ID, moves: state.Moves, replaced: state.Replaced}
	return nil
}

// follow updates a stack to the history: it restores the protocol after a branch and in a new frame, gives it the
// extensions that are new, and sets the overlay of the history. A state that is older than the newest one before
// changes nothing.
func (s *Stacks) follow(ctx context.Context, st *Stack, state *projector.State) error {
	f := &st.followed
	if state.Seq < f.at {
		return nil
	}
	if f.mustRestore || f.frame != state.Frame().ID || f.moves != state.Moves || f.replaced != state.Replaced {
		if err := s.restore(ctx, st, st.plugins, state); err != nil {
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
	f.at, f.commit, f.incarnation = state.Seq, state.LastCommit(), state.Incarnation()
	st.plugins.FollowOverlay(state.Overlay, false)
	return nil
}

// hasLostCommits reports whether the plugins have commits, or texts of them, that the log does not have any more. Where the state is of another stream than
// theirs, as after an archive too, it compares the last commit that they have. One that is not known counts as lost: plugins can be built
// again at any time.
func (s *Stacks) hasLostCommits(ctx context.Context, st *Stack, state *projector.State) (bool, error) {
	f := &st.followed
	if s.cfg.CommitAt == nil || f.at == 0 || f.incarnation == "" || state.Incarnation() == "" || f.incarnation == state.Incarnation() {
		return false, nil
	}
	if state.Redacted != 0 {
		return true, nil
	}
	id, err := s.cfg.CommitAt(ctx, state.Session, f.at)
	if errors.Is(err, events.ErrShorter) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("compare the plugins of session %s with its history: %w", state.Session, err)
	}
	return f.commit == "" || id != f.commit, nil
}

// MustRestore has the next use restore the protocol, which may have extensions that the history does not have.
func (st *Stack) MustRestore() { st.followed.mustRestore = true }

// TryExtensions gives extensions to the protocol as it is without any. The caller has the stack's lock. The next open of the
// stack restores the protocol from the history.
func (s *Stacks) TryExtensions(ctx context.Context, st *Stack, state *projector.State, list []events.Extension) error {
	state.Extensions = nil
	st.followed.mustRestore = true
	ctx = whileOpening(ctx, st)
	p, _, _, err := s.openLocked(ctx, st, state)
	if err != nil {
		return err
	}
	if p.ProtocolIsStateful() {
		return &events.FieldError{Field: "extensions", Reason: "must be empty: this protocol saves its state, which no extension can be taken out of; add one to it by applying it", Err: events.ErrInvalid}
	}
	for i, e := range list {
		if err := p.Protocol().ApplyExtension(ctx, e); err != nil {
			return &events.FieldError{Field: fmt.Sprintf("extensions[%d]", i), Reason: err.Error(), Err: api.ErrProtocol}
		}
	}
	return nil
}

// Extend gives an extension to the protocol, and then has record append it. The caller has the stack's lock, so that
// protocols of this process get extensions in the order of the history. saved says that the plugins' states have what the
// protocol makes of it. record returns the number of extensions that the session had before.
func (st *Stack) Extend(ctx context.Context, p *plugin.Stack, e events.Extension, saved bool, record func() (before int, err error)) error {
	if err := p.Protocol().ApplyExtension(context.WithValue(ctx, buildingKey{}, st), e); err != nil {
		return &events.FieldError{Field: "extension", Reason: err.Error(), Err: api.ErrProtocol}
	}
	before, err := record()
	switch {
	case saved, st.plugins != p: // the plugins were built anew meanwhile
	case err == nil && before == st.followed.extended:
		st.followed.extended++
	default:
		st.followed.mustRestore = true
	}
	return err
}
