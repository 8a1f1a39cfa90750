package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Approvals are the approval requests without an answer.
type Approvals struct {
	Approvals []PendingApproval `json:"approvals"`
}

// Answer is the answer to an approval request. The first answer counts.
type Answer struct {
	Call    events.EffectID `json:"call"`
	Granted *bool           `json:"granted"`
	Reason  string          `json:"reason,omitempty"`
}

// CallResult is the result of a pending call, from outside the turn. The first result counts.
type CallResult struct {
	Call    events.EffectID `json:"call"`
	Text    string          `json:"text"`
	Outcome GivenOutcome    `json:"outcome,omitempty"`
	Class   string          `json:"class,omitempty"`
	Code    string          `json:"code,omitempty"`
}

// CallOutput is the full output of a call that has returned.
type CallOutput struct {
	Call   events.EffectID `json:"call"`
	Output string          `json:"output"`
}

// Tools are the tools of a session.
type Tools struct {
	Generation int64  `json:"generation"`
	Tools      []Tool `json:"tools"`
}

// Tool is one tool.
type Tool struct {
	Name         string            `json:"name"`
	Description  string            `json:"description,omitempty"`
	Schema       json.RawMessage   `json:"schema,omitempty"`
	Contract     *Blob             `json:"contract,omitempty"`
	Effects      Effects           `json:"effects"`
	Source       string            `json:"source,omitempty"`
	Availability Level             `json:"availability"`
	Override     events.Override   `json:"override,omitempty"`
	Orphan       bool              `json:"orphan,omitempty"`
	Serial       bool              `json:"serial,omitempty"`
	Namespace    string            `json:"namespace,omitempty"`
	Aliases      []string          `json:"aliases,omitempty"`
	Output       json.RawMessage   `json:"output_schema,omitempty"`
	Examples     []json.RawMessage `json:"examples,omitempty"`
}

// ToolSources are the tool sources of a session, and those that it can add.
type ToolSources struct {
	Sources []ToolSource `json:"sources"`
}

// ToolSource is a source of tools, in addition to those of the session's plugins.
type ToolSource struct {
	Name  string `json:"name"`
	Added bool   `json:"added,omitempty"`
	Known bool   `json:"known,omitempty"`
}

// ToolLevel overrides the level of tools, all or none.
type ToolLevel struct {
	Names []string        `json:"names"`
	Level events.Override `json:"level"`
}

// Generation is the new generation of the tools.
type Generation struct {
	Generation int64 `json:"generation"`
}
