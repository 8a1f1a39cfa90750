package events

import "fmt"

// Boundary is the earliest point of a turn at which an injected input may enter.
type Boundary string

// Boundaries. The zero value is the earlier one and admits both points.
const (
	BoundaryAfterWork        Boundary = ""
	BoundaryBeforeCompletion Boundary = "before_completion"
)

// CheckpointKind names a point of a turn.
type CheckpointKind string

// Points of a turn: its start, the two checkpoints, and its end.
const (
	AtStart            CheckpointKind = "start"
	AtAfterWork        CheckpointKind = "after_work"
	AtBeforeCompletion CheckpointKind = "before_completion"
	AtEnd              CheckpointKind = "end" // only after_turn hooks remain; no input enters here
)

// InputInjected queues a message for the next checkpoint or turn.
type InputInjected struct {
	Input    InputID  `msgpack:"i"`
	Role     Role     `msgpack:"r"` // user or system
	Parts    []Part   `msgpack:"p"`
	Boundary Boundary `msgpack:"b,omitempty"`
	Caller   string   `msgpack:"c,omitempty"` // authenticated caller that injected it
}

// Validate implements [Payload].
func (p *InputInjected) Validate() error {
	if err := CheckToken("input", p.Input); err != nil {
		return err
	}
	if p.Role != RoleUser && p.Role != RoleSystem {
		return invalid("role", fmt.Sprintf("%q cannot be injected, want user or system", p.Role))
	}
	if p.Boundary != BoundaryAfterWork && p.Boundary != BoundaryBeforeCompletion {
		return invalid("boundary", fmt.Sprintf("unknown %q", p.Boundary))
	}
	if p.Caller != "" {
		if err := CheckToken("caller", p.Caller); err != nil {
			return err
		}
	}
	return validateParts(p.Parts)
}

// InputAccepted moves pending inputs into the conversation, in the order of their injection.
type InputAccepted struct {
	Inputs []InputID      `msgpack:"i"`
	At     CheckpointKind `msgpack:"a"`
}

// Validate implements [Payload].
func (p *InputAccepted) Validate() error {
	switch p.At {
	case AtStart, AtAfterWork, AtBeforeCompletion:
	default:
		return invalid("at", fmt.Sprintf("unknown %q", p.At))
	}
	return validateInputs(p.Inputs)
}

func validateInputs(inputs []InputID) error {
	if len(inputs) == 0 {
		return invalid("inputs", "is empty")
	}
	for _, id := range inputs {
		if err := CheckToken("inputs", id); err != nil {
			return err
		}
	}
	return nil
}

// InputCancelled removes pending inputs.
type InputCancelled struct {
	Inputs []InputID `msgpack:"i"`
}

// Validate implements [Payload].
func (p *InputCancelled) Validate() error { return validateInputs(p.Inputs) }
