package httpbody

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
)

// Standing is a session's settings and plugin states: the inputs of turns, except the conversation.
type Standing struct {
	Tools         Tools           `json:"tools"`
	Access        ToolAccess      `json:"access,omitzero"`
	ToolSources   []string        `json:"tool_sources,omitempty"`
	Overlay       *Overlay        `json:"overlay,omitempty"`
	Contributions []Contribution  `json:"contributions,omitempty"`
	Options       json.RawMessage `json:"options,omitempty"`
	Extensions    []Extension     `json:"extensions,omitempty"`
	Execution     []byte          `json:"execution,omitempty"`
	ExecutionBlob *Blob           `json:"execution_blob,omitempty"`
	PluginOptions []PluginOptions `json:"plugin_options,omitempty"`
	Plugins       []PluginState   `json:"plugins,omitempty"`
}

// Overlay is the tools and contributions on top of a session's own.
type Overlay struct {
	Tools         []Tool         `json:"tools"`
	Contributions []Contribution `json:"contributions,omitempty"`
	WithoutBase   bool           `json:"without_base,omitempty"`
}

// Contribution is a part of the system prompt.
type Contribution struct {
	Slot     events.Slot     `json:"slot"`
	Title    string          `json:"title,omitempty"`
	Priority int64           `json:"priority,omitempty"`
	Tools    []string        `json:"tools,omitempty"`
	Minimum  events.Override `json:"minimum,omitempty"`
	Content  string          `json:"content"`
}

// PluginOptions are a plugin's options from the creation of the session.
type PluginOptions struct {
	Plugin  string          `json:"plugin"`
	Options json.RawMessage `json:"options"`
}

// PluginState is the last saved state of a plugin.
type PluginState struct {
	Plugin    string           `json:"plugin"`
	Version   string           `json:"version,omitempty"`
	Revision  uint64           `json:"revision"`
	State     json.RawMessage  `json:"state,omitempty"`
	Blob      *Blob            `json:"blob,omitempty"`
	Artifacts []PluginArtifact `json:"artifacts,omitempty"`
}

// PluginArtifact is a body that a plugin saved with its state.
type PluginArtifact struct {
	Name string `json:"name"`
	Data []byte `json:"data,omitempty"`
	Blob *Blob  `json:"blob,omitempty"`
}
