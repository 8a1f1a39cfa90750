package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/session/api"
	"github.com/lash-go/lash/session/plugin"
)

// Rewritten is what the history's messages should be.
type Rewritten struct {
	Messages []RewrittenMessage `json:"messages" jsonschema:"those with the ids that the active branch begins with stay as they are"`
}

// RewrittenMessage is a message of a rewritten history.
type RewrittenMessage struct {
	ID        events.MessageID `json:"id,omitempty"`
	Role      events.Role      `json:"role"`
	Parts     []GivenPart      `json:"parts"`
	Transient bool             `json:"transient,omitempty" jsonschema:"never kept"`
}

// FirstInput is the first turn's input.
type FirstInput struct {
	Message *Message `json:"message,omitempty" jsonschema:"left out: there is none, or it was taken"`
}

// ProtocolOptions are the protocol's durable options for turns.
type ProtocolOptions struct {
	Options   json.RawMessage `json:"options"`
	AllFrames bool            `json:"all_frames,omitempty" jsonschema:"of all frames; else of the current one"`
}

// Extension is a protocol's own addition to a session or a turn.
type Extension struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body,omitempty"`
}

// ToolCatalog is what the model may search.
type ToolCatalog struct {
	Tools []json.RawMessage `json:"tools" jsonschema:"from searchable on"`
}

// Actions are what a session's plugins offer to hosts.
type Actions struct {
	Actions []Action `json:"actions" jsonschema:"by name"`
}

// Action is what a host can ask of a plugin.
type Action struct {
	Name        string              `json:"name"`
	Description string              `json:"description,omitempty"`
	Kind        string              `json:"kind,omitempty" jsonschema:"query, command or another word for readers"`
	Session     plugin.SessionParam `json:"session" jsonschema:"required, optional or forbidden"`
	Needs       api.Right           `json:"needs" jsonschema:"right that its caller needs"`
	Input       json.RawMessage     `json:"input,omitempty" jsonschema:"JSON schema of its arguments"`
	Output      json.RawMessage     `json:"output,omitempty" jsonschema:"JSON schema of its result"`
}

// Invocation asks a plugin for an action.
type Invocation struct {
	Name string          `json:"name"`
	Args json.RawMessage `json:"args,omitempty"`
}

// ActionResult is the outcome of an action.
type ActionResult struct {
	Text        string `json:"text"`
	Outcome     string `json:"outcome" jsonschema:"success, failure or cancelled"`
	Class       string `json:"class,omitempty" jsonschema:"of a failure"`
	Code        string `json:"code,omitempty" jsonschema:"of a failure"`
	Pending     bool   `json:"pending,omitempty" jsonschema:"the result comes later"`
	Attachments []Part `json:"attachments,omitempty"`
}

func rewriteMessages(c *call, in Rewritten) (reply, error) {
	target := make([]api.RewriteMessage, len(in.Messages))
	for i, m := range in.Messages {
		parts, err := c.parts(fmt.Sprintf("messages[%d].parts", i), m.Parts)
		if err != nil {
			return reply{}, err
		}
		target[i] = api.RewriteMessage{Message: events.Message{ID: m.ID, Role: m.Role, Parts: parts}, Transient: m.Transient}
	}
	return reply{status: http.StatusNoContent}, c.s.cfg.Service.Rewrite(c.Context(), c.session, target)
}

func takeFirstInput(c *call) (reply, error) {
	first, err := c.s.cfg.Service.TakeFirstTurnInput(c.Context(), c.session)
	var out FirstInput
	if first != nil {
		out.Message = &messages([]events.Message{*first})[0]
	}
	return reply{status: http.StatusOK, body: out}, err
}

func setProtocolOptions(c *call, in ProtocolOptions) (reply, error) {
	return reply{status: http.StatusNoContent}, c.s.cfg.Service.SetProtocolOptions(c.Context(), c.session, in.Options, in.AllFrames)
}

func applyExtension(c *call, in Extension) (reply, error) {
	return reply{status: http.StatusNoContent}, c.s.cfg.Service.ApplyExtension(c.Context(), c.session, in.extension())
}

func (e Extension) extension() events.Extension { return events.Extension{Type: e.Type, Body: e.Body} }

func getToolCatalog(c *call) (reply, error) {
	list, err := c.s.cfg.Service.ToolCatalog(c.Context(), c.session)
	return reply{status: http.StatusOK, body: ToolCatalog{Tools: orNone(list)}}, err
}

func applyTools(c *call, in Tools) (reply, error) {
	state := api.ToolState{Generation: in.Generation, Tools: make([]events.ToolEntry, len(in.Tools))}
	for i := range in.Tools {
		var err error
		if state.Tools[i], err = in.Tools[i].entry(); err != nil {
			return reply{}, err
		}
	}
	generation, err := c.s.cfg.Service.ApplyToolState(c.Context(), c.session, state)
	return reply{status: http.StatusOK, body: Generation{generation}}, err
}

