package events

import (
	"fmt"
	"slices"
)

// SessionRight is a right in a session that its owner may grant to another caller.
type SessionRight string

// Rights that can be granted. Other rights belong to the owner, and to callers with access to all sessions.
const (
	GrantRead    SessionRight = "read"    // read and watch
	GrantWrite   SessionRight = "write"   // run turns, change the conversation
	GrantApprove SessionRight = "approve" // answer approval requests, resolve pending calls
)

// SessionGranted sets the rights of a caller in the session. It replaces earlier grants to that caller.
type SessionGranted struct {
	To     string         `msgpack:"t"`
	Rights []SessionRight `msgpack:"r,omitempty"` // empty revokes earlier grants
	By     string         `msgpack:"b,omitempty"` // caller that granted them
}

// Validate implements [Payload].
func (p *SessionGranted) Validate() error {
	for i, r := range p.Rights {
		switch r {
		case GrantRead, GrantWrite, GrantApprove:
		default:
			return invalid("rights", fmt.Sprintf("%.20q is none of read, write and approve", r))
		}
		if slices.Contains(p.Rights[:i], r) {
			return invalid("rights", fmt.Sprintf("%q occurs twice", r))
		}
	}
	if err := checkID("by", p.By, false); err != nil {
		return err
	}
	return CheckToken("to", p.To)
}
