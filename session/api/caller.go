package api

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/projector"
)

// Reach is what a caller may do, and in which sessions.
type Reach struct {
	Scope Scope
	Own   bool // only in sessions that it owns, and in those that it has a grant of. Defaults to every session
}

// Caller is a user of the service, as the NATS server or the HTTP server authenticated it.
type Caller struct {
	Name string // as histories name it: 1 to 64 of A-Z a-z 0-9 _ -
	Reach
}

// May is the authorization rule, for every operation that names a session, over NATS and HTTP:
//
//  1. A caller bounded to its own sessions ([Reach.Own]) that neither owns this one nor has a
//     grant of it gets [events.ErrNoSession]: the error does not tell that the session exists.
//  2. A right that the scope lacks is [ErrForbidden].
//  3. The owner has every right that remains.
//  4. A caller that reaches every session has them too, but [RightGrant] only with [RightConfigure].
//  5. A caller with a grant has the rights in the grant. Any other right is [ErrForbidden].
func (c Caller) May(needs Right, s *projector.State) error {
	owner := s.Owner != "" && s.Owner == c.Name
	granted := s.Granted(c.Name)
	switch {
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

// request is what a caller asks for.
type request struct {
	caller  Caller
	needs   Right
	session events.SessionID // that it names; empty: none

	configures string // the field that needs [RightConfigure] too; empty: none
}

type callerKey struct{}

// WithCaller has the host hold what is called with the context to what the
// caller may in the session that its request names, which may be none. A
// context without a caller may everything.
func WithCaller(ctx context.Context, c Caller, needs Right, session events.SessionID) context.Context {
	return context.WithValue(ctx, callerKey{}, request{caller: c, needs: needs, session: session})
}

// CallerOf is the caller of a context, if it has one.
func CallerOf(ctx context.Context) (Caller, bool) {
	r, ok := ctx.Value(callerKey{}).(request)
	return r.caller, ok
}

// Allows reports whether the caller of a context may in a session what needs a
// right, given the session's state. Without a caller everything is allowed.
func Allows(ctx context.Context, needs Right, s *projector.State) bool {
	r, ok := ctx.Value(callerKey{}).(request)
	return !ok || r.caller.May(needs, s) == nil
}

// Shows refuses an answer with what a session's history says to a caller of a context that may not read it, though it may
// do what it asked for. The error is [ErrForbidden].
func Shows(ctx context.Context, s *projector.State) error {
	r, ok := ctx.Value(callerKey{}).(request)
	if !ok {
		return nil
	}
	return r.caller.May(RightRead, s)
}

// Needing is the context for what needs another right than the operation that the caller asked for.
func Needing(ctx context.Context, needs Right) context.Context {
	r, ok := ctx.Value(callerKey{}).(request)
	if !ok || r.needs == needs {
		return ctx
	}
	r.needs = needs
	return context.WithValue(ctx, callerKey{}, r)
}

// Apart is the context for what a process does for its own sake while it
// answers a request: it has no caller and no actor.
func Apart(ctx context.Context) context.Context {
	return context.WithValue(context.WithValue(ctx, callerKey{}, nil), askedKey{}, takenAsked{})
}

// LooksOnly reports whether the caller of a context asked for what needs
// [RightRead] alone. Such a request appends nothing.
func LooksOnly(ctx context.Context) bool {
	r, ok := ctx.Value(callerKey{}).(request)
	return ok && r.needs == RightRead
}

// Naming is the context for a further session that the caller's request names.
func Naming(ctx context.Context, session events.SessionID) context.Context {
	r, ok := ctx.Value(callerKey{}).(request)
	if !ok || r.session == session {
		return ctx
	}
	r.session = session
	return context.WithValue(ctx, callerKey{}, r)
}

// Reached holds the caller of a context to what it may in a session, given its
// state or the error of looking for it. A session that the caller does not
// reach, one that was erased, and one that never was give the same error.
func Reached(ctx context.Context, session events.SessionID, s *projector.State, err error) error {
	r, ok := ctx.Value(callerKey{}).(request)
	if !ok || r.session != session {
		return err
	}
	if err == nil {
		err = r.caller.May(r.needs, s)
	}
	if err == nil && r.configures != "" && r.caller.May(RightConfigure, s) != nil {
		err = r.lacksConfigure()
	}
	if r.caller.Own && errors.Is(err, events.ErrNoSession) {
		return fmt.Errorf("session %s: %w", session, events.ErrNoSession)
	}
	return err
}
