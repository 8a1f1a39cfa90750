package events

import (
	"errors"
	"fmt"
)

// ToolApprovalAsked parks a call until somebody answers.
type ToolApprovalAsked struct {
	Effect   EffectID `msgpack:"e"` // the call, unique in the session
	Tool     string   `msgpack:"n"`
	Args     []byte   `msgpack:"a,omitempty"` // that it would run with, JSON
	Blob     BlobRef  `msgpack:"b,omitempty"` // instead of Args when above the inline cap
	Plugin   string   `msgpack:"p"`           // who asks
	Question string   `msgpack:"q"`
	Until    Millis   `msgpack:"u,omitempty"` // when it is refused for want of an answer; 0: never
}

// Validate implements [Payload].
func (p *ToolApprovalAsked) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolApprovalGiven answers. The first answer counts.
type ToolApprovalGiven struct {
	Effect  EffectID `msgpack:"e"`
	Granted bool     `msgpack:"g,omitempty"` // false: the call must not run
	By      string   `msgpack:"b,omitempty"`
	Reason  string   `msgpack:"r,omitempty"`
}

// IsZero reports whether it answers nothing.
func (p ToolApprovalGiven) IsZero() bool { return p.Effect == "" }

// Validate implements [Payload].
func (p *ToolApprovalGiven) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolPended says that calls wait for somebody outside, who has their keys.
type ToolPended struct {
	Iteration int64   `msgpack:"n"`
	Calls     []int64 `msgpack:"c"` // positions among the reply's tool calls, ascending
}

// Validate implements [Payload].
func (p *ToolPended) Validate() error { return validateCalls(p.Iteration, p.Calls) }

// ToolResolved is what a pending call came to. The first of a call counts, also when it comes before the call is pending.
type ToolResolved struct {
	Effect EffectID   `msgpack:"e"`
	Result ToolResult `msgpack:"r"`
	By     string     `msgpack:"b,omitempty"`
}

// IsZero reports whether it resolves nothing.
func (p ToolResolved) IsZero() bool { return p.Effect == "" }

// Validate implements [Payload].
func (p *ToolResolved) Validate() error {
	if err := checkID("effect", string(p.Effect), true); err != nil {
		return err
	}
	return p.Result.validate()
}

// ToolResultScheduled gives a pending call its result at a time, unless it has
// one by then. The first one of a call counts.
type ToolResultScheduled struct {
	Effect EffectID   `msgpack:"e"`
	At     Millis     `msgpack:"t"` // UTC; above 0
	Result ToolResult `msgpack:"r"`
	By     string     `msgpack:"b,omitempty"` // who scheduled it
}

// Validate implements [Payload].
func (p *ToolResultScheduled) Validate() error {
	return errors.Join(checkID("effect", string(p.Effect), true), validateTime("at", p.At), p.Result.validate())
}

// ToolNestedCalled is recorded before a call starts that must not run twice
// and that another call makes, as a protocol's code does.
type ToolNestedCalled struct {
	Effect EffectID `msgpack:"e"` // the outer call's, a slash and its number among the calls that it makes
	Tool   string   `msgpack:"n"`
	Digest string   `msgpack:"d"` // hex sha256 of the arguments
}

// Validate implements [Payload].
func (p *ToolNestedCalled) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolNestedReturned is what such a call came to. Made again, it gets this answer.
type ToolNestedReturned struct {
	Effect EffectID   `msgpack:"e"`
	Tool   string     `msgpack:"n"`
	Args   []byte     `msgpack:"a,omitempty"` // JSON
	Blob   BlobRef    `msgpack:"b,omitempty"` // instead of Args when above the inline cap
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
