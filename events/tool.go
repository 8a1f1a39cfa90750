package events

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Effects declares the side effects of a tool.
type Effects string

// Side effects. The zero value is the most restrictive one.
const (
	EffectsNonIdempotent Effects = ""           // runs at most once
	EffectsIdempotent    Effects = "idempotent" // may run again with the same idempotency key
	EffectsNone          Effects = "none"       // read-only
)

// Repeatable reports whether a call without a recorded result may run again.
func (e Effects) Repeatable() bool { return e == EffectsIdempotent || e == EffectsNone }

// Availability is how visible and usable a tool is, in rising order.
type Availability string

// Levels of availability. The zero value is showcased, the default of a declaration.
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
	Contract     BlobRef      `msgpack:"c,omitempty"` // the tool's [Contract], outside the log; zero where it is empty
	Effects      Effects      `msgpack:"e,omitempty"`
	Source       string       `msgpack:"o,omitempty"` // name of the provider
	Availability Availability `msgpack:"a,omitempty"` // as the provider declares it
	Override     Override     `msgpack:"v,omitempty"` // set by a host
	Orphan       bool         `msgpack:"x,omitempty"` // no source offers it now; Override is kept until a source offers it again
	Serial       bool         `msgpack:"l,omitempty"` // runs alone, after the other calls of its reply

	Namespace string   `msgpack:"p,omitempty"` // groups the tool with others in searches
	Aliases   []string `msgpack:"i,omitempty"` // more words that searches match; calls use Name only

	known *Contract // what Contract refers to, in the memory of a process that has it; nil elsewhere
}

// Contract is what calls of a tool and its results look like. Its text is a body outside the log.
type Contract struct {
	Schema   json.RawMessage   `json:"schema,omitempty"`        // JSON schema of the arguments
	Output   json.RawMessage   `json:"output_schema,omitempty"` // JSON schema of results that are JSON
	Examples []json.RawMessage `json:"examples,omitempty"`      // of arguments

	text []byte
}

// Limits of a tool's description.
const (
	MaxAliases       = 16
	MaxExamples      = 8
	MaxExampleBytes  = 4 << 10 // of each
	MaxContractBytes = 1 << 20
)

// SetContract sets what calls and results look like. Errors: an [*FieldError] for what is no JSON, or too large.
func (t *ToolEntry) SetContract(c Contract) error {
	text, err := json.Marshal(c)
	if err != nil {
		return invalid("tools.contract", err.Error())
	}
	if string(text) == "{}" {
		t.Contract, t.known = BlobRef{}, nil
		return nil
	}
	sum := sha256.Sum256(text)
	t.Contract = BlobRef{Digest: hex.EncodeToString(sum[:]), Size: int64(len(text))}
	return t.ReadContract(text)
}

// ReadContract reads the text that Contract refers to.
func (t *ToolEntry) ReadContract(text []byte) error {
	c := Contract{text: text}
	if len(text) > MaxContractBytes {
		return tooLarge("tools.contract", len(text), MaxContractBytes)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return invalid("tools.contract", err.Error())
	}
	if len(c.Examples) > MaxExamples {
		return &FieldError{Field: "tools.examples", Reason: fmt.Sprintf("are %d, limit is %d", len(c.Examples), MaxExamples), Err: ErrTooLarge}
	}
	err := errors.Join(CheckJSON("tools.schema", c.Schema), CheckJSON("tools.output", c.Output))
	for _, example := range c.Examples {
		if len(example) > MaxExampleBytes {
			err = tooLarge("tools.examples", len(example), MaxExampleBytes)
		}
		err = errors.Join(err, CheckJSON("tools.examples", example))
	}
	if err == nil {
		t.known = &c
	}
	return err
}

// Text is the contract as it is stored.
func (c *Contract) Text() []byte { return c.text }

// Look is the tool's contract where this process has it, and an empty one elsewhere.
func (t *ToolEntry) Look() *Contract {
	if t.known == nil {
		return &Contract{}
	}
	return t.known
}

