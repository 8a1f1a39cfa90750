package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// maxCallID is the longest tool_call id that OpenAI accepts.
const maxCallID = 40

// object is a JSON object of a request.
type object = map[string]any

// params is the body of a Chat Completions request.
func (p *Provider) params(req llm.Request, offer *llm.Offer) (object, error) {
	out := object{"model": req.Model, "stream": true, "stream_options": object{"include_usage": true}}
	if req.Effort != "" {
		out["reasoning_effort"] = req.Effort
	}
	switch {
	case req.MaxOutputTokens <= 0:
	case p.http.Host() == officialHost:
		out["max_completion_tokens"] = req.MaxOutputTokens // reasoning models reject the old name
	default:
		out["max_tokens"] = req.MaxOutputTokens // some endpoints know only this name
	}
	sample(out, req.Sampling)
	if v, err := strconv.ParseInt(string(req.Sampling.Seed), 10, 64); err == nil {
		out["seed"] = v
	}
	if len(req.Sampling.Stop) > 0 {
		out["stop"] = req.Sampling.Stop
	}
	p.declare(out, req, offer)
	kind, schema, err := format(req.Output)
	if err != nil {
		return nil, err
	}
	if schema != nil {
		out["response_format"] = object{"type": kind, "json_schema": schema}
	} else if kind != "" {
		out["response_format"] = object{"type": kind}
	}
	messages, err := p.http.Dialog(req.Messages, callID)
	if err != nil {
		return nil, err
	}
	var list []object
	called := false
	for _, m := range messages {
		called = called || slices.ContainsFunc(m.Parts, func(part events.Part) bool { return part.Kind == events.PartToolCall })
		list = append(list, p.message(m, offer, called)...)
	}
	p.grant(req.Model, list)
	out["messages"] = list
	return out, nil
}

// sample sends the fields that are set, of those that both dialects have.
func sample(out object, s events.Sampling) {
	if v, err := strconv.ParseFloat(string(s.Temperature), 64); err == nil {
		out["temperature"] = v
	}
	if v, err := strconv.ParseFloat(string(s.TopP), 64); err == nil {
		out["top_p"] = v
	}
}

// declare sends the tools, and their choice if the model does not choose. The API rejects a choice without tools.
func (p *Provider) declare(out object, req llm.Request, offer *llm.Offer) {
	var tools []object
	for _, t := range offer.Tools {
		tools = append(tools, object{"type": "function", "function": p.tool(t)})
	}
	if len(tools) == 0 {
		return
	}
	out["tools"] = tools
	if name := req.ToolChoice.Tool; name != "" {
		out["tool_choice"] = object{"type": "function", "function": object{"name": name}}
	} else if mode := choiceMode(req.ToolChoice); mode != "" {
		out["tool_choice"] = mode
	}
}

// tool is the declaration of a function, as both dialects have it.
func (e endpoint) tool(t llm.Form) object {
	f := object{"name": t.Name, "parameters": t.Schema}
	if limit := int(e.described.Load()); limit > 0 {
		t.Description = events.Clip(t.Description, limit, "...")
	}
	if t.Description != "" {
		f["description"] = t.Description
	}
	return f
}

// choiceMode is empty if the model chooses, which is the API's default.
func choiceMode(c llm.ToolChoice) string {
	switch {
	case c.None:
		return "none"
	case c.Required:
		return "required"
	}
	return ""
}

// format is the type of an output and its schema, as both dialects have them. Both are empty for text, which is the API's
// default.
func format(o llm.Output) (kind string, schema object, err error) {
	switch {
	case len(o.Schema) > 0:
		if _, err := llm.OutputSchema(o); err != nil {
			return "", nil, err
		}
		return "json_schema", object{"name": o.Name, "strict": o.Strict, "schema": o.Schema}, nil
	case o.JSON:
		return "json_object", nil, nil
	}
	return "", nil, nil
}

// callID keeps ids if possible: some models are trained on their form.
func callID(raw events.CallID) string { return clipID(raw, maxCallID) }

func clipID(raw events.CallID, limit int) string {
	s := strings.ToValidUTF8(string(raw), "_")
	if len(s) > limit {
		return llm.Token(s, limit)
	}
	return s
}

