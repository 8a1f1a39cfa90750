package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Right is the permission that an operation needs, over NATS and over HTTP.
type Right string

// Values of [Right].
const (
	RightRead      = Right(events.GrantRead)    // read and watch
	RightWrite     = Right(events.GrantWrite)   // open sessions, run turns, change the conversation
	RightApprove   = Right(events.GrantApprove) // answer approval requests, and give results of pending calls
	RightConfigure = Right("configure")         // set the model, protocol, limits and tools of turns
	RightCommand   = Right("command")           // run commands on nodes, as monitors do
	// RightGrant is the right to change grants. No scope names it: a scope with the right to write or to configure
	// has it. [Caller.Check] says in which sessions.
	RightGrant = Right("grant")
)

// Scope is the set of rights of a caller: one of the scopes below, or a list of rights separated by commas. The scope
// "write" has more than [RightWrite]: it also has read, approve and configure. The list "read,write" has only those
// two rights. A single "read" or "write" is the scope.
type Scope string

// The scopes. Each includes those before it.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write" // every right except command
	ScopeAdmin Scope = "admin" // every right
)

// Rights are all rights of a scope; nil for an unknown scope.
func (s Scope) Rights() []Right {
	all := []Right{RightRead, RightWrite, RightApprove, RightConfigure, RightCommand}
	switch s {
	case ScopeRead:
		return all[:1]
	case ScopeWrite:
		return all[:4]
	case ScopeAdmin:
		return all
	}
	var list []Right
	for word := range strings.SplitSeq(string(s), ",") {
		if !slices.Contains(all, Right(word)) {
			return nil
		}
		list = append(list, Right(word))
	}
	return list
}

// Has reports whether a scope has a right.
func (s Scope) Has(r Right) bool {
	if r == RightGrant {
		return s.Has(RightWrite) || s.Has(RightConfigure)
	}
	return slices.Contains(s.Rights(), r)
}

// Check refuses an unknown scope.
func (s Scope) Check() error {
	if s.Rights() == nil {
		return errors.New("scope is none of read, write, admin, nor a list of read, write, approve, configure and command")
	}
	return nil
}

// Least is the smallest scope that has a right.
func (r Right) Least() Scope {
	for _, s := range []Scope{ScopeRead, ScopeWrite} {
		if s.Has(r) {
			return s
		}
	}
	return ScopeAdmin
}