// LacksContract reports whether the tool has a contract, and this process does not.
func (t *ToolEntry) LacksContract() bool { return t.known == nil && !t.Contract.IsZero() }

// ShareContract gives the tool the contract of another one, where they have the same and the other one has it here.
func (t *ToolEntry) ShareContract(with *ToolEntry) {
	if t.known == nil && t.Contract == with.Contract {
		t.known = with.known
	}
}

// Override is the availability that a host sets. Empty means none; "showcased" is spelled out.
type Override string

// Overridden is the override that sets a level.
func Overridden(a Availability) Override {
	if a == AvailShowcased {
		return "showcased"
	}
	return Override(a)
}

// Level is the level that an override sets. For an empty override it is off.
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

// Effective is the level after override.
func (t *ToolEntry) Effective() Availability {
	switch {
	case t.Orphan:
		return AvailOff
	case t.Override == "":
		return t.Availability
	}
	return t.Override.Level()
}

// Rank orders levels from 0 for off to 3 for showcased.
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

// SameOffer reports whether two entries are equal except for their overrides.
func SameOffer(x, y ToolEntry) bool { return sameOffer(&x, &y) }

// Equal reports whether two entries are equal.
func (t *ToolEntry) Equal(other *ToolEntry) bool {
	return t.Override == other.Override && sameOffer(t, other)
}

func sameOffer(x, y *ToolEntry) bool {
	return x.Name == y.Name && x.Description == y.Description && x.Contract == y.Contract &&
		x.Effects == y.Effects && x.Source == y.Source && x.Availability == y.Availability && x.Orphan == y.Orphan && x.Serial == y.Serial &&
		x.Namespace == y.Namespace && slices.Equal(x.Aliases, y.Aliases)
}

// ToolStateApplied replaces the tool catalogue.
type ToolStateApplied struct {
	Generation int64       `msgpack:"g"`           // previous generation + 1
	Tools      []ToolEntry `msgpack:"t"`           // sorted by name
	Continues  bool        `msgpack:"c,omitempty"` // Tools follow those of the event before, of the same generation
}

// catalogBytes is what the tools of one event may have, below its limit, and entryBytes what one has beside its texts.
const (
	catalogBytes = MaxEventBytes - 32<<10
	entryBytes   = 128
)

// Parts are the event, or several where one does not hold its tools.
func (p *ToolStateApplied) Parts() (list []Payload) {
	first, bytes := 0, 0
	for i := range p.Tools {
		t := &p.Tools[i]
		size := entryBytes + len(t.Name) + len(t.Description) + len(t.Contract.Digest) + len(t.Source) + len(t.Namespace) + len(t.Aliases)*MaxTokenBytes
		if bytes += size; bytes > catalogBytes && i > first {
			list = append(list, &ToolStateApplied{Generation: p.Generation, Tools: p.Tools[first:i:i], Continues: first > 0})
			first, bytes = i, size
		}
	}
	return append(list, &ToolStateApplied{Generation: p.Generation, Tools: p.Tools[first:], Continues: first > 0})
}

