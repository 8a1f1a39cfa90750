package httpbody

import (
	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
)

// NewSession opens a session.
type NewSession struct {
	ID       events.SessionID  `json:"id,omitempty"`
	Config   SessionConfig     `json:"config,omitzero"`
	Parent   events.SessionID  `json:"parent,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Nodes    []GivenNode       `json:"nodes,omitempty"`
	Options  map[string]string `json:"options,omitempty"`
	Access   ToolAccess        `json:"access,omitzero"`
	Start    api.Start         `json:"start,omitempty"`
	From     events.SessionID  `json:"from,omitempty"`
	Snapshot *Snapshot         `json:"snapshot,omitempty"`
	Relation events.Relation   `json:"relation,omitempty"`
	Plugins  api.PluginSource  `json:"plugins,omitempty"`
	First    *GivenMessage     `json:"first,omitempty"`
	Subagent Subagent          `json:"subagent,omitzero"`
	Usage    string            `json:"usage,omitempty"`
	Overlay  NewOverlay        `json:"overlay,omitzero"`
}

// NewOverlay names the overlay of a new session.
type NewOverlay struct {
	Tools         []OverlayTool  `json:"tools,omitempty"`
	Contributions []Contribution `json:"contributions,omitempty"`
	WithoutBase   bool           `json:"without_base,omitempty"`
}

// OverlayTool names a tool that a plugin reserves for overlays.
type OverlayTool struct {
	Source string `json:"source,omitempty"`
	Name   string `json:"name"`
}

// Snapshot is a session's state in the form that clients store.
type Snapshot struct {
	Head     []byte   `json:"head"`
	Segments [][]byte `json:"segments,omitempty"`
}

// Subagent restricts a session that is the agent of another one.
type Subagent struct {
	Capability string `json:"capability"`
	Depth      int64  `json:"depth"`
	MaxDepth   int64  `json:"max_depth"`
}

// ToolAccess restricts the tools of a session.
type ToolAccess struct {
	Tools  []string `json:"tools,omitempty"`
	Hidden []string `json:"hidden,omitempty"`
}

// Grant is a caller's rights in a session of another owner.
type Grant struct {
	Rights []events.SessionRight `json:"rights"`
}

// Made is the id of a created resource.
type Made struct {
	ID string `json:"id"`
}

// ConfigChange changes a configuration; absent fields do not change.
type ConfigChange struct {
	Provider        *string        `json:"provider,omitempty"`
	Model           *string        `json:"model,omitempty"`
	Effort          *string        `json:"effort,omitempty"`
	MaxOutputTokens *int64         `json:"max_output_tokens,omitempty"`
	ContextWindow   *int64         `json:"context_window,omitempty"`
	MaxIterations   *int64         `json:"max_iterations,omitempty"`
	SilenceMillis   *int64         `json:"silence_ms,omitempty"`
	Protocol        *string        `json:"protocol,omitempty"`
	Environment     *string        `json:"environment,omitempty"`
	Instructions    *string        `json:"instructions,omitempty"`
	Sampling        *Sampling      `json:"sampling,omitempty"`
	Layers          *[]PromptLayer `json:"layers,omitempty"`
	Fallbacks       *[]Fallback    `json:"fallbacks,omitempty"`
}
