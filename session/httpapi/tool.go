package httpapi

import (
	"encoding/json"
	"net/http"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/events/eventjson"
	"github.com/lash-go/lash/session/api"
)

// approvalsJSON are the approval requests without an answer.
type approvalsJSON struct {
	Approvals []pendingApprovalJSON `json:"approvals" jsonschema:"those of the session come first, then those of the agents that work for it, and of theirs: an answer goes to POST approvals of the session that a call has here"`
}

// pendingApprovalJSON is a call that waits for an approval, with its session.
type pendingApprovalJSON struct {
	Session  events.SessionID `json:"session"`
	Effect   events.EffectID  `json:"call" jsonschema:"TURN/ITERATION/INDEX: identifies the call in the answer and in GET /output. It is not the call_id of the model"`
	Tool     string           `json:"tool"`
	Args     json.RawMessage  `json:"args,omitempty" jsonschema:"arguments of the call; a JSON string if the model's JSON is broken"`
	ArgsText string           `json:"args_text,omitempty" jsonschema:"the arguments byte for byte, where programs may read args in different ways: a name that an object has twice, a number that a double does not keep. Show these to whoever decides"`
	Blob     *blobJSON        `json:"blob,omitempty" jsonschema:"in place of large args"`
	Plugin   string           `json:"plugin" jsonschema:"id of the plugin that requests the approval"`
	Question string           `json:"question"`
}

// answerJSON is the answer to an approval request. The first answer counts.
type answerJSON struct {
	Effect  events.EffectID `json:"call" jsonschema:"TURN/ITERATION/INDEX of the call: the field effect of the event tool.approval_asked" required:"is required"`
	Granted *bool           `json:"granted" jsonschema:"true: the call runs; false: it is refused" required:"is required"`
	Reason  string          `json:"reason,omitempty" jsonschema:"stored in the history, at most 1000 bytes; of a question it is the answer, at most 65536 bytes"`
}

// callResultJSON is the result of a pending call, from outside the turn. The first result counts.
type callResultJSON struct {
	Key     events.EffectID  `json:"call" jsonschema:"TURN/ITERATION/INDEX of the call" required:"is required"`
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
	Sources []api.ToolSource `json:"sources"`
}

// generationJSON is the new generation of the tools.
type generationJSON struct {
	Generation int64 `json:"generation"`
}

// toolCatalogJSON is the list of searchable tools.
type toolCatalogJSON struct {
	Tools []json.RawMessage `json:"tools" jsonschema:"tools with availability searchable or more, as JSON objects"`
}

// toolSourcePath names the source of a request without a body.
type toolSourcePath struct {
	Source string `path:"source"`
}

func (out *toolJSON) adjust(from any) {
	contract := from.(*events.ToolEntry).Look()
	assign(&out.Schema, &contract.Schema)
	assign(&out.Output, &contract.Output)
	out.Examples = eventjson.Raws(contract.Examples)
}

func (out *pendingApprovalJSON) adjust(from any) {
	asked := from.(*api.PendingApproval)
	out.Args = nil
	if asked.Blob.IsZero() {
		out.Args = eventjson.Raw(asked.Args) // also without text
	}
	if eventjson.Ambiguous(asked.Args) {
		out.ArgsText = string(asked.Args)
	}
}

func (in *toolsJSON) complete(_ *httpRequest, to any) error {
	to.(*api.ToolState).LeftOut = nil
	for i := range in.Tools {
		if in.Tools[i].Availability == "" {
			return invalidField("availability", "is none of off, searchable, callable and showcased")
		}
	}
	return nil
}

func getOutput(c *httpRequest) (reply, error) {
	call := events.EffectID(c.URL.Query().Get("call"))
	if call == "" {
		return reply{}, invalidParam("call", "is required")
	}
	text, err := c.s.cfg.Service.ToolOutput(c.Context(), c.session, call)
	return reply{status: http.StatusOK, body: callOutputJSON{Call: call, Output: text}}, err
}
