package events

import (
	"errors"
	"fmt"
)

// ToolApprovalAsked suspends a call until an answer arrives.
type ToolApprovalAsked struct {
	Effect   EffectID `msgpack:"e"` // of the call, unique in the session
	Tool     string   `msgpack:"n"`
	Args     []byte   `msgpack:"a,omitempty"` // the call's arguments, JSON
	Blob     BlobRef  `msgpack:"b,omitempty"` // replaces Args above the inline limit
	Plugin   string   `msgpack:"p"`           // plugin that requests the approval
	Question string   `msgpack:"q"`
	Until    Millis   `msgpack:"u,omitempty"` // time after which a missing answer is a refusal; 0 means no limit
}

// Validate implements [Payload].
func (p *ToolApprovalAsked) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolApprovalGiven is the answer to an approval request. The first answer wins.
type ToolApprovalGiven struct {
	Effect  EffectID `msgpack:"e"`
	Granted bool     `msgpack:"g,omitempty"` // false means that the call must not run
	By      string   `msgpack:"b,omitempty"`
	Reason  string   `msgpack:"r,omitempty"`
}

// IsZero reports whether there is no answer.
func (p ToolApprovalGiven) IsZero() bool { return p.Effect == "" }

// Validate implements [Payload].
func (p *ToolApprovalGiven) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolPended records that calls wait for results from outside, which arrive under their keys.
type ToolPended struct {
	Iteration int64   `msgpack:"n"`
	Calls     []int64 `msgpack:"c"` // indices among the reply's tool calls, ascending
}

// Validate implements [Payload].
func (p *ToolPended) Validate() error { return validateCalls(p.Iteration, p.Calls) }

// ToolResolved is the result of a pending call. The first one of a call wins, even if it arrives before the call is
// pending.
type ToolResolved struct {
	Effect EffectID   `msgpack:"e"`
	Result ToolResult `msgpack:"r"`
	By     string     `msgpack:"b,omitempty"`
}

// IsZero reports whether there is no result.
func (p ToolResolved) IsZero() bool { return p.Effect == "" }

// Validate implements [Payload].
func (p *ToolResolved) Validate() error {
	if err := checkID("effect", string(p.Effect), true); err != nil {
		return err
	}
	return p.Result.validate()
}

// ToolResultScheduled sets a time at which a pending call gets this result, if it has none by then.
// The first one of a call wins.
type ToolResultScheduled struct {
	Effect EffectID   `msgpack:"e"`
	At     Millis     `msgpack:"t"` // UTC, above 0
	Result ToolResult `msgpack:"r"`
	By     string     `msgpack:"b,omitempty"` // caller that scheduled it
}

// Validate implements [Payload].
func (p *ToolResultScheduled) Validate() error {
	return errors.Join(checkID("effect", string(p.Effect), true), validateTime("at", p.At), p.Result.validate())
}

// ToolNestedCalled is recorded before the start of a non-idempotent call that another call makes, for example a
// protocol's code.
type ToolNestedCalled struct {
	Effect EffectID `msgpack:"e"` // the outer call's effect, a slash and the index among the calls that it makes
	Tool   string   `msgpack:"n"`
	Digest string   `msgpack:"d"` // hex sha256 of the arguments
}

// Validate implements [Payload].
func (p *ToolNestedCalled) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolNestedReturned is the result of a nested call. A repetition of the call gets this result.
type ToolNestedReturned struct {
	Effect EffectID   `msgpack:"e"`
	Tool   string     `msgpack:"n"`
	Args   []byte     `msgpack:"a,omitempty"` // JSON
	Blob   BlobRef    `msgpack:"b,omitempty"` // replaces Args above the inline limit
	Digest string     `msgpack:"d"`
	Result ToolResult `msgpack:"r"`
}

// Validate implements [Payload].
func (p *ToolNestedReturned) Validate() error {
	if err := checkID("effect", string(p.Effect), true); err != nil {
		return err
	}
	return p.Result.validate()
}

func (r *ToolResult) validate() error {
	if err := validateOutcome(r.Outcome); err != nil {
		return err
	}
	switch r.Control {
	case ControlNone, ControlFinish, ControlFail, ControlSubmit, ControlSwitch:
	default:
		return invalid("control", fmt.Sprintf("unknown %q", r.Control))
	}
	if r.Call < 0 {
		return invalid("call", "is negative")
	}
	if err := checkID("switch.frame", string(r.Switch.Frame), r.Control == ControlSwitch); err != nil {
		return err
	}
	if err := ValidateNodes(r.Switch.Nodes); err != nil {
		return err
	}
	return validateParts(r.Attachments)
}
