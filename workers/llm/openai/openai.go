package openai

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Config configures a provider. The key is sent as a bearer token. The base URL is by default "https://api.openai.com/v1".
type Config = llm.Config

// object is a JSON object of a request.
type object = llm.Object

// New returns a provider for Chat Completions.
func New(cfg Config) (*llm.Endpoint, error) {
	return open(cfg, llm.Wire{Name: "openai", Path: "chat/completions", CallID: keptID, Encode: encode, Decode: decode, Tells: tells})
}

// NewResponses returns a provider for the Responses API. The endpoint stores nothing: every request has the whole conversation,
// with the reasoning in the endpoint's encryption.
func NewResponses(cfg Config) (*llm.Endpoint, error) {
	return open(cfg, llm.Wire{Name: "openai-responses", Path: "responses", CallID: keptID, Encode: encodeResponse, Decode: decodeResponse})
}

// open adds what both dialects have in common.
func open(cfg Config, w llm.Wire) (*llm.Endpoint, error) {
	w.BaseURL, w.KeyHeader, w.KeyScheme, w.Models = "https://api.openai.com/v1", "Authorization", "Bearer ", "models"
	return llm.NewEndpoint(w, cfg)
}

// keptID keeps ids: some models are trained on their form.
func keptID(raw events.CallID) string { return strings.ToValidUTF8(string(raw), "_") }

// declare sends the tools, and their choice. function is how the dialect names a function.
func declare(out object, p *llm.Prepared, function func(object) object) {
	p.Declare(out, func(f llm.Form) object { return function(f.Declaration("parameters")) }, func(c llm.ToolChoice) any {
		switch {
		case c.Tool != "":
			return function(object{"name": c.Tool})
		case c.Required:
			return "required"
		}
		return "none"
	})
}

// format is the form of a reply, nil for text, which is the API's default.
func format(o llm.Output) object {
	switch {
	case len(o.Schema) > 0:
		return object{"type": "json_schema", "name": o.Name, "strict": o.Strict, "schema": o.Schema}
	case o.JSON:
		return object{"type": "json_object"}
	}
	return nil
}

// converted are the messages of a dialog.
func converted(messages []events.Message, reply, user func(events.Message) []object) (out []object) {
	for _, m := range messages {
		switch m.Role {
		case events.RoleSystem:
			out = append(out, object{"role": "system", "content": paragraphs(m.Parts)})
		case events.RoleAssistant:
			out = append(out, reply(m)...)
		default:
			out = append(out, user(m)...)
		}
	}
	return out
}

// paragraphs joins the texts of parts with blank lines between them.
func paragraphs(parts []events.Part) string {
	var texts []string
	for _, part := range parts {
		if part.Kind == events.PartText {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// parted are the results in a message of the user, and what it says beside them.
func parted(m events.Message, result, piece func(events.Part) object) (results, said []object) {
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolResult:
			results = append(results, result(part))
		case events.PartText, events.PartAttachment:
			said = append(said, piece(part))
		default: // not in a message of the user
		}
	}
	return results, said
}
