package openai

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// maxItemCallID is the longest call_id that the Responses API accepts.
const maxItemCallID = 64

// params is the body of a Responses request.
func (p *Responses) params(req llm.Request, offer *llm.Offer) (object, error) {
	out := object{"model": req.Model, "stream": true, "store": false}
	if req.Effort != "" { // other models reject include; reasoning may be sent without it
		out["reasoning"] = object{"effort": req.Effort}
		out["include"] = []string{"reasoning.encrypted_content"}
	}
	if req.MaxOutputTokens > 0 {
		out["max_output_tokens"] = req.MaxOutputTokens
	}
	if req.Sampling.Seed != "" || len(req.Sampling.Stop) > 0 {
		return nil, &llm.Error{Kind: llm.KindRequest, Message: "the provider knows neither a seed nor stop sequences"}
	}
	sample(out, req.Sampling)
	p.declare(out, req, offer)
	kind, text, err := format(req.Output)
	if err != nil {
		return nil, err
	}
	if kind != "" {
		if text == nil {
			text = object{}
		}
		text["type"] = kind
		out["text"] = object{"format": text}
	}
	messages, err := p.http.Dialog(req.Messages, itemCallID)
	if err != nil {
		return nil, err
	}
	var input []object
	for _, m := range messages {
		input = append(input, p.items(m, offer)...)
	}
	out["input"] = input
	return out, nil
}

// declare sends the tools, and their choice if the model does not choose. Strict is false explicitly: the API's default
// is strict, which most schemas do not fit.
func (p *Responses) declare(out object, req llm.Request, offer *llm.Offer) {
	var tools []object
	for _, t := range offer.Tools {
		f := p.tool(t)
		f["type"], f["strict"] = "function", false
		tools = append(tools, f)
	}
	if len(tools) == 0 {
		return
	}
	out["tools"] = tools
	if name := req.ToolChoice.Tool; name != "" {
		out["tool_choice"] = object{"type": "function", "name": name}
	} else if mode := choiceMode(req.ToolChoice); mode != "" {
		out["tool_choice"] = mode
	}
}

func itemCallID(raw events.CallID) string { return clipID(raw, maxItemCallID) }

// items converts a message of the dialog: one item for each part.
func (p *Responses) items(m events.Message, offer *llm.Offer) []object {
	switch m.Role {
	case events.RoleSystem:
		if text := paragraphs(m.Parts); text != "" {
			return []object{{"role": "system", "content": text}}
		}
	case events.RoleAssistant:
		return p.replies(m, offer)
	case events.RoleUser:
		return inputs(m)
	}
	return nil
}

// inputs converts results, each to an item, and the rest to one message.
func inputs(m events.Message) (out []object) {
	var content []object
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolResult:
			out = append(out, object{"type": "function_call_output", "call_id": part.Call, "output": part.Text})
		case events.PartText:
			content = append(content, inputText(part.Text))
		case events.PartAttachment:
			content = append(content, inputAttachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	if len(content) > 0 {
		out = append(out, object{"role": "user", "content": content})
	}
	return out
}

func inputText(text string) object { return object{"type": "input_text", "text": text} }

func inputAttachment(part events.Part) object {
	src := source(part)
	switch {
	case strings.HasPrefix(part.MediaType, "image/"):
		return object{"type": "input_image", "detail": "auto", "image_url": src}
	case part.MediaType != "application/pdf":
		return inputText(unsupportedText(part))
	case strings.HasPrefix(src, "data:"):
		return object{"type": "input_file", "file_data": src, "filename": "attachment.pdf"}
	}
	return object{"type": "input_file", "file_url": src}
}

// replies converts the parts of a reply. Reasoning is never last: the API rejects it without the item that followed
// it.
func (p *Responses) replies(m events.Message, offer *llm.Offer) []object {
	var out []object
	last := 0
	for _, part := range m.Parts {
		own := p.http.Own(part)
		switch part.Kind {
		case events.PartText:
			if strings.TrimSpace(part.Text) == "" {
				continue
			}
			item := object{"role": "assistant", "content": part.Text}
			if phase := own.Fields[phaseField]; len(phase) > 0 {
				item["phase"] = phase
			}
			out = append(out, item)
			last = len(out)
		case events.PartToolCall:
			out = append(out, object{"type": "function_call", "call_id": part.Call, "name": offer.ToolName(part.Tool), "arguments": string(offer.Sent(part.Tool, part.Args))})
			last = len(out)
		case events.PartReasoning:
			if item := reasoningItem(own, part.Text); item != nil {
				out = append(out, item)
			}
		case events.PartAttachment, events.PartToolResult:
		}
	}
	return out[:last]
}

// reasoningItem is the endpoint's item with the text of its part, or nil.
func reasoningItem(own llm.Vendor, text string) object {
	encrypted, open := own.Fields[encryptedField], len(own.Fields[openField]) > 0
	item := object{"type": "reasoning", "id": own.ID, "summary": []object{}}
	switch {
	case len(encrypted) > 0:
		item["encrypted_content"] = encrypted
		if text != "" && !open {
			item["summary"] = []object{{"type": "summary_text", "text": text}}
		}
	case open:
		item["content"] = []object{{"type": "reasoning_text", "text": text}}
	default:
		return nil
	}
	return item
}
