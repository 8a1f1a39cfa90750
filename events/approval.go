package events

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// Limits of what a person writes about a request. The reason of a close is in the commit that ends all turns and tasks
// which wait in the session, and the reasons of cancels stay in the state while their turns wait.
const (
	MaxReasonBytes = 1000     // of a reason, and of the origin of a cancel
	MaxAnswerBytes = 64 << 10 // of an answer to a question that a call asks: the reason of its [ToolApprovalGiven]
)

// CheckReason refuses a text of more than [MaxReasonBytes], or one that is not UTF-8. The error names the field.
func CheckReason(field, text string) error { return checkTextOf(field, text, MaxReasonBytes) }

func checkTextOf(field, text string, most int) error {
	if len(text) > most {
		return tooLarge(field, len(text), most)
	}
	return CheckUTF8(field, text)
}

// question precedes the id of a question in its effect. No index of a nested call has it.
const question = "ask:"

// QuestionEffect is the effect of a question that a call asks. id is a token.
func QuestionEffect(call EffectID, id string) EffectID { return call + "/" + question + EffectID(id) }

// IsQuestion reports whether an effect is that of a question, see [QuestionEffect].
func (e EffectID) IsQuestion() bool {
	return strings.HasPrefix(string(e[strings.LastIndexByte(string(e), '/')+1:]), question)
}

// ToolApprovalAsked suspends a call until an answer arrives.
type ToolApprovalAsked struct {
	Effect   EffectID `msgpack:"e"` // of the call, unique in the session
	Tool     string   `msgpack:"n"`
	Args     []byte   `msgpack:"a,omitempty"` // the call's arguments, JSON
	Blob     BlobRef  `msgpack:"b,omitempty"` // replaces Args above the inline limit
	Plugin   string   `msgpack:"p"`           // plugin that requests the approval
	Question string   `msgpack:"q"`
	Until    Millis   `msgpack:"u,omitempty"` // time after which a missing answer is a refusal; 0 means no limit
	// Places is where the files and directories of the arguments were when the question was asked: a JSON object of paths
	// without links, by argument, below the root of the files or absolute. The call may work only there.
	Places []byte `msgpack:"l,omitempty"`
}

// Validate implements [Payload].
func (p *ToolApprovalAsked) Validate() error { return checkID("effect", string(p.Effect), true) }

// ToolApprovalGiven is the answer to an approval request. The first answer wins.
type ToolApprovalGiven struct {
	Effect  EffectID `msgpack:"e"`
	Granted bool     `msgpack:"g,omitempty"` // false means that the call must not run
	By      string   `msgpack:"b,omitempty"`
	Reason  string   `msgpack:"r,omitempty"` // UTF-8, at most [MaxReasonBytes]; of a question at most [MaxAnswerBytes]
}

// IsZero reports whether there is no answer.
func (p ToolApprovalGiven) IsZero() bool { return p.Effect == "" }

// Validate implements [Payload].
func (p *ToolApprovalGiven) Validate() error {
	most := MaxReasonBytes
	if p.Effect.IsQuestion() {
		most = MaxAnswerBytes
	}
	return cmp.Or(checkID("effect", string(p.Effect), true), checkTextOf("reason", p.Reason, most))
}

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
	return errors.Join(validateParts(r.Attachments), validateParts(r.Unseen))
}
