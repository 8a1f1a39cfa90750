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

// standingJSON is a session's settings and plugin states: the inputs of turns, except the conversation.
type standingJSON struct {
	Tools         toolsJSON          `json:"tools" jsonschema:"the session's own tools, with their overrides"`
	Access        toolAccessJSON     `json:"access,omitzero"`
	ToolSources   []string           `json:"tool_sources,omitempty" jsonschema:"sources added to the tools of its plugins, in order"`
	Overlay       *overlayJSON       `json:"overlay,omitempty" jsonschema:"tools and contributions over the session's own; omitted: none"`
	Contributions []contributionJSON `json:"contributions,omitempty" jsonschema:"contributions of plugins to prompts"`

	Options       json.RawMessage `json:"options,omitempty" jsonschema:"options of the protocol in the current frame"`
	Extensions    []extensionJSON `json:"extensions,omitempty" jsonschema:"extensions of the protocol, in order"`
	Execution     []byte          `json:"execution,omitempty" jsonschema:"base64: state of the protocol's code executor in the current frame"`
	ExecutionBlob *blobJSON       `json:"execution_blob,omitempty" jsonschema:"in place of execution, if that is large"`

	PluginOptions []pluginOptionsJSON `json:"plugin_options,omitempty" jsonschema:"options that the session was created with, by plugin id"`
	Plugins       []pluginStateJSON   `json:"plugins,omitempty" jsonschema:"saved states, by plugin id"`
}

// overlayJSON is the tools and contributions on top of a session's own.
type overlayJSON struct {
	Tools         []toolJSON         `json:"tools" jsonschema:"each replaces the session's own tool of its name"`
	Contributions []contributionJSON `json:"contributions,omitempty" jsonschema:"contributions to the prompt of every turn"`
	WithoutBase   bool               `json:"without_base,omitempty" jsonschema:"true: the session's own tools are not offered"`
}

// contributionJSON is a part of the system prompt.
type contributionJSON struct {
	Slot     events.Slot     `json:"slot"`
	Title    string          `json:"title,omitempty"`
	Priority int64           `json:"priority,omitempty" jsonschema:"lower ones come first"`
	Tools    []string        `json:"tools,omitempty" jsonschema:"names of tools: shown only if one of them is offered; omitted: always shown"`
	Minimum  events.Override `json:"minimum,omitempty" jsonschema:"lowest availability of such a tool; omitted or off: the tool exists"`
	Content  string          `json:"content"`
}

// pluginOptionsJSON are a plugin's options from the creation of the session.
type pluginOptionsJSON struct {
	Plugin  string          `json:"plugin"`
	Options json.RawMessage `json:"options"`
}

// pluginStateJSON is the last saved state of a plugin.
type pluginStateJSON struct {
	Plugin    string               `json:"plugin"`
	Version   string               `json:"version,omitempty" jsonschema:"version of the plugin"`
	Revision  uint64               `json:"revision"`
	State     json.RawMessage      `json:"state,omitempty"`
	Blob      *blobJSON            `json:"blob,omitempty" jsonschema:"in place of a large state"`
	Artifacts []pluginArtifactJSON `json:"artifacts,omitempty"`
}

// pluginArtifactJSON is a body that a plugin saved with its state.
type pluginArtifactJSON struct {
	Name string    `json:"name"`
	Data []byte    `json:"data,omitempty"`
	Blob *blobJSON `json:"blob,omitempty" jsonschema:"in place of large data"`
}

func standingOf(v *projector.ReadView) standingJSON {
	s := &v.Standing
	out := standingJSON{
		Tools: tools(api.ToolState{Generation: s.Catalog.Generation, Tools: s.Catalog.Tools}), Access: toolAccessJSON(s.Access), ToolSources: s.ToolSources, Contributions: contributions(s.Contributions),
		Execution: v.Frame.State, ExecutionBlob: blob(v.Frame.Blob),
	}
	if o := s.Overlay; !o.IsZero() {
		out.Overlay = &overlayJSON{Tools: tools(api.ToolState{Tools: o.Tools}).Tools, Contributions: contributions(o.Contributions), WithoutBase: o.WithoutBase}
	}
	if len(v.Frame.Options) > 0 {
		out.Options = eventjson.Raw(v.Frame.Options)
	}
	for _, e := range s.Extensions {
		shown := extensionJSON{Type: e.Type}
		if len(e.Body) > 0 {
			shown.Body = eventjson.Raw(e.Body)
		}
		out.Extensions = append(out.Extensions, shown)
	}
	for _, name := range slices.Sorted(maps.Keys(s.PluginOptions)) {
		out.PluginOptions = append(out.PluginOptions, pluginOptionsJSON{name, eventjson.Raw([]byte(s.PluginOptions[name]))})
	}
	for i := range s.Plugins {
		out.Plugins = append(out.Plugins, pluginStateOf(&s.Plugins[i]))
	}
	return out
}

func pluginStateOf(p *projector.PluginState) pluginStateJSON {
	out := pluginStateJSON{Plugin: p.Plugin, Version: p.Version, Revision: p.Revision, Blob: blob(p.Blob)}
	if len(p.State) > 0 {
		out.State = eventjson.Raw(p.State)
	}
	for _, a := range p.Artifacts {
		out.Artifacts = append(out.Artifacts, pluginArtifactJSON{a.Name, a.Data, blob(a.Blob)})
	}
	return out
}

func contributions(list []events.Contribution) []contributionJSON {
	var out []contributionJSON
	for _, c := range list {
		out = append(out, contributionJSON(c))
	}
	return out
}
