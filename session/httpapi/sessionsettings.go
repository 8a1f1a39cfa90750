package httpapi

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/projector"
)

// standingJSON is a session's settings and plugin states: the inputs of turns, except the conversation.
type standingJSON struct {
	Tools         toolsJSON          `json:"tools" from:"Standing.Catalog" jsonschema:"the session's own tools, with their overrides"`
	Access        toolAccessJSON     `json:"access,omitzero" from:"Standing.Access"`
	ToolSources   []string           `json:"tool_sources,omitempty" from:"Standing.ToolSources" jsonschema:"sources added to the tools of its plugins, in order"`
	Overlay       *overlayJSON       `json:"overlay,omitempty" from:"Standing.Overlay" jsonschema:"tools and contributions over the session's own; omitted: none"`
	Contributions []contributionJSON `json:"contributions,omitempty" from:"Standing.Contributions" jsonschema:"contributions of plugins to prompts"`

	Options       json.RawMessage `json:"options,omitempty" from:"Frame.Options" jsonschema:"options of the protocol in the current frame"`
	Extensions    []extensionJSON `json:"extensions,omitempty" from:"Standing.Extensions" jsonschema:"extensions of the protocol, in order"`
	Execution     []byte          `json:"execution,omitempty" from:"Frame.State" jsonschema:"base64: state of the protocol's code executor in the current frame"`
	ExecutionBlob *blobJSON       `json:"execution_blob,omitempty" from:"Frame.Blob" jsonschema:"in place of execution, if that is large"`

	PluginOptions []pluginOptionsJSON `json:"plugin_options,omitempty" from:"-" jsonschema:"options that the session was created with, by plugin id"`
	Plugins       []pluginStateJSON   `json:"plugins,omitempty" from:"Standing.Plugins" jsonschema:"saved states, by plugin id"`
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

func (out *standingJSON) adjust(from any) {
	options := from.(*projector.ReadView).Standing.PluginOptions
	for _, name := range slices.Sorted(maps.Keys(options)) {
		out.PluginOptions = append(out.PluginOptions, pluginOptionsJSON{name, eventjson.Raw([]byte(options[name]))})
	}
}
