package openai

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// maxItemCallID is the longest call_id that the Responses API accepts.
const maxItemCallID = 64

func (p *Responses) params(req llm.Request) (responses.ResponseNewParams, error) {
	params := responses.ResponseNewParams{
		Model:     req.Model,
		Store:     param.NewOpt(false),
		Reasoning: shared.ReasoningParam{Effort: shared.ReasoningEffort(req.Effort)},
	}
	if req.Effort != "" { // other models reject include; reasoning may be sent without it
		params.Include = []responses.ResponseIncludable{responses.ResponseIncludableReasoningEncryptedContent}
	}
	if req.MaxOutputTokens > 0 {
		params.MaxOutputTokens = param.NewOpt(req.MaxOutputTokens)
	}
	if err := sampleResponse(&params, req.Sampling); err != nil {
		return params, err
	}
	for _, t := range req.Tools {
		tool, err := function(t)
		if err != nil {
			return params, err
		}
		params.Tools = append(params.Tools, tool)
	}
	if len(req.Tools) > 0 {
		params.ToolChoice = functionChoice(req.ToolChoice)
	}
	var err error
	if params.Text.Format, err = textFormat(req.Output); err != nil {
		return params, err
	}
	messages, err := llm.Dialog(req.Messages, itemCallID)
	if err != nil {
		return params, err
	}
	names := llm.ToolNames(req.Tools)
	for _, m := range messages {
		params.Input.OfInputItemList = append(params.Input.OfInputItemList, p.items(m, names)...)
	}
	return params, nil
}

// sampleResponse sends the fields that are set. The API has no seed and no stop sequences.
func sampleResponse(params *responses.ResponseNewParams, s events.Sampling) error {
	if s.Seed != "" || len(s.Stop) > 0 {
		return &llm.Error{Kind: llm.KindRequest, Message: "the provider knows neither a seed nor stop sequences"}
	}
	if v, err := strconv.ParseFloat(string(s.Temperature), 64); err == nil {
		params.Temperature = param.NewOpt(v)
	}
	if v, err := strconv.ParseFloat(string(s.TopP), 64); err == nil {
		params.TopP = param.NewOpt(v)
	}
	return nil
}

// function declares a tool. Strict is false explicitly: the API's default is strict, which most schemas do not fit.
func function(t llm.Tool) (responses.ToolUnionParam, error) {
	schema, err := llm.Schema(t)
	if err != nil {
		return responses.ToolUnionParam{}, err
	}
	f := responses.FunctionToolParam{Name: t.Name, Parameters: map[string]any{}, Strict: param.NewOpt(false)}
	if t.Description != "" {
		f.Description = param.NewOpt(t.Description)
	}
	for k, v := range schema {
		f.Parameters[k] = v
	}
	return responses.ToolUnionParam{OfFunction: &f}, nil
}

// functionChoice is empty if the model chooses, which is the API's default.
func functionChoice(c llm.ToolChoice) (out responses.ResponseNewParamsToolChoiceUnion) {
	switch {
	case c.Tool != "":
		out.OfFunctionTool = &responses.ToolChoiceFunctionParam{Name: c.Tool}
	case c.None:
		out.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsNone)
	case c.Required:
		out.OfToolChoiceMode = param.NewOpt(responses.ToolChoiceOptionsRequired)
	}
	return out
}

// textFormat is empty for text, which is the API's default.
func textFormat(o llm.Output) (out responses.ResponseFormatTextConfigUnionParam, err error) {
	switch {
	case len(o.Schema) > 0:
		schema, err := llm.OutputSchema(o)
		if err != nil {
			return out, err
		}
		f := responses.ResponseFormatTextJSONSchemaConfigParam{Name: o.Name, Strict: param.NewOpt(o.Strict), Schema: map[string]any{}}
		for k, v := range schema {
			f.Schema[k] = v
		}
		out.OfJSONSchema = &f
	case o.JSON:
		out.OfJSONObject = &shared.ResponseFormatJSONObjectParam{}
	}
	return out, nil
}

func itemCallID(raw events.CallID) string { return clipID(raw, maxItemCallID) }

// items converts a message of the dialog: one item for each part.
func (p *Responses) items(m events.Message, names func(string) string) responses.ResponseInputParam {
	switch m.Role {
	case events.RoleSystem:
		if text := paragraphs(m.Parts); text != "" {
			return responses.ResponseInputParam{say(responses.EasyInputMessageRoleSystem, text, "")}
		}
	case events.RoleAssistant:
		return p.replies(m, names)
	case events.RoleUser:
		return inputs(m)
	}
	return nil
}

