package recording

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"

	"github.com/lash-go/lash/events"
)

// block is a part of a content, in the words of all formats.
type block struct {
	raw        json.RawMessage
	Type       string          `json:"type"`
	Text       *string         `json:"text"`
	Refusal    *string         `json:"refusal"`
	Thinking   string          `json:"thinking"`
	ImageURL   json.RawMessage `json:"image_url"`
	InputAudio struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
	Source   struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
		URL       string `json:"url"`
	} `json:"source"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Input     json.RawMessage `json:"input"`
	ToolUseID events.CallID   `json:"tool_use_id"`
	IsError   bool            `json:"is_error"`
	Content   json.RawMessage `json:"content"`
}

// UnmarshalJSON keeps the block's JSON, also of one whose fields are not those of its type.
func (b *block) UnmarshalJSON(data []byte) error {
	type plain block
	if kindOf(data) != '{' {
		return errors.New("content: a part is not an object")
	}
	if json.Unmarshal(data, (*plain)(b)) != nil {
		*b = block{}
	}
	b.raw = compact(data)
	return nil
}

// part is the part of a message. A block of an unknown type, or without what its type has, is kept as it is. Only replies have reasoning and
// calls.
func (b *block) part(reply bool) events.Part {
	var media, body string
	switch b.Type {
	case "text", "input_text", "output_text", "summary_text", "reasoning_text":
		if b.Text != nil {
			return textPart(*b.Text)
		}
	case "refusal":
		if b.Refusal != nil {
			return textPart(*b.Refusal)
		}
	case "image_url", "input_image", "computer_screenshot":
		media, body = imageAt(b.ImageURL)
	case "input_audio":
		media, body = "audio/"+b.InputAudio.Format, b.InputAudio.Data
	case "image", "document":
		if b.Source.Type == "text" {
			return textPart(b.Source.Data)
		}
		media, body = cmp.Or(b.MimeType, b.Source.MediaType), cmp.Or(b.Data, b.Source.Data, b.Source.URL)
		if media == "" && b.Source.URL != "" {
			media = b.Type + "/*"
		}
	case "thinking", "redacted_thinking":
		if reply {
			return events.Part{Kind: events.PartReasoning, Text: b.Thinking, Meta: b.pick("thinkingSignature", "redacted", "signature", "data")}
		}
	case "toolCall", "tool_use":
		if reply && b.Name != "" {
			return events.Part{
				Kind: events.PartToolCall, Call: events.CallID(b.ID), Tool: b.Name, Args: argsOf(b.Arguments, b.Input), Meta: b.pick("thoughtSignature"),
			}
		}
	}
	if media == "" || body == "" {
		return events.Part{Kind: events.PartAttachment, Meta: b.raw}
	}
	return events.Part{Kind: events.PartAttachment, MediaType: media, Text: body}
}

func (b *block) pick(keys ...string) []byte {
	o, _ := into[object](b.raw)
	return o.pick(keys...)
}

// imageAt reads {url}, or the bare URL that some exporters write. It decodes base64 from a data URL; for any other URL the type is unknown.
func imageAt(raw json.RawMessage) (media, body string) {
	o, _ := into[object](raw)
	url := cmp.Or(textOf(raw), textOf(o["url"]))
	if data, ok := strings.CutPrefix(url, "data:"); ok {
		if media, body, ok := strings.Cut(data, ";base64,"); ok && media != "" {
			return media, body
		}
	}
	return "image/*", url
}

// content reads the content of a message: null, a string or an array of parts. An empty string is no part; an empty
// text part is a part.
func content(raw json.RawMessage, reply bool) ([]events.Part, error) {
	if text := textOf(raw); text != "" {
		return []events.Part{textPart(text)}, nil
	}
	blocks, err := blocksOf(raw)
	var parts []events.Part
	for i := range blocks {
		parts = append(parts, blocks[i].part(reply))
	}
	return parts, err
}

func blocksOf(raw json.RawMessage) ([]block, error) {
	switch kindOf(raw) {
	case 'n', '"':
		return nil, nil
	case '[':
		return into[[]block](raw)
	}
	return nil, errors.New("content: neither a string nor an array")
}

func textPart(text string) events.Part { return events.Part{Kind: events.PartText, Text: text} }

// splitResult separates the text parts of a tool's result from the others.
func splitResult(parts []events.Part) (text string, attachments []events.Part) {
	var texts []string
	for _, p := range parts {
		if p.Kind == events.PartText {
			texts = append(texts, p.Text)
		} else {
			attachments = append(attachments, p)
		}
	}
	return strings.Join(texts, "\n"), attachments
}

// usage counts tokens, in the words of all formats. Where tokens of the cache are cached ones, the input has them too.
type usage struct {
	Input         count `json:"input"`
	Output        count `json:"output"`
	CacheRead     count `json:"cacheRead"`
	CacheWrite    count `json:"cacheWrite"`
	Cached        count `json:"cached"`
	Reasoning     count `json:"reasoning"`
	InputTokens   count `json:"input_tokens"`
	OutputTokens  count `json:"output_tokens"`
	ReadTokens    count `json:"cache_read_input_tokens"`
	WrittenTokens count `json:"cache_creation_input_tokens"`
	CachedTokens  count `json:"cached_input_tokens"`
	Details       struct {
		Cached count `json:"cached_tokens"`
	} `json:"input_tokens_details"`
	ReasoningTokens count `json:"reasoning_output_tokens"`
}

func (u *usage) events() events.Usage {
	cached := u.Cached + max(u.CachedTokens, u.Details.Cached)
	return events.Usage{
		Input: int64(max(u.Input+u.InputTokens-cached, 0)), Output: int64(u.Output + u.OutputTokens),
		CacheRead: int64(u.CacheRead + u.ReadTokens + cached), CacheWrite: int64(u.CacheWrite + u.WrittenTokens),
		Reasoning: int64(u.Reasoning + u.ReasoningTokens),
	}
}

// stopOf is the reason for which a reply of pi or Claude Code ended.
func stopOf(reason string) events.StopReason {
	switch reason {
	case "stop", "end_turn", "stop_sequence":
		return events.StopEnd
	case "toolUse", "tool_use":
		return events.StopToolUse
	case "length", "max_tokens":
		return events.StopOutputLimit
	case "error":
		return events.StopProviderError
	case "aborted":
		return events.StopCancelled
	case "model_context_window_exceeded":
		return events.StopContextOverflow
	case "refusal":
		return events.StopContentFilter
	default:
		return events.StopUnknown
	}
}
