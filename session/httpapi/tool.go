package httpapi

import (
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/api"
)

// approvalsJSON are the approval requests without an answer.
type approvalsJSON struct {
	Approvals []pendingApprovalJSON `json:"approvals" jsonschema:"those of the session come first, then those of the agents that work for it, and of theirs: an answer goes to POST approvals of the session that a call has here"`
}

// approvalJSON is a call that waits for an approval.
type approvalJSON struct {
	Call     events.EffectID `json:"call" jsonschema:"TURN/ITERATION/INDEX: identifies the call in the answer and in GET /output. It is not the call_id of the model"`
	Tool     string          `json:"tool"`
	Args     json.RawMessage `json:"args,omitempty" jsonschema:"arguments of the call; a JSON string if the model's JSON is broken"`
	ArgsText string          `json:"args_text,omitempty" jsonschema:"the arguments byte for byte, where programs may read args in different ways: a name that an object has twice, a number that a double does not keep. Show these to whoever decides"`
	Blob     *blobJSON       `json:"blob,omitempty" jsonschema:"in place of large args"`
	Plugin   string          `json:"plugin" jsonschema:"id of the plugin that requests the approval"`
	Question string          `json:"question"`
}

// answerJSON is the answer to an approval request. The first answer counts.
type answerJSON struct {
	Call    events.EffectID `json:"call" jsonschema:"TURN/ITERATION/INDEX of the call: the field effect of the event tool.approval_asked"`
	Granted *bool           `json:"granted" jsonschema:"true: the call runs; false: it is refused"`
	Reason  string          `json:"reason,omitempty" jsonschema:"stored in the history, at most 1000 bytes; of a question it is the answer, at most 65536 bytes"`
}

// callResultJSON is the result of a pending call, from outside the turn. The first result counts.
type callResultJSON struct {
	Call    events.EffectID  `json:"call" jsonschema:"TURN/ITERATION/INDEX of the call"`
	Text    string           `json:"text"`
	Outcome givenOutcomeJSON `json:"outcome,omitempty" jsonschema:"defaults to success"`
	Class   string           `json:"class,omitempty" jsonschema:"class of a failure"`
	Code    string           `json:"code,omitempty" jsonschema:"code of a failure"`
}

// callOutputJSON is the full output of a call that has returned.
type callOutputJSON struct {
	Call   events.EffectID `json:"call"`
	Output string          `json:"output"`
}

// toolsJSON are the tools of a session.
type toolsJSON struct {
	Generation int64             `json:"generation"`
	Tools      []toolJSON        `json:"tools" jsonschema:"by name"`
	LeftOut    []api.LeftOutTool `json:"left_out,omitempty" jsonschema:"tools that sessions do not have, with the reason; a request has none"`
}

// toolJSON is one tool.
type toolJSON struct {
	Name         string          `json:"name"`
	Description  string          `json:"description,omitempty"`
	Schema       json.RawMessage `json:"schema,omitempty" jsonschema:"JSON schema of its arguments; omitted in views of a session, where contract names it"`
	Contract     *blobJSON       `json:"contract,omitempty" jsonschema:"body with its schema, output_schema and examples"`
	Effects      effectsJSON     `json:"effects"`
	Source       string          `json:"source,omitempty"`
	Availability levelJSON       `json:"availability" jsonschema:"availability that its source declares"`
	Override     events.Override `json:"override,omitempty" jsonschema:"availability set by a client; omitted: the declared one counts"`
	Orphan       bool            `json:"orphan,omitempty" jsonschema:"true: no source offers it now"`
	Serial       bool            `json:"serial,omitempty" jsonschema:"true: a call runs alone, after the other calls of its reply"`

	Namespace string            `json:"namespace,omitempty" jsonschema:"group in tool searches"`
	Aliases   []string          `json:"aliases,omitempty" jsonschema:"additional words for tool searches"`
	Output    json.RawMessage   `json:"output_schema,omitempty" jsonschema:"JSON schema of its result, if that is JSON"`
	Examples  []json.RawMessage `json:"examples,omitempty" jsonschema:"examples of arguments, as JSON objects"`
}

// toolSourcesJSON are the tool sources of a session, and those that it can add.
type toolSourcesJSON struct {
	Sources []toolSourceJSON `json:"sources"`
}

// toolSourceJSON is a source of tools, in addition to those of the session's plugins.
type toolSourceJSON struct {
	Name  string `json:"name"`
	Added bool   `json:"added,omitempty" jsonschema:"true: the session has it"`
	Known bool   `json:"known,omitempty" jsonschema:"true: the answering node can add it"`
}

// toolLevelJSON overrides the level of tools, all or none.
type toolLevelJSON struct {
	Names []string        `json:"names"`
	Level events.Override `json:"level" jsonschema:"off, searchable, callable or showcased; empty removes the override"`
}

// generationJSON is the new generation of the tools.
type generationJSON struct {
	Generation int64 `json:"generation"`
}

