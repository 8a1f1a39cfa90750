package openai

import (
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// encodeResponse is the body of a Responses request.
func encodeResponse(p *llm.Prepared) (object, error) {
	out := object{"model": p.Model, "stream": true, "store": false}
	if p.Effort != "" { // other models reject include; reasoning may be sent without it
		out["reasoning"] = object{"effort": p.Effort}
		out["include"] = []string{"reasoning.encrypted_content"}
	}
	if p.MaxOutputTokens > 0 {
		out["max_output_tokens"] = p.MaxOutputTokens
	}
	if p.Sampling.Seed != "" || len(p.Sampling.Stop) > 0 {
		return nil, &llm.Error{Kind: llm.KindRequest, Message: "the provider knows neither a seed nor stop sequences"}
	}
	p.Sample(out, "")
	declare(out, p, func(f object) object {
		if f["type"] = "function"; f["parameters"] != nil {
			f["strict"] = false // the API's default is strict, which most schemas do not fit
		}
		return f
	})
	if f := format(p.Output); f != nil {
		out["text"] = object{"format": f}
	}
	out["input"] = converted(p.Messages, func(m events.Message) []object { return items(p, m) }, inputs)
	return out, nil
}

// inputs converts results, each to an item, and the rest to one message.
func inputs(m events.Message) []object {
	out, said := parted(m, func(part events.Part) object {
		return object{"type": "function_call_output", "call_id": part.Call, "output": part.Text}
	}, input)
	if len(said) > 0 {
		out = append(out, object{"role": "user", "content": said})
	}
	return out
}

func input(part events.Part) object {
	src := llm.URLOf(part)
	switch {
	case part.Kind == events.PartAttachment && strings.HasPrefix(part.MediaType, "image/"):
		return object{"type": "input_image", "detail": "auto", "image_url": src}
	case part.Kind != events.PartAttachment || part.MediaType != "application/pdf":
		return object{"type": "input_text", "text": llm.Shown(part)}
	case strings.HasPrefix(src, "data:"):
		return object{"type": "input_file", "file_data": src, "filename": "attachment.pdf"}
	}
	return object{"type": "input_file", "file_url": src}
}

// items converts the parts of a reply.
func items(p *llm.Prepared, m events.Message) (out []object) {
	for _, part := range llm.Followed(m.Parts) {
		own, item := p.Own(part), object(nil)
		switch part.Kind {
		case events.PartText:
			item = object{"role": "assistant", "content": part.Text}
		case events.PartToolCall:
			item = object{"type": "function_call", "call_id": part.Call, "name": p.ToolName(part.Tool), "arguments": string(p.Args(part))}
		case events.PartReasoning:
			item = reasoningItem(own, part.Text)
		default: // not in a reply
		}
		if item != nil {
			giveBack(own.Fields, map[string]object{"item": item})
			out = append(out, item)
		}
	}
	return out
}

// reasoningItem is the endpoint's item with the text of its part, or nil.
func reasoningItem(own llm.Vendor, text string) object {
	encrypted, open := own.Fields[encryptedField], own.Fields[openField] != nil
	item := object{"type": "reasoning", "summary": []object{}}
	if own.ID != "" {
		item["id"] = own.ID
	}
	switch {
	case encrypted == nil && !open:
		return nil
	case encrypted == nil:
		item["content"] = []object{{"type": "reasoning_text", "text": text}}
		return item
	case text != "" && !open:
		item["summary"] = []object{{"type": "summary_text", "text": text}}
	}
	item["encrypted_content"] = encrypted
	return item
}
