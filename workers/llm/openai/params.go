package openai

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// maxCallID is the longest tool_call id that OpenAI accepts.
const maxCallID = 40

func (p *Provider) params(req llm.Request) (openai.ChatCompletionNewParams, error) {
	params := openai.ChatCompletionNewParams{
		Model:           req.Model,
		ReasoningEffort: shared.ReasoningEffort(req.Effort),
		StreamOptions:   openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
	}
	switch {
	case req.MaxOutputTokens <= 0:
	case p.official():
		params.MaxCompletionTokens = param.NewOpt(req.MaxOutputTokens) // reasoning models reject the old name
	default:
		params.MaxTokens = param.NewOpt(req.MaxOutputTokens) // some endpoints know only this name
	}
	sample(&params, req.Sampling)
	for _, t := range req.Tools {
		tool, err := tool(t)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, tool)
	}
	if len(req.Tools) > 0 { // the API rejects a choice without tools
		params.ToolChoice = toolChoice(req.ToolChoice)
	}
	var err error
	if params.ResponseFormat, err = format(req.Output); err != nil {
		return params, err
	}
	messages, err := llm.Dialog(req.Messages, callID)
	if err != nil {
		return params, err
	}
	names := llm.ToolNames(req.Tools)
	for _, m := range messages {
		params.Messages = append(params.Messages, p.message(m, names)...)
	}
	return params, nil
}

// sample sends the fields that are set.
func sample(params *openai.ChatCompletionNewParams, s events.Sampling) {
	if v, err := strconv.ParseFloat(string(s.Temperature), 64); err == nil {
		params.Temperature = param.NewOpt(v)
	}
	if v, err := strconv.ParseFloat(string(s.TopP), 64); err == nil {
		params.TopP = param.NewOpt(v)
	}
	if v, err := strconv.ParseInt(string(s.Seed), 10, 64); err == nil {
		params.Seed = param.NewOpt(v)
	}
	params.Stop.OfStringArray = s.Stop
}

// toolChoice is empty if the model chooses, which is the API's default.
func toolChoice(c llm.ToolChoice) openai.ChatCompletionToolChoiceOptionUnionParam {
	mode := openai.ChatCompletionToolChoiceOptionAutoRequired
	switch {
	case c.Tool != "":
		return openai.ToolChoiceOptionFunctionToolChoice(openai.ChatCompletionNamedToolChoiceFunctionParam{Name: c.Tool})
	case c.None:
		mode = openai.ChatCompletionToolChoiceOptionAutoNone
	case !c.Required:
		return openai.ChatCompletionToolChoiceOptionUnionParam{}
	}
	return openai.ChatCompletionToolChoiceOptionUnionParam{OfAuto: param.NewOpt(string(mode))}
}