func say(role responses.EasyInputMessageRole, text, phase string) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfMessage(text, role)
	item.OfMessage.Phase = responses.EasyInputMessagePhase(phase)
	return item
}

// inputs converts results, each to an item, and the rest to one message.
func inputs(m events.Message) (out responses.ResponseInputParam) {
	var content responses.ResponseInputMessageContentListParam
	for _, part := range m.Parts {
		switch part.Kind {
		case events.PartToolResult:
			result := responses.ResponseInputItemParamOfFunctionCallOutput(part.Text)
			result.OfFunctionCallOutput.CallID = param.NewOpt(string(part.Call))
			out = append(out, result)
		case events.PartText:
			if part.Text != "" {
				content = append(content, responses.ResponseInputContentParamOfInputText(part.Text))
			}
		case events.PartAttachment:
			content = append(content, inputAttachment(part))
		case events.PartReasoning, events.PartToolCall: // not in a user message
		}
	}
	if len(content) > 0 {
		out = append(out, responses.ResponseInputItemParamOfMessage(content, responses.EasyInputMessageRoleUser))
	}
	return out
}

func inputAttachment(part events.Part) responses.ResponseInputContentUnionParam {
	src := source(part)
	switch {
	case strings.HasPrefix(part.MediaType, "image/"):
		image := responses.ResponseInputContentParamOfInputImage(responses.ResponseInputImageDetailAuto)
		image.OfInputImage.ImageURL = param.NewOpt(src)
		return image
	case part.MediaType != "application/pdf":
		return responses.ResponseInputContentParamOfInputText(unsupportedText(part))
	case strings.HasPrefix(src, "data:"):
		return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{
			FileData: param.NewOpt(src), Filename: param.NewOpt("attachment.pdf"),
		}}
	}
	return responses.ResponseInputContentUnionParam{OfInputFile: &responses.ResponseInputFileParam{FileURL: param.NewOpt(src)}}
}

// replies converts the parts of a reply. Reasoning is never last: the API rejects it without the item that followed
// it.
func (p *Responses) replies(m events.Message, names func(string) string) responses.ResponseInputParam {
	var out responses.ResponseInputParam
	last := 0
	for _, part := range m.Parts {
		own := p.ownItem(part.Meta)
		switch part.Kind {
		case events.PartText:
			if part.Text != "" {
				out = append(out, say(responses.EasyInputMessageRoleAssistant, part.Text, own.Phase))
				last = len(out)
			}
		case events.PartToolCall:
			args := string(part.Args)
			if !json.Valid(part.Args) {
				args = "{}"
			}
			out = append(out, responses.ResponseInputItemParamOfFunctionCall(args, string(part.Call), names(part.Tool)))
			last = len(out)
		case events.PartReasoning:
			if own.Encrypted != "" || own.Open {
				out = append(out, own.reasoning(part.Text))
			}
		case events.PartAttachment, events.PartToolResult:
		}
	}
	return out[:last]
}

// itemMeta is the data of a part for its replay to its endpoint.
type itemMeta struct {
	Host      string `json:"openai_responses_host"`
	ID        string `json:"id,omitempty"`        // of a reasoning item
	Encrypted string `json:"encrypted,omitempty"` // the reasoning, which only the endpoint can read
	Open      bool   `json:"open,omitempty"`      // the part's text is the reasoning itself, not a summary
	Phase     string `json:"phase,omitempty"`     // of a message
}

// reasoning is the endpoint's item with the text of its part.
func (m itemMeta) reasoning(text string) responses.ResponseInputItemUnionParam {
	item := responses.ResponseInputItemParamOfReasoning(m.ID, []responses.ResponseReasoningItemSummaryParam{})
	switch {
	case m.Encrypted != "":
		item.OfReasoning.EncryptedContent = param.NewOpt(m.Encrypted)
		if text != "" && !m.Open {
			item.OfReasoning.Summary = append(item.OfReasoning.Summary, responses.ResponseReasoningItemSummaryParam{Text: text})
		}
	default:
		item.OfReasoning.Content = []responses.ResponseReasoningItemContentParam{{Text: text}}
	}
	return item
}

// ownItem reads the data that this provider stored for this endpoint; for others it is empty.
func (p *Responses) ownItem(data []byte) itemMeta {
	var m itemMeta
	if len(data) == 0 || json.Unmarshal(data, &m) != nil || m.Host != p.host {
		return itemMeta{}
	}
	return m
}
