package events

import "fmt"

// WhenBusy is the policy for a turn that is requested while another one runs or waits. In an idle session it has no
// effect.
type WhenBusy string

// Policies.
const (
	BusyEnqueue   WhenBusy = ""          // the turn waits, in the order of requests
	BusyInject    WhenBusy = "inject"    // the running turn takes the message; if it ends before that, the turn waits
	BusyReject    WhenBusy = "reject"    // the turn is refused and does not run
	BusyInterrupt WhenBusy = "interrupt" // the running turn is cancelled, and this turn runs before those that wait
	BusyBranch    WhenBusy = "branch"    // the turn runs in a session of its own, which starts as this one was before the running turn
)

// Check refuses an unknown policy, and inject for an input that is more than a message. Errors: [ErrInvalid].
func (b WhenBusy) Check(in TurnInput) error {
	switch b {
	case BusyEnqueue, BusyReject, BusyInterrupt, BusyBranch:
		return nil
	case BusyInject:
		if in.Continue || len(in.Options) > 0 || !in.Extension.IsZero() || len(in.Plugins) > 0 || !in.Generation.IsZero() || !in.Output.IsZero() || len(in.Layers) > 0 {
			return invalid("busy", "a message alone can be injected: no continue, options, extension, input for plugins, generation, output or layers")
		}
		return nil
	}
	return invalid("busy", fmt.Sprintf("unknown %q", b))
}

// TurnDiverted ends a turn that did not start because of another turn.
type TurnDiverted struct {
	End     TurnEnd        `msgpack:"e"`           // injected, rejected or branched
	By      TurnID         `msgpack:"b"`           // the other turn; for injected: the turn that took the message
	Session SessionID      `msgpack:"s,omitempty"` // for branched: session in which the turn runs, under the same id
	Message MessageID      `msgpack:"m,omitempty"` // for injected: id of the message; empty takes the default
	At      CheckpointKind `msgpack:"a,omitempty"` // for injected: point of the turn
}

// Validate implements [Payload].
func (p *TurnDiverted) Validate() error {
	switch p.End {
	case EndRejected, EndInjected, EndBranched:
	default:
		return invalid("end", fmt.Sprintf("%q diverts no turn", p.End))
	}
	if (p.End == EndBranched) != (p.Session != "") {
		return invalid("session", "must be set if and only if end is branched")
	}
	if p.Session != "" {
		if err := CheckToken("session", p.Session); err != nil {
			return err
		}
	}
	switch p.At {
	case AtAfterWork, AtBeforeCompletion:
	default:
		if p.At != "" || p.End == EndInjected {
			return invalid("at", fmt.Sprintf("unknown %q", p.At))
		}
	}
	if p.End != EndInjected && (p.At != "" || p.Message != "") {
		return invalid("at", "is allowed with end injected only")
	}
	return CheckToken("by", p.By)
}
