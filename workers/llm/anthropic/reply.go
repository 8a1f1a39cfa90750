package anthropic

import (
	"cmp"
	"encoding/json"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// redactedField is the data of a reasoning part in place of a text that the API withholds.
const redactedField = "redacted"

// streamEvent has the fields of all events. Those of a text are raw where another field says whether it is one.
type streamEvent struct {
	Type    llm.Label
	Message struct {
		ID    llm.Label
		Model llm.Label
		Usage json.RawMessage
	}
	Index        llm.Number
	ContentBlock contentBlock `json:"content_block"`
	Delta        struct {
		Type        llm.Label
		Text        json.RawMessage
		Thinking    json.RawMessage
		PartialJSON json.RawMessage `json:"partial_json"`
		Signature   json.RawMessage
		StopReason  llm.Label `json:"stop_reason"`
		StopDetails struct {
			Explanation llm.Label
		} `json:"stop_details"`
	}
	Usage json.RawMessage
}

type contentBlock struct {
	Type      llm.Label
	Text      json.RawMessage
	Thinking  json.RawMessage
	Signature json.RawMessage
	Data      llm.Label
	ID        llm.Label
	Name      llm.Label
	Input     json.RawMessage
}

// decode reads an event of a stream. An event without a type has its name.
func decode(e llm.ServerEvent) (u llm.Update, err error) {
	var ev streamEvent
	malformed := llm.Decode(e.Data, &ev)
	name := cmp.Or(string(ev.Type), e.Name)
	if name == "error" || e.Name == "error" {
		f, _ := llm.ParseFailure(e.Data)
		return llm.Update{Failure: &f}, nil
	}
	switch name {
	case "":
		err = llm.Malformed("an event without a type")
	case "message_start":
		u.Model, u.ID, u.Usage = string(ev.Message.Model), string(ev.Message.ID), counts(ev.Message.Usage)
	case "content_block_start":
		u.Pieces, err = begin(ev)
	case "content_block_delta":
		u.Pieces, err = delta(ev)
	case "message_delta":
		u.Usage = counts(ev.Usage)
		if reason := string(ev.Delta.StopReason); reason != "" {
			u.End = &llm.End{Reason: reason, Detail: "stop_reason: " + reason + " " + string(ev.Delta.StopDetails.Explanation)}
		}
	case "message_stop":
		u.Done = true
	default: // ping, content_block_stop and what the API may add, with any fields
		if ev.Type != "" {
			return u, nil
		}
	}
	return u, cmp.Or(malformed, err)
}

// begin begins a block. Those of server tools are left out.
func begin(ev streamEvent) ([]llm.Piece, error) {
	var err, err2 error
	c := ev.ContentBlock
	p := llm.Piece{Begin: true, Index: &ev.Index}
	switch c.Type {
	case "text":
		p.Kind = events.PartText
		p.Text, err = llm.TextOf(c.Text)
	case "thinking":
		p.Kind = events.PartReasoning
		p.Text, err = llm.TextOf(c.Thinking)
		p.Signature, err2 = llm.TextOf(c.Signature)
	case "redacted_thinking":
		p.Kind, p.Fields = events.PartReasoning, map[string]json.RawMessage{redactedField: llm.Quote(string(c.Data))}
	case "tool_use": // some endpoints do not stream the input
		p.Kind, p.Call, p.Tool, p.Whole = events.PartToolCall, events.CallID(c.ID), string(c.Name), true
		p.Text, err = llm.ArgumentsOf(c.Input)
	}
	return []llm.Piece{p}, cmp.Or(err, err2)
}

// delta is the piece of a delta; there is none in citations and in what the API may add.
func delta(ev streamEvent) (list []llm.Piece, err error) {
	p := llm.Piece{Index: &ev.Index}
	switch d := ev.Delta; d.Type {
	case "text_delta":
		p.Kind = events.PartText
		p.Text, err = llm.TextOf(d.Text)
	case "thinking_delta":
		p.Kind = events.PartReasoning
		p.Text, err = llm.TextOf(d.Thinking)
	case "signature_delta":
		p.Kind = events.PartReasoning
		p.Signature, err = llm.TextOf(d.Signature)
	case "input_json_delta":
		p.Kind = events.PartToolCall
		p.Text, err = llm.TextOf(d.PartialJSON)
	default:
		return nil, nil
	}
	return []llm.Piece{p}, err
}

// counts are totals, in both events that have them. What is no usage counts nothing.
func counts(raw json.RawMessage) llm.Counts {
	var u struct {
		InputTokens              *llm.Number `json:"input_tokens"`
		OutputTokens             *llm.Number `json:"output_tokens"`
		CacheReadInputTokens     *llm.Number `json:"cache_read_input_tokens"`
		CacheCreationInputTokens *llm.Number `json:"cache_creation_input_tokens"`
		OutputTokensDetails      struct {
			ThinkingTokens *llm.Number `json:"thinking_tokens"`
		} `json:"output_tokens_details"`
	}
	_ = json.Unmarshal(raw, &u)
	return llm.Counts{
		Input:      u.InputTokens,
		Output:     u.OutputTokens,
		CacheRead:  u.CacheReadInputTokens,
		CacheWrite: u.CacheCreationInputTokens,
		Reasoning:  u.OutputTokensDetails.ThinkingTokens,
	}
}
