package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// NewTurn requests a turn: with a text or parts as input, or without new input.
type NewTurn struct {
	ID         events.TurnID     `json:"id,omitempty"`
	Text       string            `json:"text,omitempty"`
	Parts      []GivenPart       `json:"parts,omitempty"`
	Continue   bool              `json:"continue,omitempty"`
	WhenBusy   api.WhenBusy      `json:"when_busy,omitempty"`
	At         events.Millis     `json:"at_ms,omitempty"`
	Options    json.RawMessage   `json:"options,omitempty"`
	Plugins    map[string]string `json:"plugins,omitempty"`
	Extension  Extension         `json:"extension,omitzero"`
	Generation TurnGeneration    `json:"generation,omitzero"`
	Output     AnswerForm        `json:"output,omitzero"`
	Layers     []PromptLayer     `json:"layers,omitempty"`
}

// PendingTurn is a turn that has not ended.
type PendingTurn struct {
	Turn   events.TurnID      `json:"turn"`
	Status PendingStatus      `json:"status"`
	Asks   []events.SessionID `json:"asks,omitempty"`
}

// CancelTurn requests that a turn stops.
type CancelTurn struct {
	ID     string `json:"id,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Cancelled is the outcome of a cancel.
type Cancelled struct {
	Receipt api.CancelReceipt `json:"receipt"`
	ID      string            `json:"id,omitempty"`
	Origin  string            `json:"origin,omitempty"`
	Reason  string            `json:"reason,omitempty"`
}

// NewInput is a message for the running turn, or the next one.
type NewInput struct {
	ID       events.InputID  `json:"id,omitempty"`
	Role     events.Role     `json:"role,omitempty"`
	Text     string          `json:"text,omitempty"`
	Parts    []GivenPart     `json:"parts,omitempty"`
	Boundary events.Boundary `json:"boundary,omitempty"`
}

// CancelledInput is the outcome of a cancel of an input.
type CancelledInput struct {
	Receipt   api.InputReceipt `json:"receipt"`
	Cancelled []events.InputID `json:"cancelled"`
}
