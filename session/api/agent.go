package api

import "github.com/lash-go/lash/events"

// AgentState is the state of an agent, and its last answer.
type AgentState struct {
	Agent      events.SessionID `json:"agent"`
	Capability string           `json:"capability,omitempty"`
	State      events.TaskState `json:"state"`             // running or waiting
	Outcome    events.TurnEnd   `json:"outcome,omitempty"` // empty if the turn finished by itself
	Answer     string           `json:"answer,omitempty"`
	Usage      *TokenUsage      `json:"usage,omitempty"` // of the turn
}
