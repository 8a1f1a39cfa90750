package events

import "fmt"

// WhenBusy says what becomes of a turn that is asked for while another one
// runs, or waits. Where the session is idle it says nothing: the turn starts.
type WhenBusy string

// The policies.
const (
	BusyEnqueue   WhenBusy = ""          // it waits, in the order in which turns were asked for
	BusyInject    WhenBusy = "inject"    // the running turn takes its message in; one that ends before it could leaves it a turn that waits
	BusyReject    WhenBusy = "reject"    // it is refused, and does not run
	BusyInterrupt WhenBusy = "interrupt" // the running turn is cancelled, and it goes before those that wait
	BusyBranch    WhenBusy = "branch"    // it goes on in a session of its own: this one as it was before the running turn
)

// Check refuses what is no policy, and one that would lose part of an input:
// only a message can be injected. Errors: [ErrInvalid].
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

// TurnDiverted ends a turn that did not start, as another one was in its way.
type TurnDiverted struct {
	End     TurnEnd        `msgpack:"e"`           // injected, rejected or branched
	By      TurnID         `msgpack:"b"`           // that was in its way; of injected: that took its message in
	Session SessionID      `msgpack:"s,omitempty"` // of branched: where it goes on, under the same id
	Message MessageID      `msgpack:"m,omitempty"` // of injected: id of the message, where the default is taken
	At      CheckpointKind `msgpack:"a,omitempty"` // of injected: where
}

// Validate implements [Payload].
func (p *TurnDiverted) Validate() error {
	switch p.End {
	case EndRejected, EndInjected, EndBranched:
	default:
		return invalid("end", fmt.Sprintf("%q diverts no turn", p.End))
	}
	if (p.End == EndBranched) != (p.Session != "") {
		return invalid("session", "stands exactly with branched")
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
		return invalid("at", "stands only with injected")
	}
	return CheckToken("by", p.By)
}
