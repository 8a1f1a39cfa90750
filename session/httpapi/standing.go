package httpapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
	"github.com/lash-go/lash/session/api"
)

// Standing is a session's settings and plugin states: the inputs of turns, except the conversation.
type Standing struct {
	Tools         Tools          `json:"tools" jsonschema:"the session's own, with their overrides"`
	Access        ToolAccess     `json:"access,omitzero"`
	ToolSources   []string       `json:"tool_sources,omitempty" jsonschema:"that were added to its plugins' tools, in that order"`
	Overlay       *Overlay       `json:"overlay,omitempty" jsonschema:"over the session's own tools; left out: none"`
	Contributions []Contribution `json:"contributions,omitempty" jsonschema:"of plugins to the prompts of turns"`

	Options       json.RawMessage `json:"options,omitempty" jsonschema:"of the protocol in the current frame"`
	Extensions    []Extension     `json:"extensions,omitempty" jsonschema:"that the protocol is handed, in order"`
	Execution     []byte          `json:"execution,omitempty" jsonschema:"state of the protocol's code executor in the current frame"`
	ExecutionBlob *Blob           `json:"execution_blob,omitempty" jsonschema:"instead of a large one"`

	PluginOptions []PluginOptions `json:"plugin_options,omitempty" jsonschema:"by plugin"`
	Plugins       []PluginState   `json:"plugins,omitempty" jsonschema:"what plugins have saved, by plugin"`
}

// Overlay is the tools and contributions on top of a session's own.
type Overlay struct {
	Tools         []Tool         `json:"tools" jsonschema:"in place of the session's own of that name"`
	Contributions []Contribution `json:"contributions,omitempty" jsonschema:"to the prompt of every turn"`
	WithoutBase   bool           `json:"without_base,omitempty" jsonschema:"the session's own tools are not offered"`
}

// Contribution is a part of the system prompt.
type Contribution struct {
	Slot     events.Slot     `json:"slot"`
	Title    string          `json:"title,omitempty"`
	Priority int64           `json:"priority,omitempty" jsonschema:"lower ones come first"`
	Tools    []string        `json:"tools,omitempty" jsonschema:"shown only where one of these is offered; left out: always"`
	Minimum  events.Override `json:"minimum,omitempty" jsonschema:"how far it must be offered"`
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
	Version   string           `json:"version,omitempty" jsonschema:"of the plugin"`
	Revision  uint64           `json:"revision"`
	State     json.RawMessage  `json:"state,omitempty"`
	Blob      *Blob            `json:"blob,omitempty" jsonschema:"instead of a large state"`
	Artifacts []PluginArtifact `json:"artifacts,omitempty"`
}

// PluginArtifact is a body that a plugin saved with its state.
type PluginArtifact struct {
	Name string `json:"name"`
	Data []byte `json:"data,omitempty"`
	Blob *Blob  `json:"blob,omitempty" jsonschema:"instead of large data"`
}

func standingOf(v *projector.ReadView) Standing {
	s := &v.Standing
	out := Standing{
		Tools: tools(api.ToolState{Generation: s.Catalog.Generation, Tools: s.Catalog.Tools}), Access: ToolAccess(s.Access), ToolSources: s.ToolSources, Contributions: contributions(s.Contributions),
		Execution: v.Frame.State, ExecutionBlob: blob(v.Frame.Blob),
	}
	if o := s.Overlay; !o.IsZero() {
		out.Overlay = &Overlay{Tools: tools(api.ToolState{Tools: o.Tools}).Tools, Contributions: contributions(o.Contributions), WithoutBase: o.WithoutBase}
	}
	if len(v.Frame.Options) > 0 {
		out.Options = eventjson.Raw(v.Frame.Options)
	}
	for _, e := range s.Extensions {
		shown := Extension{Type: e.Type}
		if len(e.Body) > 0 {
			shown.Body = eventjson.Raw(e.Body)
		}
		out.Extensions = append(out.Extensions, shown)
	}
	for _, name := range slices.Sorted(maps.Keys(s.PluginOptions)) {
		out.PluginOptions = append(out.PluginOptions, PluginOptions{name, eventjson.Raw([]byte(s.PluginOptions[name]))})
	}
	for i := range s.Plugins {
		out.Plugins = append(out.Plugins, pluginStateOf(&s.Plugins[i]))
	}
	return out
}

func pluginStateOf(p *projector.PluginState) PluginState {
	out := PluginState{Plugin: p.Plugin, Version: p.Version, Revision: p.Revision, Blob: blob(p.Blob)}
	if len(p.State) > 0 {
		out.State = eventjson.Raw(p.State)
	}
	for _, a := range p.Artifacts {
		out.Artifacts = append(out.Artifacts, PluginArtifact{a.Name, a.Data, blob(a.Blob)})
	}
	return out
}

func contributions(list []events.Contribution) []Contribution {
	var out []Contribution
	for _, c := range list {
		out = append(out, Contribution(c))
	}
	return out
}
