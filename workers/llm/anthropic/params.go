package anthropic

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

const (
	// defaultMaxTokens is sent for a request without a limit, because the API requires one. Every model allows this
	// many.
	defaultMaxTokens = 4096
	maxCallID        = 64 // characters of a tool_use id
)

func params(req llm.Request) (anthropic.MessageNewParams, error) {
	out := anthropic.MessageNewParams{
		Model:     req.Model,
		MaxTokens: defaultMaxTokens,
		// Marks the end of the prompt: the next iteration of a turn begins with this one.
		CacheControl: anthropic.NewCacheControlEphemeralParam(),
	}
	if req.MaxOutputTokens > 0 {
		out.MaxTokens = req.MaxOutputTokens
	}
	if req.Effort != "" {
		out.OutputConfig.Effort = anthropic.OutputConfigEffort(req.Effort)
		if len(req.Tools) == 0 || !req.ToolChoice.Forced() { // the API rejects thinking with a forced call
			out.Thinking.OfAdaptive = &anthropic.ThinkingConfigAdaptiveParam{}
		}
	}
	if err := sample(&out, req.Sampling); err != nil {
		return out, err
	}
	var err error
	if out.OutputConfig.Format, err = format(req.Output); err != nil {
		return out, err
	}
	for _, t := range req.Tools {
		tool, err := tool(t)
		if err != nil {
			return out, err
		}
		out.Tools = append(out.Tools, tool)
	}
	if len(req.Tools) > 0 { // the API rejects a choice without tools
		out.ToolChoice = toolChoice(req.ToolChoice)
	}
	system, rest := leading(req.Messages)
	out.System = system
	messages, err := llm.Dialog(rest, callID)
	if err != nil {
		return out, err
	}
	out.Messages = turns(messages, llm.ToolNames(req.Tools))
	return out, nil
}

// sample sends the fields that are set. The API has no seed, and its temperatures end at 1.
func sample(out *anthropic.MessageNewParams, s events.Sampling) error {
	if s.Seed != "" {
		return &llm.Error{Kind: llm.KindRequest, Message: "the provider knows no seed"}
	}
	if v, err := strconv.ParseFloat(string(s.Temperature), 64); err == nil {
		if v > 1 {
			return &llm.Error{Kind: llm.KindRequest, Message: "the provider's temperatures end at 1"}
		}
		out.Temperature = param.NewOpt(v)
	}
	if v, err := strconv.ParseFloat(string(s.TopP), 64); err == nil {
		out.TopP = param.NewOpt(v)
	}
	out.StopSequences = s.Stop
	return nil
}

// toolChoice is empty if the model chooses, which is the API's default.
func toolChoice(c llm.ToolChoice) anthropic.ToolChoiceUnionParam {
	switch {
	case c.Tool != "":
		return anthropic.ToolChoiceParamOfTool(c.Tool)
	case c.Required:
		return anthropic.ToolChoiceUnionParam{OfAny: &anthropic.ToolChoiceAnyParam{}}
	case c.None:
		none := anthropic.NewToolChoiceNoneParam()
		return anthropic.ToolChoiceUnionParam{OfNone: &none}
	}
	return anthropic.ToolChoiceUnionParam{}
}

// format is empty for text. The API has schemas, which are always enforced and have no name, and no JSON without a
// schema.
func format(o llm.Output) (out anthropic.JSONOutputFormatParam, err error) {
	if len(o.Schema) == 0 {
		if o.JSON {
			err = &llm.Error{Kind: llm.KindRequest, Message: "the provider cannot be held to a JSON object without a schema"}
		}
		return out, err
	}
	schema, err := llm.OutputSchema(o)
	if err != nil {
		return out, err
	}
	out.Schema = make(map[string]any, len(schema))
	for k, v := range schema {
		out.Schema[k] = v
	}
	return out, nil
}

// callID converts an id to ^[a-zA-Z0-9_-]+$. The result may be empty.
func callID(raw events.CallID) string { return llm.Token(string(raw), maxCallID) }

func tool(t llm.Tool) (anthropic.ToolUnionParam, error) {
	schema, err := llm.Schema(t)
	if err != nil {
		return anthropic.ToolUnionParam{}, err
	}
	raw, err := json.Marshal(schema)
	if err != nil {
		return anthropic.ToolUnionParam{}, err
	}
	out := anthropic.ToolParam{Name: t.Name, InputSchema: param.Override[anthropic.ToolInputSchemaParam](json.RawMessage(raw))}
	if t.Description != "" {
		out.Description = param.NewOpt(t.Description)
	}
	return anthropic.ToolUnionParam{OfTool: &out}, nil
}

// leading splits the system messages at the beginning from the rest.
func leading(messages []events.Message) (system []anthropic.TextBlockParam, rest []events.Message) {
	for i, m := range messages {
		if m.Role != events.RoleSystem {
			return system, messages[i:]
		}
		for _, part := range m.Parts {
			if part.Kind == events.PartText && !blank(part.Text) {
				system = append(system, anthropic.TextBlockParam{Text: part.Text})
			}
		}
	}
	return system, nil
}

