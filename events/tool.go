package events

import (
	"bytes"
	"fmt"
	"slices"
)

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
	Availability Availability `msgpack:"a,omitempty"` // as its provider declares it
	Override     Override     `msgpack:"v,omitempty"` // as a host set it
	Orphan       bool         `msgpack:"x,omitempty"` // no source offers it now; the override waits for its return
	Serial       bool         `msgpack:"l,omitempty"` // runs alone, after the others of its reply

	Namespace string   `msgpack:"p,omitempty"` // that it is found under, with others
	Aliases   []string `msgpack:"i,omitempty"` // other words that it is found by; it is called by its name alone
	Output    []byte   `msgpack:"u,omitempty"` // JSON schema of what it returns, where that is JSON
	Examples  [][]byte `msgpack:"t,omitempty"` // arguments of calls, JSON each
}

// Limits of what a tool says about itself.
const (
	MaxAliases      = 16
	MaxExamples     = 8
	MaxExampleBytes = 4 << 10 // of each
)

// Override is a host's own choice of availability: empty for none, else one of the levels, "showcased" spelled out.
type Override string

// Overridden is the override that sets a level.
func Overridden(a Availability) Override {
	if a == AvailShowcased {
		return "showcased"
	}
	return Override(a)
}

// Level is the level that an override sets; off where it is empty.
func (o Override) Level() Availability {
	switch o {
	case "":
		return AvailOff
	case "showcased":
		return AvailShowcased
	}
	return Availability(o)
}

func (o Override) validate(field string) error {
	switch o {
	case "", Override(AvailOff), Override(AvailSearchable), Override(AvailCallable), "showcased":
		return nil
	}
	return invalid(field, fmt.Sprintf("unknown %q", o))
}

// Effective is the level that counts.
func (t *ToolEntry) Effective() Availability {
	switch {
	case t.Orphan:
		return AvailOff
	case t.Override == "":
		return t.Availability
	}
	return t.Override.Level()
}

// Rank orders levels: 0 for off to 3 for showcased.
func (a Availability) Rank() int {
	switch a {
	case AvailOff:
		return 0
	case AvailSearchable:
		return 1
	case AvailCallable:
		return 2
	case AvailShowcased:
	}
	return 3
}

// Callable reports whether the model may call the tool.
func (t *ToolEntry) Callable() bool { return t.Effective().Rank() >= AvailCallable.Rank() }

// SameOffer reports whether two entries are the same but for the overrides that hosts set.
func SameOffer(x, y ToolEntry) bool {
	return x.Name == y.Name && x.Description == y.Description && string(x.Schema) == string(y.Schema) &&
		x.Effects == y.Effects && x.Source == y.Source && x.Availability == y.Availability && x.Orphan == y.Orphan && x.Serial == y.Serial &&
		x.Namespace == y.Namespace && slices.Equal(x.Aliases, y.Aliases) && string(x.Output) == string(y.Output) &&
		slices.EqualFunc(x.Examples, y.Examples, bytes.Equal)
}

// ToolStateApplied replaces the tool catalogue.
type ToolStateApplied struct {
	Generation int64       `msgpack:"g"` // one more than before
	Tools      []ToolEntry `msgpack:"t"` // sorted by name
}

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
	if err := t.Override.validate("tools.override"); err != nil {
		return err
	}
	if t.Namespace != "" {
		if err := CheckToken("tools.namespace", t.Namespace); err != nil {
			return err
		}
	}
	if len(t.Aliases) > MaxAliases {
		return &FieldError{Field: "tools.aliases", Reason: fmt.Sprintf("are %d, limit is %d", len(t.Aliases), MaxAliases), Err: ErrTooLarge}
	}
	for _, alias := range t.Aliases {
		if alias == "" || len(alias) > MaxTokenBytes {
			return invalid("tools.aliases", fmt.Sprintf("has one of %d bytes, want 1 to %d", len(alias), MaxTokenBytes))
		}
	}
	if len(t.Examples) > MaxExamples {
		return &FieldError{Field: "tools.examples", Reason: fmt.Sprintf("are %d, limit is %d", len(t.Examples), MaxExamples), Err: ErrTooLarge}
	}
	for _, example := range t.Examples {
		if len(example) == 0 || len(example) > MaxExampleBytes {
			return invalid("tools.examples", fmt.Sprintf("has one of %d bytes, want 1 to %d", len(example), MaxExampleBytes))
		}
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

// Validate implements [Payload].
func (p *ToolCalled) Validate() error { return validateCalls(p.Iteration, p.Calls) }

func validateCalls(iteration int64, calls []int64) error {
	if iteration < 0 {
		return invalid("iteration", "is negative")
	}
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
	ControlSubmit Control = "submit" // as finish, by the code of a protocol: its value is the turn's own
	ControlSwitch Control = "switch" // the turn ends and a follow-on turn begins in a new frame, see [FrameSwitch]
)

// ToolResult is what one call came to.
type ToolResult struct {
	Call        int64       `msgpack:"c"` // position among the reply's tool calls
	Outcome     Outcome     `msgpack:"o,omitempty"`
	Text        string      `msgpack:"x,omitempty"` // what the model reads
	Blob        BlobRef     `msgpack:"b,omitempty"` // instead of Text when above the inline cap
	Class       string      `msgpack:"l,omitempty"` // of failures (host specification 6.6)
	Code        string      `msgpack:"d,omitempty"` // of failures
	Attempts    int64       `msgpack:"a,omitempty"` // tries it took; 0 means one
	Millis      int64       `msgpack:"t,omitempty"` // duration
	Attachments []Part      `msgpack:"p,omitempty"`
	Control     Control     `msgpack:"f,omitempty"` // of successful results
	Switch      FrameSwitch `msgpack:"w,omitempty"` // of ControlSwitch
	Full        string      `msgpack:"u,omitempty"` // the whole output, where a projector lets the model read another text
	FullBlob    BlobRef     `msgpack:"v,omitempty"` // instead of Full when above the inline cap
}

// ToolReturned records the results that finished together, in call order.
type ToolReturned struct {
	Iteration int64        `msgpack:"n"`
	Results   []ToolResult `msgpack:"r"`
	Message   MessageID    `msgpack:"i,omitempty"` // id of the message of results, where the default is taken
}

// Validate implements [Payload].
func (p *ToolReturned) Validate() error {
	calls := make([]int64, len(p.Results))
	for i := range p.Results {
		calls[i] = p.Results[i].Call
		if err := p.Results[i].validate(); err != nil {
			return err
		}
	}
	return validateCalls(p.Iteration, calls)
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

// Validate implements [Payload].
func (p *ToolLost) Validate() error { return validateCalls(p.Iteration, p.Calls) }
