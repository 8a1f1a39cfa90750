package anthropic

import (
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// encode is the body of a request.
func encode(p *llm.Prepared) (object, error) {
	out := object{"model": p.Model, "max_tokens": defaultMaxTokens, "stream": true}
	if p.MaxOutputTokens > 0 {
		out["max_tokens"] = p.MaxOutputTokens
	}
	if what := lacking(p); what != "" {
		return nil, &llm.Error{Kind: llm.KindRequest, Message: what}
	}
	config := object{}
	if p.Effort != "" {
		config["effort"] = p.Effort
		if len(p.Tools) == 0 || !p.ToolChoice.Forced() { // the API rejects thinking with a forced call
			out["thinking"] = object{"type": "adaptive"}
		}
	}
	if len(p.Output.Schema) > 0 { // which is always enforced, and has no name
		config["format"] = object{"type": "json_schema", "schema": p.Output.Schema}
	}
	if len(config) > 0 {
		out["output_config"] = config
	}
	p.Sample(out, "stop_sequences")
	p.Declare(out, func(f llm.Form) object { return f.Declaration("input_schema") }, func(c llm.ToolChoice) any {
		switch {
		case c.Tool != "":
			return object{"type": "tool", "name": c.Tool}
		case c.Required:
			return object{"type": "any"}
		}
		return object{"type": "none"}
	})
	messages := p.Messages
	if messages[0].Role == events.RoleSystem {
		out["system"] = blocks(p, messages[0].Parts)
		messages = messages[1:]
	}
	var turns, content []object
	for _, m := range messages {
		content = blocks(p, m.Parts)
		turns = append(turns, object{"role": m.Role, "content": content})
	}
	// Marks the end of the prompt, which is the user's, in the way that all endpoints know: the next iteration of a turn begins
	// with this one.
	content[len(content)-1]["cache_control"] = object{"type": "ephemeral"}
	out["messages"] = turns
	return out, nil
}

// lacking says what of a request the API does not have: a seed, temperatures above 1, and JSON without a schema.
func lacking(p *llm.Prepared) string {
	temperature, _ := strconv.ParseFloat(string(p.Sampling.Temperature), 64)
	switch {
	case p.Output.JSON && len(p.Output.Schema) == 0:
		return "the provider cannot be held to a JSON object without a schema"
	case p.Sampling.Seed != "":
		return "the provider knows no seed"
	case temperature > 1:
		return "the provider's temperatures end at 1"
	}
	return ""
}

// blocks converts the parts of a message. Results are first in theirs, because a dialog has them directly after the calls.
// Thinking is unchanged if it is from this endpoint.
func blocks(p *llm.Prepared, parts []events.Part) (out []object) {
	for _, part := range llm.Followed(parts) {
		if block := blockOf(p, part); block != nil {
			out = append(out, block)
		}
	}
	return out
}

func blockOf(p *llm.Prepared, part events.Part) object {
	own := p.Own(part).Fields
	switch part.Kind {
	case events.PartToolResult:
		return object{"type": "tool_result", "tool_use_id": part.Call, "is_error": part.Outcome != events.OutcomeSuccess, "content": part.Text}
	case events.PartToolCall:
		return object{"type": "tool_use", "id": part.Call, "name": p.ToolName(part.Tool), "input": p.Args(part)}
	case events.PartReasoning:
		signature := string(own[llm.SignatureField])
		switch {
		case own[redactedField] != nil:
			return object{"type": "redacted_thinking", "data": own[redactedField]}
		case signature == "", signature == `""` && (p.Official || p.Learned(signed) != nil):
			return nil
		}
		return object{"type": "thinking", "signature": own[llm.SignatureField], "thinking": part.Text}
	case events.PartAttachment:
		kind, url := attachments[part.MediaType], llm.URLOf(part)
		switch {
		case kind != "" && strings.HasPrefix(url, "data:"):
			return object{"type": kind, "source": object{"type": "base64", "media_type": part.MediaType, "data": part.Text}}
		case kind != "":
			return object{"type": kind, "source": object{"type": "url", "url": url}}
		}
	case events.PartText:
	}
	return object{"type": "text", "text": llm.Shown(part)}
}

// attachments are the blocks of media types.
var attachments = map[string]string{ //nolint:gochecknoglobals // a table that is only read
	"image/jpeg": "image", "image/png": "image", "image/gif": "image", "image/webp": "image", "application/pdf": "document",
}