// blank reports whether the API rejects text as a block.
func blank(text string) bool { return strings.TrimSpace(text) == "" }

// turns converts messages and merges neighbours with one role. Results are first in their message, because llm.Dialog
// puts them directly after the calls.
func turns(messages []events.Message, names func(string) string) []anthropic.MessageParam {
	var out []anthropic.MessageParam
	for _, m := range messages {
		role, blocks := anthropic.MessageParamRoleUser, userBlocks(m)
		if m.Role == events.RoleAssistant {
			role, blocks = anthropic.MessageParamRoleAssistant, assistantBlocks(m, names)
		}
		if len(blocks) == 0 {
			continue
		}
		if len(out) == 0 && role == anthropic.MessageParamRoleAssistant { // the API requires the user first
			out = append(out, anthropic.NewUserMessage(anthropic.NewTextBlock("[the conversation continues here]")))
		}
		if n := len(out) - 1; n >= 0 && out[n].Role == role {
			out[n].Content = append(out[n].Content, blocks...)
			continue
		}
		out = append(out, anthropic.MessageParam{Role: role, Content: blocks})
	}
	return out
}

// userBlocks converts a user message, or a system message that is too late for the system prompt.
func userBlocks(m events.Message) []anthropic.ContentBlockParamUnion {
	var out []anthropic.ContentBlockParamUnion
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartText:
			switch {
			case blank(part.Text):
			case m.Role == events.RoleSystem:
				out = append(out, anthropic.NewTextBlock("[system note]\n"+part.Text))
			default:
				out = append(out, anthropic.NewTextBlock(part.Text))
			}
		case events.PartToolResult:
			out = append(out, result(part))
		case events.PartAttachment:
			out = append(out, attachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	return out
}

func result(part events.Part) anthropic.ContentBlockParamUnion {
	block := anthropic.NewToolResultBlock(string(part.Call), part.Text, part.Outcome != events.OutcomeSuccess)
	if blank(part.Text) {
		block.OfToolResult.Content = nil
	}
	return block
}

func attachment(part events.Part) anthropic.ContentBlockParamUnion {
	media, data := part.MediaType, part.Text
	if rest, ok := strings.CutPrefix(data, "data:"); ok {
		media, data, _ = strings.Cut(rest, ";base64,")
	}
	remote := strings.HasPrefix(data, "https://") || strings.HasPrefix(data, "http://")
	switch media {
	case "image/jpeg", "image/png", "image/gif", "image/webp":
		if remote {
			return anthropic.NewImageBlock(anthropic.URLImageSourceParam{URL: data})
		}
		return anthropic.NewImageBlockBase64(media, data)
	case "application/pdf":
		if remote {
			return anthropic.NewDocumentBlock(anthropic.URLPDFSourceParam{URL: data})
		}
		return anthropic.NewDocumentBlock(anthropic.Base64PDFSourceParam{Data: data})
	}
	return anthropic.NewTextBlock(fmt.Sprintf("[an attachment of type %q, which cannot be shown here]", media))
}

// assistantBlocks converts a reply. Thinking is unchanged if it is from this API, and never last: the API rejects
// that.
func assistantBlocks(m events.Message, names func(string) string) []anthropic.ContentBlockParamUnion {
	var out []anthropic.ContentBlockParamUnion
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartText:
			if !blank(part.Text) {
				out = append(out, anthropic.NewTextBlock(part.Text))
			}
		case events.PartReasoning:
			out = append(out, thinking(part)...)
		case events.PartToolCall:
			out = append(out, anthropic.NewToolUseBlock(string(part.Call), input(part.Args), names(part.Tool)))
		case events.PartToolResult, events.PartAttachment: // not in an assistant message
		}
	}
	for len(out) > 0 && (out[len(out)-1].OfThinking != nil || out[len(out)-1].OfRedactedThinking != nil) {
		out = out[:len(out)-1]
	}
	return out
}

func thinking(part events.Part) []anthropic.ContentBlockParamUnion {
	var m meta
	if len(part.Meta) == 0 || json.Unmarshal(part.Meta, &m) != nil {
		return nil
	}
	switch {
	case m.Redacted != "":
		return []anthropic.ContentBlockParamUnion{anthropic.NewRedactedThinkingBlock(m.Redacted)}
	case m.Signature != "":
		return []anthropic.ContentBlockParamUnion{anthropic.NewThinkingBlock(m.Signature, part.Text)}
	}
	return nil
}

// input is args if it is an object, as the API requires.
func input(args []byte) json.RawMessage {
	if json.Valid(args) && bytes.HasPrefix(bytes.TrimLeft(args, " \t\r\n"), []byte("{")) {
		return args
	}
	return json.RawMessage("{}")
}
