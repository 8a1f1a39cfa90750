package events

import "fmt"

// Effects is what a tool declares that running it does to the world.
type Effects string

// The declarations. The zero value is the careful one.
const (
	EffectsNonIdempotent Effects = ""           // runs at most once
	EffectsIdempotent    Effects = "idempotent" // may run again with the same idempotency key
	EffectsNone          Effects = "none"       // reads only
)

// Repeatable reports whether a call whose result was not recorded may run again.
func (e Effects) Repeatable() bool { return e == EffectsIdempotent || e == EffectsNone }

// Availability is how far a tool is offered (host specification 6.2), in rising order.
type Availability string

// The levels. The zero value is showcased, the default of a manifest.
const (
	AvailOff        Availability = "off"
	AvailSearchable Availability = "searchable"
	AvailCallable   Availability = "callable"
	AvailShowcased  Availability = ""
)

// ToolEntry is one tool of the session's catalogue.
type ToolEntry struct {
	Name         string       `msgpack:"n"`
	Description  string       `msgpack:"d,omitempty"`
	Schema       []byte       `msgpack:"s,omitempty"` // JSON schema of the arguments
	Effects      Effects      `msgpack:"e,omitempty"`
	Source       string       `msgpack:"o,omitempty"` // who provides it
	Availability Availability `msgpack:"a,omitempty"`
}

// Callable reports whether the model may call the tool.
func (t *ToolEntry) Callable() bool {
	return t.Availability == AvailCallable || t.Availability == AvailShowcased
}

// ToolStateApplied replaces the tool catalogue.
type ToolStateApplied struct {
	Generation int64       `msgpack:"g"` // one more than before
	Tools      []ToolEntry `msgpack:"t"` // sorted by name
}

// Kind implements [Payload].
func (*ToolStateApplied) Kind() Kind { return KindToolStateApplied }

// Validate implements [Payload].
func (p *ToolStateApplied) Validate() error {
	for i := range p.Tools {
		t := &p.Tools[i]
		if err := checkID("tools.name", t.Name, true); err != nil {
			return err
		}
		if i > 0 && p.Tools[i-1].Name >= t.Name {
			return invalid("tools", fmt.Sprintf("%q is out of order or stands twice", t.Name))
		}
		if err := t.validate(); err != nil {
			return err
		}
	}
	return nil
}

func (t *ToolEntry) validate() error {
	switch t.Availability {
	case AvailOff, AvailSearchable, AvailCallable, AvailShowcased:
	default:
		return invalid("tools.availability", fmt.Sprintf("unknown %q", t.Availability))
	}
	return validateEffects(t.Effects)
}

func validateEffects(e Effects) error {
	switch e {
	case EffectsNone, EffectsIdempotent, EffectsNonIdempotent:
		return nil
	}
	return invalid("effects", fmt.Sprintf("unknown %q", e))
}

// ToolCalled is recorded before calls start together of which at least one is non-idempotent.
type ToolCalled struct {
	Iteration int64   `msgpack:"n"`
	Calls     []int64 `msgpack:"c"` // positions of the non-idempotent ones among the reply's tool calls, ascending
}

// Kind implements [Payload].
func (*ToolCalled) Kind() Kind { return KindToolCalled }

// Validate implements [Payload].
func (p *ToolCalled) Validate() error { return validateCalls(p.Calls) }

func validateCalls(calls []int64) error {
	if len(calls) == 0 {
		return invalid("calls", "is empty")
	}
	for i, c := range calls {
		if c < 0 || (i > 0 && calls[i-1] >= c) {
			return invalid("calls", "must be ascending positions from 0")
		}
	}
	return nil
}

// Control is what a successful result asks of the turn.
type Control string

// The controls (host specification 3.4). The zero value lets the turn go on.
const (
	ControlNone   Control = ""
	ControlFinish Control = "finish" // the turn ends with the result's text as its value
	ControlFail   Control = "fail"   // the turn stops with the result's text as its error
)

// ToolResult is what one call came to.
type ToolResult struct {
	Call        int64   `msgpack:"c"` // position among the reply's tool calls
	Outcome     Outcome `msgpack:"o,omitempty"`
	Text        string  `msgpack:"x,omitempty"` // what the model reads
	Blob        BlobRef `msgpack:"b,omitempty"` // instead of Text when above the inline cap
	Class       string  `msgpack:"l,omitempty"` // of failures (host specification 6.6)
	Code        string  `msgpack:"d,omitempty"` // of failures
	Attempts    int64   `msgpack:"a,omitempty"` // tries it took; 0 means one
	Millis      int64   `msgpack:"t,omitempty"` // duration
	Attachments []Part  `msgpack:"p,omitempty"`
	Control     Control `msgpack:"f,omitempty"` // of successful results
}

// ToolReturned records the results that finished together, in call order.
type ToolReturned struct {
	Iteration int64        `msgpack:"n"`
	Results   []ToolResult `msgpack:"r"`
	Message   MessageID    `msgpack:"i,omitempty"` // id of the message of results, where the default is taken
}

// Kind implements [Payload].
func (*ToolReturned) Kind() Kind { return KindToolReturned }

// Validate implements [Payload].
func (p *ToolReturned) Validate() error {
	calls := make([]int64, len(p.Results))
	for i := range p.Results {
		calls[i] = p.Results[i].Call
		if err := validateOutcome(p.Results[i].Outcome); err != nil {
			return err
		}
		switch p.Results[i].Control {
		case ControlNone, ControlFinish, ControlFail:
		default:
			return invalid("control", fmt.Sprintf("unknown %q", p.Results[i].Control))
		}
		if err := validateParts(p.Results[i].Attachments); err != nil {
			return err
		}
	}
	return validateCalls(calls)
}

func validateOutcome(o Outcome) error {
	switch o {
	case OutcomeSuccess, OutcomeFailure, OutcomeCancelled, OutcomeLost:
		return nil
	}
	return invalid("outcome", fmt.Sprintf("unknown %q", o))
}

// ToolLost says that non-idempotent calls were begun and their fate is unknown. They never run again.
type ToolLost struct {
	Iteration int64     `msgpack:"n"`
	Calls     []int64   `msgpack:"c"`
	Message   MessageID `msgpack:"i,omitempty"` // as in [ToolReturned]
}

// Kind implements [Payload].
func (*ToolLost) Kind() Kind { return KindToolLost }

// Validate implements [Payload].
func (p *ToolLost) Validate() error { return validateCalls(p.Calls) }