func toolOf(t *events.ToolEntry) toolJSON {
	contract := t.Look()
	out := toolJSON{
		Contract: blob(t.Contract), Name: t.Name, Description: t.Description, Effects: effectsJSON(t.Effects), Source: t.Source, Availability: levelJSON(events.Overridden(t.Availability)),
		Override: t.Override, Orphan: t.Orphan, Serial: t.Serial, Namespace: t.Namespace, Aliases: t.Aliases, Examples: eventjson.Raws(contract.Examples),
	}
	if len(contract.Output) > 0 {
		out.Output = eventjson.Raw(contract.Output)
	}
	if t.Effects == events.EffectsNonIdempotent {
		out.Effects = "non_idempotent"
	}
	if len(contract.Schema) > 0 {
		out.Schema = eventjson.Raw(contract.Schema)
	}
	return out
}

func approvals(list []api.PendingApproval) approvalsJSON {
	out := approvalsJSON{Approvals: make([]pendingApprovalJSON, len(list))}
	for i := range list {
		out.Approvals[i] = pendingApproval(&list[i])
	}
	return out
}

func pendingApproval(a *api.PendingApproval) pendingApprovalJSON {
	return pendingApprovalJSON{a.Session, approvalOf(&a.ToolApprovalAsked)}
}

func approvalOf(a *events.ToolApprovalAsked) approvalJSON {
	out := approvalJSON{Call: a.Effect, Tool: a.Tool, Blob: blob(a.Blob), Plugin: a.Plugin, Question: a.Question}
	if a.Blob.IsZero() {
		out.Args = eventjson.Raw(a.Args)
	}
	if eventjson.Ambiguous(a.Args) {
		out.ArgsText = string(a.Args)
	}
	return out
}

func (in answerJSON) args(*httpRequest) (a events.ToolApprovalGiven, err error) {
	switch {
	case in.Call == "":
		return a, missingField("call")
	case in.Granted == nil:
		return a, missingField("granted")
	}
	return events.ToolApprovalGiven{Effect: in.Call, Granted: *in.Granted, Reason: in.Reason}, nil
}

func (in callResultJSON) args(*httpRequest) (api.ResolveArgs, error) {
	if in.Call == "" {
		return api.ResolveArgs{}, missingField("call")
	}
	result := events.ToolResult{Text: in.Text, Outcome: events.Outcome(in.Outcome), Class: in.Class, Code: in.Code}
	if in.Outcome == "success" {
		result.Outcome = events.OutcomeSuccess
	}
	return api.ResolveArgs{Key: in.Call, Result: result}, nil
}

func tools(s api.ToolState) toolsJSON {
	out := toolsJSON{Generation: s.Generation, Tools: make([]toolJSON, len(s.Tools)), LeftOut: s.LeftOut}
	for i := range s.Tools {
		out.Tools[i] = toolOf(&s.Tools[i])
	}
	return out
}

func (in toolLevelJSON) args(*httpRequest) (api.AvailabilityArgs, error) {
	return api.AvailabilityArgs{Names: in.Names, Level: in.Level}, nil
}

func (in toolsJSON) args(*httpRequest) (api.ToolState, error) {
	state := api.ToolState{Generation: in.Generation, Tools: make([]events.ToolEntry, len(in.Tools))}
	for i := range in.Tools {
		var err error
		if state.Tools[i], err = in.Tools[i].entry(); err != nil {
			return state, err
		}
	}
	return state, nil
}

// source is the tool source in the path.
func (c *httpRequest) source() string { return c.PathValue("source") }

func toolSources(list []api.ToolSource) toolSourcesJSON {
	out := toolSourcesJSON{Sources: make([]toolSourceJSON, len(list))}
	for i, s := range list {
		out.Sources[i] = toolSourceJSON(s)
	}
	return out
}

func generation(now int64) generationJSON { return generationJSON{now} }

func toolCatalog(list []json.RawMessage) toolCatalogJSON { return toolCatalogJSON{Tools: orNone(list)} }

// outputOf is the query parameter call: the call whose output is requested.
func (c *httpRequest) outputOf() (name events.EffectID, err error) {
	if name = events.EffectID(c.URL.Query().Get("call")); name == "" {
		err = invalidParam("call", "is required")
	}
	return name, err
}

// toolCatalogJSON is the list of searchable tools.
type toolCatalogJSON struct {
	Tools []json.RawMessage `json:"tools" jsonschema:"tools with availability searchable or more, as JSON objects"`
}

// entry is the inverse of [toolOf].
func (t *toolJSON) entry() (events.ToolEntry, error) {
	e := events.ToolEntry{
		Name: t.Name, Description: t.Description, Effects: events.Effects(t.Effects), Source: t.Source,
		Availability: events.Override(t.Availability).Level(), Override: t.Override, Orphan: t.Orphan, Serial: t.Serial,
		Namespace: t.Namespace, Aliases: t.Aliases,
	}
	if t.Effects == "non_idempotent" {
		e.Effects = events.EffectsNonIdempotent
	}
	if levelJSON(events.Overridden(e.Availability)) != t.Availability {
		return e, invalidField("availability", "is none of off, searchable, callable and showcased")
	}
	return e, nil
}
