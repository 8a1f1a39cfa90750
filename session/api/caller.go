package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Reach is the scope of a caller, and the sessions that it covers.
type Reach struct {
	Scope Scope
	Own   bool // only sessions that the caller owns or has a grant for. Defaults to every session
}

// Caller is a user of the service that the NATS server or the HTTP server authenticated.
type Caller struct {
	Name string // as histories name it: 1 to 64 of A-Z a-z 0-9 _ -
	Reach
	// Within bounds the caller to the sessions for which it returns true. nil: no such bound. Lists do not check it.
	Within func(*projector.State) bool
}

// Bounded reports whether the caller reaches some of the sessions only.
func (c Caller) Bounded() bool { return c.Own || c.Within != nil }

// Check is the authorization rule, for every operation that names a session, over NATS and HTTP:
//
//  1. A caller bounded to its own sessions ([Reach.Own]) that neither owns this one nor has a
//     grant of it gets [events.ErrNoSession]: the error does not show that the session exists.
//     The same holds for a caller that is bounded to sessions that this one is not of ([Caller.Within]).
//  2. A right that the scope lacks is [ErrForbidden].
//  3. The owner has every right that remains.
//  4. A caller that reaches every session has them too, but [RightGrant] only with [RightConfigure].
//  5. A caller with a grant has the rights in the grant. Any other right is [ErrForbidden].
func (c Caller) Check(needs Right, s *projector.State) error {
	owner := s.Owner != "" && s.Owner == c.Name
	granted := s.Granted(c.Name)
	switch {
	case c.Within != nil && !c.Within(s):
		return events.ErrNoSession
	case c.Own && !owner && len(granted) == 0:
		return events.ErrNoSession
	case !c.Scope.Has(needs):
	case owner:
		return nil
	case !c.Own && (needs != RightGrant || c.Scope.Has(RightConfigure)):
		return nil
	case slices.Contains(granted, events.SessionRight(needs)):
		return nil
	}
	return fmt.Errorf("%w: %s has no right %q in session %s", ErrForbidden, c.Name, needs, s.Session)
}

// authorization is the authorization data of a caller's request.
type authorization struct {
	caller  Caller
	needs   Right
	session events.SessionID // that it names; empty: none

	configures string // the request's field that also needs [RightConfigure]; empty: none
}

type callerKey struct{}

// WithCaller attaches a caller, the right that its request needs and the session that it names, which may be empty.
// The host checks the caller's rights against them. A context without a caller has all rights.
func WithCaller(ctx context.Context, c Caller, needs Right, session events.SessionID) context.Context {
	return context.WithValue(ctx, callerKey{}, authorization{caller: c, needs: needs, session: session})
}

// CallerOf returns the caller of a context, if it has one.
func CallerOf(ctx context.Context) (Caller, bool) {
	r, ok := ctx.Value(callerKey{}).(authorization)
	return r.caller, ok
}

// Allows reports whether the caller of a context has a right in a session, from the session's state. Without a caller
// the answer is true.
func Allows(ctx context.Context, needs Right, s *projector.State) bool {
	r, ok := ctx.Value(callerKey{}).(authorization)
	return !ok || r.caller.Check(needs, s) == nil
}

// CheckRead refuses an answer that contains parts of a session's history where the caller of a context has no right to
// read it. The request itself may have been allowed. The error is [ErrForbidden].
func CheckRead(ctx context.Context, s *projector.State) error {
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok {
		return nil
	}
	return r.caller.Check(RightRead, s)
}

// WithNeeds returns the context for a step that needs a different right than the caller's operation.
func WithNeeds(ctx context.Context, needs Right) context.Context {
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok || r.needs == needs {
		return ctx
	}
	r.needs = needs
	return context.WithValue(ctx, callerKey{}, r)
}

// WithoutCaller returns the context for work that a process does for itself during a request: it has no caller and no actor.
func WithoutCaller(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, callerKey{}, nil), requestMetaKey{}, takenRequestMeta{})
}

// ReadsOnly reports whether the caller's request needs only [RightRead]. Such a request appends nothing.
func ReadsOnly(ctx context.Context) bool {
	r, ok := ctx.Value(callerKey{}).(authorization)
	return ok && r.needs == RightRead
}

// WithSession returns the context for another session that the caller's request names.
func WithSession(ctx context.Context, session events.SessionID) context.Context {
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok || r.session == session {
		return ctx
	}
	r.session = session
	return context.WithValue(ctx, callerKey{}, r)
}

// Authorize checks the rights of the caller of a context in a session, from its state or the error of its lookup. The
// error is the same for a session that the caller does not reach, an erased one and one that never existed; for a bounded
// caller also for one that cannot be read, because nothing shows who reaches it.
func Authorize(ctx context.Context, session events.SessionID, s *projector.State, err error) error {
	r, ok := ctx.Value(callerKey{}).(authorization)
	if !ok || r.session != session {
		return err
	}
	if err == nil {
		err = r.caller.Check(r.needs, s)
	}
	if err == nil && r.configures != "" && r.caller.Check(RightConfigure, s) != nil {
		err = r.lacksConfigure()
	}
	if r.caller.Own && errors.Is(err, events.ErrNoSession) || r.caller.Bounded() && isUnreadable(err) {
		return fmt.Errorf("session %s: %w", session, events.ErrNoSession)
	}
	return err
}

// isUnreadable reports the error of a session whose history is damaged, lost or locked.
func isUnreadable(err error) bool {
	_, lost := errors.AsType[*events.LostError](err)
	return lost || errors.Is(err, events.ErrMalformed) || errors.Is(err, events.ErrLocked) || errors.Is(err, events.ErrFutureVersion)
}