// entry is the inverse of [toolOf].
func (t *Tool) entry() (events.ToolEntry, error) {
	e := events.ToolEntry{
		Name: t.Name, Description: t.Description, Schema: t.Schema, Effects: events.Effects(t.Effects), Source: t.Source,
		Availability: events.Override(t.Availability).Level(), Override: t.Override, Orphan: t.Orphan, Serial: t.Serial,
	}
	if t.Effects == "non_idempotent" {
		e.Effects = events.EffectsNonIdempotent
	}
	if string(events.Overridden(e.Availability)) != t.Availability {
		return e, invalidBody("availability is none of off, searchable, callable and showcased")
	}
	return e, nil
}

func getActions(c *call) (reply, error) {
	list, err := c.s.cfg.Service.Actions(c.Context(), c.session)
	out := Actions{Actions: make([]Action, len(list))}
	for i, a := range list {
		out.Actions[i] = Action{Name: a.Name, Description: a.Description, Kind: a.Kind, Session: a.Session, Needs: a.Needs, Input: a.Input, Output: a.Output}
	}
	return reply{status: http.StatusOK, body: out}, err
}

func invokeAction(c *call, in Invocation) (reply, error) {
	got, err := c.s.cfg.Service.InvokeAction(c.Context(), c.session, in.Name, in.Args)
	return reply{status: http.StatusOK, body: ActionResult{
		Text: got.Text, Outcome: outcome(got.Outcome), Class: got.Class, Code: got.Code, Pending: got.Pending, Attachments: parts(got.Attachments),
	}}, err
}

// NewCompletion asks the session's model outside of turns.
type NewCompletion struct {
	Source     string         `json:"source,omitempty" jsonschema:"of usage, in the ledger; defaults to client"`
	Model      string         `json:"model,omitempty" jsonschema:"defaults to the session's"`
	Effort     string         `json:"effort,omitempty"`
	Messages   []GivenMessage `json:"messages" jsonschema:"all that the model is told"`
	Tools      []GivenTool    `json:"tools,omitempty" jsonschema:"that the reply may name; nothing runs them"`
	ToolChoice ToolChoice     `json:"tool_choice,omitzero"`
	Output     OutputForm     `json:"output,omitzero"`
	MaxTokens  int64          `json:"max_tokens,omitempty" jsonschema:"of output"`
}

// GivenTool is a tool that a completion may name.
type GivenTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Schema      json.RawMessage `json:"schema,omitempty" jsonschema:"of its arguments"`
}

// ToolChoice is what a reply must do with tools. At most one field is set.
type ToolChoice struct {
	None     bool   `json:"none,omitempty" jsonschema:"call none"`
	Required bool   `json:"required,omitempty" jsonschema:"call one or more"`
	Tool     string `json:"tool,omitempty" jsonschema:"call the one of this name"`
}

// OutputForm is the form that a reply must have. Left out: text.
type OutputForm struct {
	JSON   bool            `json:"json,omitempty" jsonschema:"a JSON object"`
	Name   string          `json:"name,omitempty" jsonschema:"of the schema"`
	Schema json.RawMessage `json:"schema,omitempty" jsonschema:"of the JSON that the reply must be"`
	Strict bool            `json:"strict,omitempty" jsonschema:"the schema binds the provider"`
}

// Completed is a reply outside of turns.
type Completed struct {
	Text  string            `json:"text"`
	Parts []Part            `json:"parts"`
	Stop  events.StopReason `json:"stop,omitempty"`
	Model string            `json:"model,omitempty"`
	Usage api.TokenUsage    `json:"usage"`
}

func complete(c *call, in NewCompletion) (reply, error) {
	if in.Source == "" {
		in.Source = "client"
	}
	req := plugin.CompletionRequest{
		Model: in.Model, Effort: in.Effort, ToolChoice: plugin.ToolChoice(in.ToolChoice), Output: plugin.Output(in.Output), MaxTokens: in.MaxTokens,
	}
	for i, m := range in.Messages {
		parts, err := c.parts(fmt.Sprintf("messages[%d].parts", i), m.Parts)
		if err != nil {
			return reply{}, err
		}
		req.Messages = append(req.Messages, events.Message{ID: m.ID, Role: m.Role, Parts: parts})
	}
	for _, t := range in.Tools {
		req.Tools = append(req.Tools, events.ToolEntry{Name: t.Name, Description: t.Description, Schema: t.Schema})
	}
	got, err := c.s.cfg.Service.Complete(c.Context(), c.session, req, in.Source)
	return reply{status: http.StatusOK, body: Completed{
		Text: got.Text, Parts: parts(got.Parts), Stop: got.Stop, Model: got.Model, Usage: api.TokenUsage(got.Usage),
	}}, err
}
