package anthropic

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

const (
	// defaultMaxTokens is sent for a request without a limit, because the API requires one. Today's models allow this many;
	// where an older one allows less, its refusal says how many.
	defaultMaxTokens = 32000
	maxCallID        = 64 // characters of a tool_use id
)

// object is a JSON object of a request.
type object = map[string]any

// params is the body of a request.
func (p *Provider) params(req llm.Request, offer *llm.Offer) (object, error) {
	out := object{
		"model":      req.Model,
		"max_tokens": defaultMaxTokens,
		"stream":     true,
	}
	if req.MaxOutputTokens > 0 {
		out["max_tokens"] = req.MaxOutputTokens
	}
	config, err := outputConfig(req)
	if err != nil {
		return nil, err
	}
	if len(config) > 0 {
		out["output_config"] = config
	}
	if req.Effort != "" && (len(req.Tools) == 0 || !req.ToolChoice.Forced()) { // the API rejects thinking with a forced call
		out["thinking"] = object{"type": "adaptive"}
	}
	if err := sample(out, req.Sampling); err != nil {
		return nil, err
	}
	declare(out, req, offer)
	messages, err := p.endpoint.Dialog(req.Messages, callID)
	if err != nil {
		return nil, err
	}
	if len(messages) > 0 && messages[0].Role == events.RoleSystem {
		out["system"] = userBlocks(messages[0])
		messages = messages[1:]
	}
	turns := p.turns(messages, offer)
	// Marks the end of the prompt, in the way that all endpoints know: the next iteration of a turn begins with this one. It is the
	// user's.
	end := turns[len(turns)-1].Content
	end[len(end)-1]["cache_control"] = object{"type": "ephemeral"}
	out["messages"] = turns
	return out, nil
}

// outputConfig is empty for text without an effort. The API has schemas, which are always enforced and have no name, and
// no JSON without a schema.
func outputConfig(req llm.Request) (object, error) {
	out := object{}
	if req.Effort != "" {
		out["effort"] = req.Effort
	}
	switch o := req.Output; {
	case len(o.Schema) > 0:
		schema, err := llm.OutputSchema(o)
		if err != nil {
			return nil, err
		}
		out["format"] = object{"type": "json_schema", "schema": schema}
	case o.JSON:
		return nil, &llm.Error{Kind: llm.KindRequest, Message: "the provider cannot be held to a JSON object without a schema"}
	}
	return out, nil
}

// sample sends the fields that are set. The API has no seed, and its temperatures end at 1.
func sample(out object, s events.Sampling) error {
	if s.Seed != "" {
		return &llm.Error{Kind: llm.KindRequest, Message: "the provider knows no seed"}
	}
	if v, err := strconv.ParseFloat(string(s.Temperature), 64); err == nil {
		if v > 1 {
			return &llm.Error{Kind: llm.KindRequest, Message: "the provider's temperatures end at 1"}
		}
		out["temperature"] = v
	}
	if v, err := strconv.ParseFloat(string(s.TopP), 64); err == nil {
		out["top_p"] = v
	}
	if len(s.Stop) > 0 {
		out["stop_sequences"] = s.Stop
	}
	return nil
}

// declare sends the tools, and their choice if the model does not choose. The API rejects a choice without tools.
func declare(out object, req llm.Request, offer *llm.Offer) {
	var tools []object
	for _, t := range offer.Tools {
		tool := object{"name": t.Name, "input_schema": t.Schema}
		if t.Description != "" {
			tool["description"] = t.Description
		}
		tools = append(tools, tool)
	}
	if len(tools) == 0 {
		return
	}
	out["tools"] = tools
	switch c := req.ToolChoice; {
	case c.Tool != "":
		out["tool_choice"] = object{"type": "tool", "name": c.Tool}
	case c.Required:
		out["tool_choice"] = object{"type": "any"}
	case c.None:
		out["tool_choice"] = object{"type": "none"}
	}
}

// callID converts an id to ^[a-zA-Z0-9_-]+$. The result may be empty.
func callID(raw events.CallID) string { return llm.Token(string(raw), maxCallID) }

func text(s string) object { return object{"type": "text", "text": s} }

// blank reports whether the API rejects text as a block.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// message is a message of a request.
type message struct {
	Content []object `json:"content"`
	Role    string   `json:"role"`
}

// turns converts messages. Results are first in their message, because Dialog puts them directly after the calls.
func (p *Provider) turns(messages []events.Message, offer *llm.Offer) []message {
	out := make([]message, len(messages))
	for i, m := range messages {
		out[i] = message{Role: "user", Content: userBlocks(m)}
		if m.Role == events.RoleAssistant {
			out[i] = message{Role: "assistant", Content: p.assistantBlocks(m, offer)}
		}
	}
	return out
}

// userBlocks converts a user message, or the system prompt.
func userBlocks(m events.Message) []object {
	var out []object
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartText:
			out = append(out, text(part.Text))
		case events.PartToolResult:
			out = append(out, result(part))
		case events.PartAttachment:
			out = append(out, attachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	return out
}

func result(part events.Part) object {
	return object{"type": "tool_result", "tool_use_id": part.Call, "is_error": part.Outcome != events.OutcomeSuccess, "content": part.Text}
}

func attachment(part events.Part) object {
	kind := ""
	switch part.MediaType {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		kind = "image"
	case "application/pdf":
		kind = "document"
	default:
		return text(fmt.Sprintf("[an attachment of type %q, which cannot be shown here]", part.MediaType))
	}
	if strings.HasPrefix(part.Text, "https://") || strings.HasPrefix(part.Text, "http://") {
		return object{"type": kind, "source": object{"type": "url", "url": part.Text}}
	}
	return object{"type": kind, "source": object{"type": "base64", "media_type": part.MediaType, "data": part.Text}}
}

// assistantBlocks converts a reply. Thinking is unchanged if it is from this endpoint, and never last: the API rejects
// that.
func (p *Provider) assistantBlocks(m events.Message, offer *llm.Offer) []object {
	var out []object
	last := 0
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartText:
			if !blank(part.Text) {
				out = append(out, text(part.Text))
				last = len(out)
			}
		case events.PartReasoning:
			own := p.endpoint.Own(part).Fields
			if data := own[redactedField]; data != nil {
				out = append(out, object{"type": "redacted_thinking", "data": data})
			} else if signature := own[llm.SignatureField]; signature != nil {
				out = append(out, object{"type": "thinking", "signature": signature, "thinking": part.Text})
			}
		case events.PartToolCall:
			out = append(out, object{"type": "tool_use", "id": part.Call, "name": offer.ToolName(part.Tool), "input": offer.Sent(part.Tool, part.Args)})
			last = len(out)
		case events.PartToolResult, events.PartAttachment: // not in an assistant message
		}
	}
	return out[:last]
}
