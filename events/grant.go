package events

import (
	"fmt"
	"slices"
)

// SessionRight is what a session's owner may grant to another caller.
type SessionRight string

// The rights that can be granted. Others belong to the owner, and to callers that reach every session.
const (
	GrantRead    SessionRight = "read"    // look and watch
	GrantWrite   SessionRight = "write"   // run turns, change the conversation
	GrantApprove SessionRight = "approve" // let calls run that wait, give their results
)

// SessionGranted says what a caller may do in a session that is not its own.
// It replaces what was granted to that caller before.
type SessionGranted struct {
	To     string         `msgpack:"t"`
	Rights []SessionRight `msgpack:"r,omitempty"` // none: what was granted before is taken back
	By     string         `msgpack:"b,omitempty"` // who granted it
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
			return invalid("rights", fmt.Sprintf("%q stands twice", r))
		}
	}
	if err := checkID("by", p.By, false); err != nil {
		return err
	}
	return CheckToken("to", p.To)
}
