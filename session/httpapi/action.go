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

// invocationJSON invokes an action.
type invocationJSON struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
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

func externalPlugins(list []api.ExternalPlugin) externalPluginsJSON {
	return externalPluginsJSON{Plugins: list}
}

func actions(list []plugin.ActionDef) actionsJSON {
	out := actionsJSON{Actions: make([]actionJSON, len(list))}
	for i, a := range list {
		out.Actions[i] = actionJSON{Name: a.Name, Description: a.Description, Kind: a.Kind, Session: a.Session, Needs: a.Needs, Input: a.Input, Output: a.Output}
	}
	return out
}

func (in invocationJSON) args(*httpRequest) (api.ActionArgs, error) {
	return api.ActionArgs{Name: in.Name, Args: in.Args}, nil
}

func actionResult(got plugin.Result) actionResultJSON {
	return actionResultJSON{
		Text: got.Text, Outcome: givenOutcomeJSON(outcome(got.Outcome)), Class: got.Class, Code: got.Code, Pending: got.Pending, Attachments: parts(got.Attachments),
	}
}
