package httpapi

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/operation"
	"github.com/lash-go/lash/session/plugin"
)

// rewrittenJSON is the new list of messages of the history.
type rewrittenJSON struct {
	Messages []rewrittenMessageJSON `json:"messages" jsonschema:"messages with the ids that the active branch starts with do not change"`
}

// rewrittenMessageJSON is a message of a rewritten history.
type rewrittenMessageJSON struct {
	ID        events.MessageID `json:"id,omitempty"`
	Role      events.Role      `json:"role"`
	Parts     []givenPartJSON  `json:"parts"`
	Transient bool             `json:"transient,omitempty" jsonschema:"true: never stored"`
}

// firstInputJSON is the first turn's input.
type firstInputJSON struct {
	Message *messageJSON `json:"message,omitempty" jsonschema:"omitted: there is none, or another request took it"`
}

// protocolOptionsJSON are the protocol's durable options for turns.
type protocolOptionsJSON struct {
	Options   json.RawMessage `json:"options"`
	AllFrames bool            `json:"all_frames,omitempty" jsonschema:"true: for all frames; else for the current one"`
}

// extensionJSON is an extension of a session's or a turn's protocol.
type extensionJSON struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// extensionsJSON are the session's extensions, in the order in which its protocol receives them.
type extensionsJSON struct {
	Extensions []extensionJSON `json:"extensions"`
}

// toolCatalogJSON is the list of searchable tools.
type toolCatalogJSON struct {
	Tools []json.RawMessage `json:"tools" jsonschema:"tools with availability searchable or more, as JSON objects"`
}

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

func (e extensionJSON) extension() events.Extension {
	return events.Extension{Type: e.Type, Body: e.Body}
}

// entry is the inverse of [toolOf].
func (t *toolJSON) entry() (events.ToolEntry, error) {
	e := events.ToolEntry{
		Name: t.Name, Description: t.Description, Schema: t.Schema, Effects: events.Effects(t.Effects), Source: t.Source,
		Availability: events.Override(t.Availability).Level(), Override: t.Override, Orphan: t.Orphan, Serial: t.Serial,
		Namespace: t.Namespace, Aliases: t.Aliases, Output: t.Output,
	}
	for _, example := range t.Examples {
		e.Examples = append(e.Examples, example)
	}
	if t.Effects == "non_idempotent" {
		e.Effects = events.EffectsNonIdempotent
	}
	if levelJSON(events.Overridden(e.Availability)) != t.Availability {
		return e, invalidBody("availability is none of off, searchable, callable and showcased")
	}
	return e, nil
}

// newCompletionJSON requests a direct completion of the session's model.
type newCompletionJSON struct {
	Source     string             `json:"source,omitempty" jsonschema:"source of this usage in the session's usage ledger; defaults to client"`
	Model      string             `json:"model,omitempty" jsonschema:"defaults to the session's"`
	Effort     string             `json:"effort,omitempty"`
	Messages   []givenMessageJSON `json:"messages" jsonschema:"the whole prompt"`
	Tools      []givenToolJSON    `json:"tools,omitempty" jsonschema:"tools that the reply may call; nothing runs the calls"`
	ToolChoice toolChoiceJSON     `json:"tool_choice,omitzero"`
	Output     outputFormJSON     `json:"output,omitzero"`
	MaxTokens  int64              `json:"max_tokens,omitempty" jsonschema:"limit of output tokens"`
	Sampling   samplingJSON       `json:"sampling,omitzero"`
}

// givenToolJSON is a tool that a completion may name.
type givenToolJSON struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of its arguments"`
}

// toolChoiceJSON says whether a reply must call tools. At most one field is set.
type toolChoiceJSON struct {
	None     bool   `json:"none,omitempty" jsonschema:"true: call no tool"`
	Required bool   `json:"required,omitempty" jsonschema:"true: call one tool or more"`
	Tool     string `json:"tool,omitempty" jsonschema:"name of the tool to call"`
}

// outputFormJSON is the form that a reply must have. Absent: text.
type outputFormJSON struct {
	JSON   bool            `json:"json,omitempty" jsonschema:"true: the reply is a JSON object"`
	Name   string          `json:"name,omitempty" jsonschema:"name of the schema"`
	Schema json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of the reply"`
	Strict bool            `json:"strict,omitempty" jsonschema:"true: the provider enforces the schema"`
}

// completedJSON is the reply to a direct completion.
type completedJSON struct {
	Text  string            `json:"text"`
	Parts []partJSON        `json:"parts"`
	Stop  events.StopReason `json:"stop,omitempty"`
	Model string            `json:"model,omitempty"`
	Usage api.TokenUsage    `json:"usage"`
}

func (in rewrittenJSON) args(c *call) ([]api.RewriteMessage, error) {
	target := make([]api.RewriteMessage, len(in.Messages))
	for i, m := range in.Messages {
		target[i] = api.RewriteMessage{Message: events.Message{ID: m.ID, Role: m.Role, Parts: eventParts(m.Parts)}, Transient: m.Transient}
	}
	return target, c.named(len(in.Messages), func(i int) (string, []givenPartJSON) {
		return fmt.Sprintf("messages[%d].parts", i), in.Messages[i].Parts
	})
}

func firstInput(first events.Message) (out firstInputJSON) {
	if !first.IsZero() {
		out.Message = &messages([]events.Message{first})[0]
	}
	return out
}

func (in protocolOptionsJSON) args(*call) (api.ProtocolOptionsArgs, error) {
	return api.ProtocolOptionsArgs{Options: in.Options, All: in.AllFrames}, nil
}

func (in extensionsJSON) args(*call) ([]events.Extension, error) {
	if in.Extensions == nil {
		return nil, invalidBody("extensions is required")
	}
	list := make([]events.Extension, len(in.Extensions))
	for i, e := range in.Extensions {
		list[i] = e.extension()
	}
	return list, nil
}

func (e extensionJSON) args(*call) (events.Extension, error) { return e.extension(), nil }

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

func (in invocationJSON) args(*call) (api.ActionArgs, error) {
	return api.ActionArgs{Name: in.Name, Args: in.Args}, nil
}

func actionResult(got plugin.Result) actionResultJSON {
	return actionResultJSON{
		Text: got.Text, Outcome: givenOutcomeJSON(outcome(got.Outcome)), Class: got.Class, Code: got.Code, Pending: got.Pending, Attachments: parts(got.Attachments),
	}
}

func (in newCompletionJSON) args(c *call) (operation.CompleteArgs, error) {
	req := plugin.CompletionRequest{
		Model: in.Model, Effort: in.Effort, ToolChoice: plugin.ToolChoice(in.ToolChoice), Output: plugin.Output(in.Output), MaxTokens: in.MaxTokens,
		Sampling: in.Sampling.toEvents(),
	}
	err := c.named(len(in.Messages), func(i int) (string, []givenPartJSON) {
		return fmt.Sprintf("messages[%d].parts", i), in.Messages[i].Parts
	})
	if err != nil {
		return operation.CompleteArgs{}, err
	}
	for _, m := range in.Messages {
		req.Messages = append(req.Messages, events.Message{ID: m.ID, Role: m.Role, Parts: eventParts(m.Parts)})
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, events.ToolEntry{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	return operation.CompleteArgs{Request: req, Source: cmp.Or(in.Source, "client")}, nil
}

func completed(got plugin.Completion) completedJSON {
	return completedJSON{Text: got.Text, Parts: parts(got.Parts), Stop: got.Stop, Model: got.Model, Usage: api.TokenUsage(got.Usage)}
}