func (p *Provider) message(m events.Message, offer *llm.Offer, called bool) []object {
	switch m.Role {
	case events.RoleSystem:
		if text := paragraphs(m.Parts); text != "" {
			return []object{{"role": "system", "content": text}}
		}
	case events.RoleAssistant:
		return p.assistant(m, offer, called)
	case events.RoleUser:
		return user(m, offer)
	}
	return nil
}

// paragraphs joins the text of parts with blank lines between them.
func paragraphs(parts []events.Part) string {
	var texts []string
	for _, part := range parts {
		if part.Kind == events.PartText && part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

// received is said between results and a message of the user: templates of some models take none right after a result.
const received = "[results received]"

// user converts results to tool messages and the rest to one user message.
func user(m events.Message, offer *llm.Offer) []object {
	var out, content []object
	plain := true
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolResult:
			out = append(out, object{"role": "tool", "tool_call_id": part.Call, "name": offer.ToolName(part.Tool), "content": part.Text})
		case events.PartText:
			content = append(content, object{"type": "text", "text": part.Text})
		case events.PartAttachment:
			plain = false
			content = append(content, attachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	if len(content) == 0 {
		return out
	}
	if len(out) > 0 {
		out = append(out, object{"role": "assistant", "content": received})
	}
	if plain { // many endpoints have no content parts
		return append(out, object{"role": "user", "content": paragraphs(m.Parts)})
	}
	return append(out, object{"role": "user", "content": content})
}

func attachment(part events.Part) object {
	if !strings.HasPrefix(part.MediaType, "image/") {
		return object{"type": "text", "text": unsupportedText(part)}
	}
	return object{"type": "image_url", "image_url": object{"url": source(part)}}
}

// unsupportedText is the text in place of an attachment that cannot be sent.
func unsupportedText(part events.Part) string {
	return fmt.Sprintf("[an attachment of type %q, which cannot be shown here]", part.MediaType)
}

// source is an attachment as a URL.
func source(part events.Part) string {
	if strings.HasPrefix(part.Text, "https://") || strings.HasPrefix(part.Text, "http://") {
		return part.Text
	}
	return "data:" + part.MediaType + ";base64," + part.Text
}

// assistant converts a reply. This dialect has no reasoning. Endpoints that require it back do so from the first call of the
// conversation on, and receive it there.
func (p *Provider) assistant(m events.Message, offer *llm.Offer, called bool) []object {
	out := object{"role": "assistant"}
	var calls []object
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolCall:
			calls = append(calls, p.replay(part, offer, out))
		case events.PartReasoning:
			own := p.http.Own(part).Fields
			giveBack(own, out, nil, nil)
			if field := reasoningField(own); field != "" && called {
				before, _ := out[field].(string)
				out[field] = before + part.Text
			}
		case events.PartText, events.PartAttachment, events.PartToolResult:
		}
	}
	text := m.Text()
	if len(calls) == 0 && text == "" {
		return nil
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	}
	if text != "" {
		out["content"] = text
	}
	return []object{out}
}

// grant gives the assistant's messages what the endpoint wants, and takes what it refuses.
func (p *Provider) grant(model string, messages []object) {
	p.wishes.Range(func(about, wants any) bool {
		w, _ := about.(wish)
		for _, m := range messages {
			switch {
			case w.model != model || m["role"] != "assistant":
			case wants == true && m[w.field] == nil:
				m[w.field] = ""
			case wants == false:
				delete(m, w.field)
				calls, _ := m["tool_calls"].([]object)
				for _, call := range calls {
					delete(call, w.field)
					function, _ := call["function"].(object)
					delete(function, w.field)
				}
			}
		}
		return true
	})
}

// reasoningField is the field in which the endpoint sent a part of reasoning; empty for those of other endpoints.
func reasoningField(own map[string]json.RawMessage) string {
	var field string
	_ = json.Unmarshal(own[textField], &field)
	if slices.Contains(reasoningFields, field) {
		return field
	}
	return ""
}

func (p *Provider) replay(part events.Part, offer *llm.Offer, message object) object {
	function := object{"name": offer.ToolName(part.Tool), "arguments": string(offer.Sent(part.Tool, part.Args))}
	call := object{"id": part.Call, "type": "function", "function": function}
	giveBack(p.http.Own(part).Fields, message, call, function)
	return call
}
