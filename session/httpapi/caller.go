package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// Caller is the authenticated sender of a request.
type Caller struct {
	api.Caller        // its name is the actor of commits
	Tenant     string // tenant of the credentials; empty: the source serves only the node's tenant
}

// Identifier authenticates requests. Calls may overlap. The server repeats the call every few seconds for a request
// that stays open, so it must return fast.
type Identifier interface {
	// Identify returns the caller. The error is [ErrNotMine] where the request has no credentials of this kind: the
	// server then calls the next identifier. It is [ErrNotReady] where the identifier cannot check credentials yet.
	// Any other error refuses the request. The server logs the error, so it must not contain credentials.
	Identify(r *http.Request) (Caller, error)
}

// ErrNotMine reports a request without credentials of an [Identifier]'s kind.
var ErrNotMine = errors.New("no credentials that are known here")

// ErrNotReady reports an [Identifier] that cannot check credentials yet: the request is refused, and may succeed
// later.
var ErrNotReady = errors.New("credentials cannot be checked yet")

// identify calls the identifiers in their order.
func (s *Server) identify(r *http.Request) (Caller, error) {
	for _, source := range s.cfg.Identity {
		caller, err := source.Identify(r)
		if errors.Is(err, ErrNotMine) {
			continue
		}
		if err == nil {
			err = caller.validate(s.cfg.Tenant)
		}
		if err != nil {
			return Caller{}, err
		}
		return caller, nil
	}
	return Caller{}, ErrNotMine
}

// validate refuses names that histories do not accept, and callers of other tenants.
func (c *Caller) validate(tenant string) error {
	if c.Tenant != "" && c.Tenant != tenant {
		return errors.New("credentials of another tenant")
	}
	return errors.Join(events.CheckCaller("caller", c.Name), c.Scope.Check())
}

// admit authenticates a request. The log has the reason of a refusal, and the client does not receive it.
func (s *Server) admit(r *http.Request) (Caller, error) {
	caller, err := s.identify(r)
	if errors.Is(err, ErrNotReady) {
		return Caller{}, &refusedError{errNotReady, err}
	}
	if err != nil {
		return Caller{}, &refusedError{errUnauthorized, err}
	}
	if r.Header.Get("Authorization") == "" { // a browser sends its certificate for any page
		if err := s.pages.Check(r); err != nil {
			return Caller{}, &refusedError{errOtherPage, err}
		}
	}
	return caller, nil
}

// checkRight refuses a caller without the operation's right.
func (o *served) checkRight(caller Caller) error {
	if !caller.Scope.Has(o.needs) {
		return forbidden(o.needs)
	}
	return nil
}

// countConnection counts the request's connection as one of the caller's.
func (o *served) countConnection(r *http.Request, caller Caller) error {
	if c := connOf(r); c != nil && !c.authenticate(caller.Name) {
		if c.isRefused() {
			panic(http.ErrAbortHandler)
		}
		return tooMany("too_many_connections", "connections", "connections", o.s.cfg.MaxConnectionsPerCaller)
	}
	return nil
}

// refusedError is a problem whose reason goes only to the log.
type refusedError struct {
	*problem
	reason error
}

func (e *refusedError) Error() string { return fmt.Sprintf("%s: %v", e.Detail, e.reason) }

// recheckCaller ends an open request, by a call of end, when its caller has lost the right to it: its credentials expired,
// were removed or changed. It returns when done is closed.
func (o *served) recheckCaller(r *http.Request, was Caller, end func(error), done <-chan struct{}) {
	tick := time.NewTicker(o.s.cfg.Recheck)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		now, err := o.s.admit(r)
		if err == nil {
			err = o.checkRight(now)
		}
		if err == nil && (now.Name != was.Name || now.Own != was.Own) {
			err = errUnauthorized
		}
		if err != nil {
			end(err)
			return
		}
	}
}
