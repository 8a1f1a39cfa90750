package openai

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// What an endpoint misses in messages of the assistant that another one did not send.
const (
	missesReasoning = "misses reasoning"
	missesSignature = "misses signature" // of calls
	missesContent   = "misses content"
	contentAlone    = "content alone" // true: a message with calls has no content
)

// tells are the words of refusals that say so.
var tells = map[string]*regexp.Regexp{ //nolint:gochecknoglobals // a table that is only read
	missesReasoning: regexp.MustCompile(`(?is)(missing|must be passed).*reasoning_content|reasoning_content.*(missing|must be passed)`),
	missesSignature: regexp.MustCompile(`(?is)(missing|must be passed).*thought_signature|thought_signature.*(missing|must be passed)`),
	missesContent:   regexp.MustCompile(`(?i)\bcontent\b[^.]{0,40}(required|missing)|(required|missing)[^.]{0,40}\bcontent\b`),
	contentAlone:    regexp.MustCompile(`(?is)\bcontent\b.*not both`), // Mistral's, and that of gpt-oss
}

// unsigned is what Gemini takes in place of the signature of a call that another model made. Source: https://ai.google.dev/gemini-api/docs/thought-signatures.
var unsigned = object{"google": object{"thought_signature": "skip_thought_signature_validator"}} //nolint:gochecknoglobals // it is only read

// encode is the body of a Chat Completions request.
func encode(p *llm.Prepared) (object, error) {
	out := object{"model": p.Model, "stream": true, "stream_options": object{"include_usage": true}}
	if p.Effort != "" {
		out["reasoning_effort"] = p.Effort
	}
	switch {
	case p.MaxOutputTokens <= 0:
	case p.Official:
		out["max_completion_tokens"] = p.MaxOutputTokens // reasoning models reject the old name
	default:
		out["max_tokens"] = p.MaxOutputTokens // some endpoints know only this name
	}
	p.Sample(out, "stop")
	if v, err := strconv.ParseInt(string(p.Sampling.Seed), 10, 64); err == nil {
		out["seed"] = v
	}
	declare(out, p, func(f object) object { return object{"type": "function", "function": f} })
	if f := format(p.Output); f != nil {
		form := object{"type": f["type"]}
		if delete(f, "type"); len(f) > 0 {
			form["json_schema"] = f
		}
		out["response_format"] = form
	}
	called := false
	reply := func(m events.Message) []object {
		called = called || slices.ContainsFunc(m.Parts, func(part events.Part) bool { return part.Kind == events.PartToolCall })
		return []object{assistant(p, m, called)}
	}
	messages := converted(p.Messages, reply, func(m events.Message) []object { return user(p, m) })
	for _, m := range messages {
		for about, field := range map[string]string{missesReasoning: reasoningFields[0], missesContent: "content"} {
			if m["role"] == "assistant" && m[field] == nil && p.Learned(about) != nil {
				m[field] = ""
			}
		}
	}
	out["messages"] = messages
	return out, nil
}

const received = "[results received]" // said between results and a message of the user: templates of some models take none right after a result

// user converts results to tool messages and the rest to one user message.
func user(p *llm.Prepared, m events.Message) []object {
	out, said := parted(m, func(part events.Part) object {
		return object{"role": "tool", "tool_call_id": part.Call, "name": p.ToolName(part.Tool), "content": part.Text}
	}, piece)
	if len(said) == 0 {
		return out
	}
	if len(out) > 0 {
		out = append(out, object{"role": "assistant", "content": received})
	}
	if slices.ContainsFunc(m.Parts, func(part events.Part) bool { return part.Kind == events.PartAttachment }) {
		return append(out, object{"role": "user", "content": said})
	}
	return append(out, object{"role": "user", "content": paragraphs(m.Parts)}) // many endpoints have no pieces
}

func piece(part events.Part) object {
	if part.Kind == events.PartAttachment && strings.HasPrefix(part.MediaType, "image/") {
		return object{"type": "image_url", "image_url": object{"url": llm.URLOf(part)}}
	}
	return object{"type": "text", "text": llm.Shown(part)}
}

// assistant converts a reply. This dialect has no reasoning. Endpoints that require it back do so from the first call of the
// conversation on, and receive it there, or in all messages if they say that they miss it.
func assistant(p *llm.Prepared, m events.Message, called bool) object {
	out := object{"role": "assistant"}
	var calls []object
	for _, part := range m.Parts {
		own := p.Own(part).Fields
		switch part.Kind {
		case events.PartToolCall:
			function := object{"name": p.ToolName(part.Tool), "arguments": string(p.Args(part))}
			call := object{"id": part.Call, "type": "function", "function": function}
			giveBack(own, map[string]object{"message": out, "function": function, "": call})
			if len(own) == 0 && p.Learned(missesSignature) != nil {
				call["extra_content"] = unsigned
			}
			calls = append(calls, call)
		case events.PartReasoning:
			giveBack(own, map[string]object{"message": out})
			if field := own.Label(textField); (called || p.Learned(missesReasoning) != nil) && slices.Contains(reasoningFields, field) {
				before, _ := out[field].(string)
				out[field] = before + part.Text
			}
		default: // the text has all others
		}
	}
	if len(calls) > 0 {
		out["tool_calls"] = calls
	}
	if text := m.Text(); text != "" && (len(calls) == 0 || p.Learned(contentAlone) == nil) {
		out["content"] = text
	}
	return out
}

// giveBack adds vendor fields to what they were in, by their prefixes.
func giveBack(fields llm.Members, to map[string]object) {
	for name, value := range fields {
		prefix, field, prefixed := strings.Cut(name, ".")
		if !prefixed {
			prefix, field = "", name
		}
		if in := to[prefix]; in != nil {
			in[field] = value
		}
	}
}