// format is empty for text, which is the API's default.
func format(o llm.Output) (out openai.ChatCompletionNewParamsResponseFormatUnion, err error) {
	switch {
	case len(o.Schema) > 0:
		if _, err := llm.OutputSchema(o); err != nil {
			return out, err
		}
		out.OfJSONSchema = &shared.ResponseFormatJSONSchemaParam{JSONSchema: shared.ResponseFormatJSONSchemaJSONSchemaParam{
			Name: o.Name, Strict: param.NewOpt(o.Strict), Schema: o.Schema,
		}}
	case o.JSON:
		out.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return out, nil
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

func tool(t llm.Tool) (openai.ChatCompletionToolUnionParam, error) {
	schema, err := llm.Schema(t)
	if err != nil {
		return openai.ChatCompletionToolUnionParam{}, err
	}
	f := shared.FunctionDefinitionParam{Name: t.Name, Parameters: shared.FunctionParameters{}}
	if t.Description != "" {
		f.Description = param.NewOpt(t.Description)
	}
	for k, v := range schema {
		f.Parameters[k] = v
	}
	return openai.ChatCompletionFunctionTool(f), nil
}

func (p *Provider) message(m events.Message, names func(string) string) []openai.ChatCompletionMessageParamUnion {
	switch m.Role {
	case events.RoleSystem:
		if text := paragraphs(m.Parts); text != "" {
			return []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(text)}
		}
	case events.RoleAssistant:
		return p.assistant(m, names)
	case events.RoleUser:
		return user(m)
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

// user converts results to tool messages and the rest to one user message.
func user(m events.Message) []openai.ChatCompletionMessageParamUnion {
	var out []openai.ChatCompletionMessageParamUnion
	var content []openai.ChatCompletionContentPartUnionParam
	plain := true
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolResult:
			out = append(out, openai.ToolMessage(part.Text, string(part.Call)))
		case events.PartText:
			if part.Text != "" {
				content = append(content, openai.TextContentPart(part.Text))
			}
		case events.PartAttachment:
			plain = false
			content = append(content, attachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	switch {
	case len(content) == 0:
		return out
	case plain: // many endpoints have no content parts
		return append(out, openai.UserMessage(paragraphs(m.Parts)))
	}
	return append(out, openai.UserMessage(content))
}

func attachment(part events.Part) openai.ChatCompletionContentPartUnionParam {
	if !strings.HasPrefix(part.MediaType, "image/") {
		return openai.TextContentPart(unsupportedText(part))
	}
	return openai.ImageContentPart(openai.ChatCompletionContentPartImageImageURLParam{URL: source(part)})
}

// unsupportedText is the text in place of an attachment that cannot be sent.
func unsupportedText(part events.Part) string {
	return fmt.Sprintf("[an attachment of type %q, which cannot be shown here]", part.MediaType)
}

// source is an attachment as a URL.
func source(part events.Part) string {
	if isURL(part.Text) {
		return part.Text
	}
	return "data:" + part.MediaType + ";base64," + part.Text
}

func isURL(s string) bool {
	return strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") || strings.HasPrefix(s, "data:")
}

// assistant converts a reply. This dialect has no reasoning. Endpoints that require it back do so within a chain of
// tool calls, and receive it there.
func (p *Provider) assistant(m events.Message, names func(string) string) []openai.ChatCompletionMessageParamUnion {
	var out openai.ChatCompletionAssistantMessageParam
	extra := map[string]any{}
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolCall:
			out.ToolCalls = append(out.ToolCalls, p.replay(part, names))
		case events.PartReasoning:
			if own, ok := p.ownMeta(part.Meta); ok {
				extra[own.Field] = part.Text
			}
		case events.PartText, events.PartAttachment, events.PartToolResult:
		}
	}
	text := m.Text()
	if text == "" && len(out.ToolCalls) == 0 {
		return nil
	}
	if text != "" {
		out.Content.OfString = param.NewOpt(text)
	}
	if len(out.ToolCalls) > 0 && len(extra) > 0 {
		out.SetExtraFields(extra)
	}
	return []openai.ChatCompletionMessageParamUnion{{OfAssistant: &out}}
}

func (p *Provider) replay(part events.Part, names func(string) string) openai.ChatCompletionMessageToolCallUnionParam {
	args := string(part.Args)
	if !json.Valid(part.Args) {
		args = "{}"
	}
	call := openai.ChatCompletionMessageFunctionToolCallParam{
		ID:       string(part.Call),
		Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: names(part.Tool), Arguments: args},
	}
	if own, ok := p.ownMeta(part.Meta); ok && len(own.Value) > 0 {
		call.SetExtraFields(map[string]any{own.Field: own.Value})
	}
	return openai.ChatCompletionMessageToolCallUnionParam{OfFunction: &call}
}

// ownMeta reads what this provider stored for this endpoint.
func (p *Provider) ownMeta(data []byte) (meta, bool) {
	var m meta
	if len(data) == 0 || json.Unmarshal(data, &m) != nil {
		return meta{}, false
	}
	switch m.Field {
	case "reasoning_content", "reasoning", "extra_content":
		return m, m.Host == p.host
	}
	return meta{}, false
}
