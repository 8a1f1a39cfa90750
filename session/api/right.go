package api

import (
	"errors"
	"slices"
	"strings"

	"github.com/lash-go/lash/events"
)

// Right is what a caller needs for an operation, over NATS and over HTTP.
type Right string

// The rights.
const (
	RightRead      = Right(events.GrantRead)    // look and watch
	RightWrite     = Right(events.GrantWrite)   // open sessions, run turns, change the conversation
	RightApprove   = Right(events.GrantApprove) // let calls run that wait, give their results
	RightConfigure = Right("configure")         // with what turns run: model, protocol, limits, tools
	RightCommand   = Right("command")           // run commands on nodes, as monitors do
	// RightGrant lets others into a session. No scope names it: those with the
	// right to write or to configure have it. [Caller.May] says in which sessions.
	RightGrant = Right("grant")
)

// Scope is what a caller may do: one of the scopes below, or a list of rights
// separated by commas. The scope "write" is more than the right [RightWrite]: it
// also has read, approve and configure. The list "read,write" has those two
// rights only. A single "read" or "write" is the scope.
type Scope string

// The scopes. Each has what those before it have.
const (
	ScopeRead  Scope = "read"
	ScopeWrite Scope = "write" // every right but that to commands
	ScopeAdmin Scope = "admin" // every right
)

// Rights are all that a scope has; nil for none that there is.
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

// Check refuses what is no scope.
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
