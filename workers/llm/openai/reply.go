package openai

import (
	"bytes"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Vendor fields that the endpoint that sent them requires back: those of the text of reasoning, and others.
const (
	reasoningContent = "reasoning_content"
	reasoning        = "reasoning"

	textField  = "text_field"    // of reasoning: the name of the field that its text was in
	extraField = "extra_content" // of calls
)

// chunk is an event of a Chat Completions stream.
type chunk struct {
	ID      llm.Label
	Model   llm.Label
	Choices []choice
	Usage   json.RawMessage
	Error   json.RawMessage
}

type choice struct {
	Index        llm.Number
	FinishReason llm.Label `json:"finish_reason"`
	Delta        struct {
		Content          json.RawMessage
		Refusal          json.RawMessage
		ReasoningContent json.RawMessage `json:"reasoning_content"`
		Reasoning        json.RawMessage
		ToolCalls        []toolCall `json:"tool_calls"`
		FunctionCall     *function  `json:"function_call"` // deprecated by OpenAI, still sent by others
	}
}

type toolCall struct {
	Index    *llm.Number
	ID       llm.Label
	Function function
	Extra    json.RawMessage `json:"extra_content"`
}

type function struct {
	Name      llm.Label
	Arguments json.RawMessage
}

// decode reads an event of a Chat Completions stream.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	if bytes.HasPrefix(e.Data, []byte("[DONE]")) {
		return llm.Update{Done: true, End: &llm.End{Detail: "no finish_reason"}}, nil
	}
	if e.Name == "error" {
		return failed(e.Data), nil
	}
	var c chunk
	if err := llm.Decode(e.Data, &c); err != nil {
		return u, err
	}
	if llm.IsSet(c.Error) {
		return failed(e.Data), nil
	}
	u.Model, u.ID, u.Usage = string(c.Model), string(c.ID), chatCounts(c.Usage)
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one choice is requested
		}
		if u.Pieces, err = choice.pieces(u.Pieces); err != nil {
			return u, err
		}
		if reason := string(choice.FinishReason); reason != "" {
			u.End = &llm.End{Reason: reason, Detail: "finish_reason: " + reason}
		}
	}
	return u, nil
}

func failed(data []byte) llm.Update {
	f, _ := llm.ParseFailure(data)
	return llm.Update{Failure: &f}
}

// pieces appends the pieces of a choice to list.
func (c choice) pieces(list []llm.Piece) ([]llm.Piece, error) {
	d := c.Delta
	if p, ok := thought(reasoningContent, d.ReasoningContent); ok {
		list = append(list, p)
	} else if p, ok := thought(reasoning, d.Reasoning); ok { // OpenRouter sends both, with one text
		list = append(list, p)
	}
	for _, raw := range []json.RawMessage{d.Content, d.Refusal} {
		text, err := llm.TextOf(raw)
		if err != nil {
			return nil, err
		}
		list = append(list, llm.Piece{Kind: events.PartText, Text: text})
	}
	calls := d.ToolCalls
	if d.FunctionCall != nil {
		calls = append(calls, toolCall{Function: *d.FunctionCall})
	}
	for _, c := range calls {
		p, err := c.piece()
		if err != nil {
			return nil, err
		}
		list = append(list, p)
	}
	return list, nil
}

// thought is reasoning, which compatible endpoints send in fields of their own. What is no text in such a field is none.
func thought(field string, raw json.RawMessage) (p llm.Piece, ok bool) {
	text, err := llm.TextOf(raw)
	if err != nil || text == "" {
		return p, false
	}
	return llm.Piece{Kind: events.PartReasoning, Text: text, Fields: map[string]json.RawMessage{textField: llm.Quote(field)}}, true
}

func (c toolCall) piece() (llm.Piece, error) {
	args, err := llm.ArgumentsOf(c.Function.Arguments)
	p := llm.Piece{Kind: events.PartToolCall, ID: string(c.ID), Index: c.Index, Call: events.CallID(c.ID), Tool: string(c.Function.Name), Text: args}
	if llm.IsSet(c.Extra) {
		p.Fields = map[string]json.RawMessage{extraField: c.Extra}
	}
	return p, err
}

// chatCounts separates Input, CacheRead and CacheWrite: the dialect counts the latter two in prompt_tokens. What is no
// usage counts nothing.
func chatCounts(raw json.RawMessage) llm.Counts {
	var u *struct {
		PromptTokens        llm.Number   `json:"prompt_tokens"`
		PromptTokensDetails inputDetails `json:"prompt_tokens_details"`
		CompletionTokens    llm.Number   `json:"completion_tokens"`
		CompletionDetails   struct {
			ReasoningTokens llm.Number `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
	if json.Unmarshal(raw, &u) != nil || u == nil {
		return llm.Counts{}
	}
	return u.PromptTokensDetails.counts(u.PromptTokens, u.CompletionTokens, u.CompletionDetails.ReasoningTokens)
}

// inputDetails are the counts that both dialects have in the tokens of the input.
type inputDetails struct {
	Cached  llm.Number `json:"cached_tokens"`
	Written llm.Number `json:"cache_write_tokens"`
}

func (d inputDetails) counts(in, out, reasoning llm.Number) llm.Counts {
	in = max(in-d.Cached-d.Written, 0)
	return llm.Counts{Input: &in, Output: &out, CacheRead: &d.Cached, CacheWrite: &d.Written, Reasoning: &reasoning}
}