// Validate implements [Payload].
func (p *ToolStateApplied) Validate() error {
	for i := range p.Tools {
		t := &p.Tools[i]
		if err := checkID("tools.name", t.Name, true); err != nil {
			return err
		}
		if i > 0 && p.Tools[i-1].Name >= t.Name {
			return invalid("tools", fmt.Sprintf("%q is out of order or occurs twice", t.Name))
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
	if !t.Contract.IsZero() {
		if err := t.Contract.Validate("tools.contract"); err != nil {
			return err
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

// ToolCalled is recorded before the start of a group of calls that contains non-idempotent ones.
type ToolCalled struct {
	Iteration int64   `msgpack:"n"`
	Calls     []int64 `msgpack:"c"` // indices of the non-idempotent calls among the reply's tool calls, ascending
	// Holders are the instances of plugins that have the calls, one for each of Calls; empty for a call that runs in
	// the worker's process. Empty if all do.
	Holders []string `msgpack:"h,omitempty"`
	// Terms are those of the programs that are these instances, one for each of Holders; empty for one whose term is not known.
	// A later program with the id of an instance has another term. Empty if none is known.
	Terms []string `msgpack:"t,omitempty"`
	// Attempt is the number of a further attempt of calls that have begun, and that their tools show not to have run; 0 for the
	// first one.
	Attempt int64 `msgpack:"a,omitempty"`
}

// Validate implements [Payload].
func (p *ToolCalled) Validate() error {
	if err := validateCalls(p.Iteration, p.Calls); err != nil {
		return err
	}
	if len(p.Holders) > 0 && len(p.Holders) != len(p.Calls) {
		return invalid("holders", fmt.Sprintf("are %d of %d calls", len(p.Holders), len(p.Calls)))
	}
	if len(p.Terms) > 0 && len(p.Terms) != len(p.Holders) {
		return invalid("terms", fmt.Sprintf("are %d of %d holders", len(p.Terms), len(p.Holders)))
	}
	for i, term := range p.Terms {
		if term != "" && p.Holders[i] == "" {
			return invalid("terms", fmt.Sprintf("that at %d is of no holder", i))
		}
	}
	return errors.Join(validateTokens("holders", p.Holders), validateTokens("terms", p.Terms))
}

// validateTokens checks those of a list that are not empty.
func validateTokens(field string, list []string) error {
	for _, token := range list {
		if token == "" {
			continue
		}
		if err := CheckToken(field, token); err != nil {
			return err
		}
	}
	return nil
}

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

// Control is the effect of a successful result on the turn.
type Control string

// Values of Control. The zero value lets the turn continue.
const (
	ControlNone   Control = ""
	ControlFinish Control = "finish" // the turn ends with the result's text as its value
	ControlFail   Control = "fail"   // the turn stops with the result's text as its error
	ControlSubmit Control = "submit" // as finish, from a protocol's code
	ControlSwitch Control = "switch" // the turn ends, and a follow-on turn starts in a new frame, see [FrameSwitch]
)

// ToolResult is the result of one call.
type ToolResult struct {
	Call        int64       `msgpack:"c"` // index among the reply's tool calls
	Outcome     Outcome     `msgpack:"o,omitempty"`
	Text        string      `msgpack:"x,omitempty"` // text for the model
	Blob        BlobRef     `msgpack:"b,omitempty"` // replaces Text above the inline limit
	Class       string      `msgpack:"l,omitempty"` // of a failure: its class, as package plugin lists them
	Code        string      `msgpack:"d,omitempty"` // of a failure
	Attempts    int64       `msgpack:"a,omitempty"` // number of attempts; 0 means one
	Millis      int64       `msgpack:"t,omitempty"` // duration
	Attachments []Part      `msgpack:"p,omitempty"` // for the model
	Unseen      []Part      `msgpack:"h,omitempty"` // attachments of the tool that a projector keeps from the model
	Control     Control     `msgpack:"f,omitempty"` // of a success
	Switch      FrameSwitch `msgpack:"w,omitempty"` // for ControlSwitch
	Full        string      `msgpack:"u,omitempty"` // the whole output, if a projector gives the model another text
	FullBlob    BlobRef     `msgpack:"v,omitempty"` // replaces Full above the inline limit
}

// ToolReturned records the results of calls that finished together, in call order.
type ToolReturned struct {
	Iteration int64        `msgpack:"n"`
	Results   []ToolResult `msgpack:"r"`
	Message   MessageID    `msgpack:"i,omitempty"` // id of the message of results; empty takes the default
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

// ToolLost records that non-idempotent calls started and that their outcome is unknown. They never run again.
type ToolLost struct {
	Iteration int64     `msgpack:"n"`
	Calls     []int64   `msgpack:"c"`
	Message   MessageID `msgpack:"i,omitempty"` // as in [ToolReturned]
}

// Validate implements [Payload].
func (p *ToolLost) Validate() error { return validateCalls(p.Iteration, p.Calls) }
