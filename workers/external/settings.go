package external

import "github.com/lash-go/lash/events"

// Plugin is what the operator says about a plugin.
type Plugin struct {
	Name string `json:"name"` // a token
	// Effects tighten what the plugin declares, by tool: a tool that is repeatable by its manifest runs at most once
	// with "non_idempotent".
	Effects map[string]events.Effects `json:"effects,omitempty"`
	// Callbacks are the names of the operations that the plugin's calls may request. Defaults to none.
	Callbacks []string `json:"callbacks,omitempty"`
	// Manifests are the hashes of the manifests that may register. Defaults to any.
	Manifests []string `json:"manifests,omitempty"`
}
