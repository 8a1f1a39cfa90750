package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// externalPluginsJSON are the plugins that run as programs of their own.
type externalPluginsJSON struct {
	Plugins []api.ExternalPlugin `json:"plugins" jsonschema:"in the order of the operator's file"`
}

// actionsJSON are the actions of a session's plugins.
type actionsJSON struct {
	Actions []actionJSON `json:"actions" jsonschema:"by name"`
}

// actionJSON is an action of a plugin.
type actionJSON struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Kind        string              `json:"kind,omitempty" jsonschema:"query, command or another word, for display"`
	Session     plugin.SessionParam `json:"session"`
	Needs       api.Right           `json:"needs" jsonschema:"right that its caller needs"`
	Input       json.RawMessage     `json:"input,omitempty" jsonschema:"JSON schema of its arguments"`
	Output      json.RawMessage     `json:"output,omitempty" jsonschema:"JSON schema of its result"`
}

// actionResultJSON is the outcome of an action.
type actionResultJSON struct {
	Text        string           `json:"text"`
	Outcome     givenOutcomeJSON `json:"outcome"`
	Class       string           `json:"class,omitempty" jsonschema:"class of a failure"`
	Code        string           `json:"code,omitempty" jsonschema:"code of a failure"`
	Pending     bool             `json:"pending,omitempty" jsonschema:"true: the result comes later"`
	Attachments []partJSON       `json:"attachments,omitempty"`
}
