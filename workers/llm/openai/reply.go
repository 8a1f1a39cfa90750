package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// reply is a streamed reply that is being received.
type reply struct {
	p     *Provider
	parts *llm.Assembly
	text  *llm.Slot
	think *llm.Slot
	calls []*streamedCall
	stop  string // finish_reason, empty until received
	usage events.Usage
	model string
	id    string
	done  bool // [DONE] was received
}

// streamedCall is a tool call that is being received.
type streamedCall struct {
	index int64
	slot  *llm.Slot
}

// meta is the data of a part for its replay: vendor fields that the same endpoint requires back.
type meta struct {
	Host  string          `json:"openai_host"`
	Field string          `json:"field"`           // reasoning: the field of the text; calls: the field of Value
	Value json.RawMessage `json:"value,omitempty"` // calls only
}

func newReply(p *Provider, sink func(llm.Delta)) *reply {
	return &reply{p: p, parts: llm.NewAssembly(sink)}
}

func (r *reply) event(e ssestream.Event) error {
	data := bytes.TrimSpace(e.Data)
	if bytes.HasPrefix(data, []byte("[DONE]")) {
		r.done = true
		return nil
	}
	var envelope struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil {
		return malformed(err)
	}
	if e.Type == "error" || len(envelope.Error) > 0 && string(envelope.Error) != "null" {
		f, _ := parseFailure(data)
		return r.p.failed(0, f, data)
	}
	var chunk openai.ChatCompletionChunk
	if err := json.Unmarshal(data, &chunk); err != nil {
		return malformed(err)
	}
	return r.chunk(chunk)
}

func malformed(err error) error {
	return &llm.Error{Kind: llm.KindMalformed, Message: "chunk is not the JSON it should be: " + llm.Clip(err.Error()), Err: err}
}

func (r *reply) chunk(c openai.ChatCompletionChunk) error {
	r.model, r.id = cmp.Or(r.model, c.Model), cmp.Or(r.id, c.ID)
	if c.JSON.Usage.Valid() {
		r.usage = usage(c.Usage)
	}
	for _, choice := range c.Choices {
		if choice.Index != 0 {
			continue // one choice is requested
		}
		if err := r.delta(choice.Delta); err != nil {
			return err
		}
		if choice.FinishReason != "" {
			r.stop = choice.FinishReason
		}
	}
	return nil
}

func (r *reply) delta(d openai.ChatCompletionChunkChoiceDelta) error {
	if err := r.reasoning(d); err != nil {
		return err
	}
	if content := d.Content + d.Refusal; content != "" {
		if r.text == nil {
			r.text = r.parts.Open(events.PartText)
		}
		if err := r.text.Write(content); err != nil {
			return err
		}
	}
	for _, tc := range d.ToolCalls {
		if err := r.call(tc); err != nil {
			return err
		}
	}
	//nolint:staticcheck // deprecated by OpenAI, still sent by others
	if f := d.FunctionCall; f.Name != "" || f.Arguments != "" {
		var tc openai.ChatCompletionChunkChoiceDeltaToolCall
		tc.Function.Name, tc.Function.Arguments = f.Name, f.Arguments
		return r.call(tc)
	}
	return nil
}

// reasoning receives the text that compatible endpoints send in fields of their own.
func (r *reply) reasoning(d openai.ChatCompletionChunkChoiceDelta) error {
	for _, field := range []string{"reasoning_content", "reasoning"} {
		content := rawText(d.JSON.ExtraFields[field])
		if content == "" {
			continue
		}
		if r.think == nil {
			r.think = r.parts.Open(events.PartReasoning)
			r.think.Part.Meta = r.p.meta(field, nil)
		}
		return r.think.Write(content) // one of them: OpenRouter sends the same text twice
	}
	return nil
}

// rawText decodes a field that the SDK does not know, by means of one that it knows: unlike encoding/json, the SDK
// keeps both halves of a character that was split between chunks.
func rawText(f respjson.Field) string {
	raw := f.Raw()
	if len(raw) == 0 || raw[0] != '"' {
		return ""
	}
	var d openai.ChatCompletionChunkChoiceDelta
	if json.Unmarshal([]byte(`{"content":`+raw+`}`), &d) != nil {
		return ""
	}
	return d.Content
}

func (r *reply) call(tc openai.ChatCompletionChunkChoiceDeltaToolCall) error {
	slot := r.find(tc)
	part := &slot.Part
	part.Call = cmp.Or(part.Call, events.CallID(tc.ID))
	if part.Tool != tc.Function.Name { // some endpoints repeat the name in every chunk, some split it
		part.Tool += tc.Function.Name
	}
	if extra := tc.JSON.ExtraFields["extra_content"].Raw(); extra != "" && extra != "null" {
		part.Meta = r.p.meta("extra_content", json.RawMessage(extra))
	}
	return slot.Write(tc.Function.Arguments)
}

// find returns the slot of the call that tc continues, or opens one. A new id with a known index is a new call: some
// endpoints number every call 0.
func (r *reply) find(tc openai.ChatCompletionChunkChoiceDeltaToolCall) *llm.Slot {
	if i := r.at(tc.Index); i >= 0 {
		known := r.calls[i].slot
		if tc.ID == "" || known.Part.Call == "" || known.Part.Call == events.CallID(tc.ID) {
			return known
		}
	}
	c := &streamedCall{index: tc.Index, slot: r.parts.Open(events.PartToolCall)}
	r.calls = append(r.calls, c)
	return c.slot
}

// at is the position of the latest call with that index, or -1.
func (r *reply) at(index int64) int {
	for i := len(r.calls) - 1; i >= 0; i-- {
		if r.calls[i].index == index {
			return i
		}
	}
	return -1
}

func (r *reply) isDone() bool { return r.done }

func (r *reply) counted() llm.Response { return llm.Response{Usage: r.usage, Model: r.model} }

// end returns the response. A reply is complete after its finish reason or [DONE]: a later loss of the connection
// loses only the usage.
func (r *reply) end(err error) (llm.Response, error) {
	if r.stop == "" && !r.done {
		if err == nil {
			err = errors.New("the stream ended before the reply did")
		}
		return llm.Response{Usage: r.usage, Model: r.model, ID: r.id}, err
	}
	res := llm.Response{Parts: r.parts.Parts(), Usage: r.usage, Model: r.model, ID: r.id}
	res.Stop = r.reason()
	if res.Stop == events.StopUnknown || res.Stop == events.StopContentFilter {
		res.Detail = llm.Redact("finish_reason: "+r.stop, r.p.key)
	}
	return res, nil
}

func (r *reply) reason() events.StopReason {
	switch r.stop {
	case "length":
		return events.StopOutputLimit
	case "content_filter":
		return events.StopContentFilter
	case "stop", "tool_calls", "function_call":
		if len(r.calls) > 0 {
			return events.StopToolUse
		}
		if r.stop == "stop" {
			return events.StopEnd
		}
		return events.StopToolUse
	}
	return events.StopUnknown
}

// usage separates Input, CacheRead and CacheWrite: the dialect counts the latter two in prompt_tokens.
func usage(u openai.CompletionUsage) events.Usage {
	in := u.PromptTokensDetails
	cached := in.CachedTokens
	return events.Usage{
		Input:      max(u.PromptTokens-cached-in.CacheWriteTokens, 0),
		Output:     u.CompletionTokens,
		CacheRead:  cached,
		CacheWrite: in.CacheWriteTokens,
		Reasoning:  u.CompletionTokensDetails.ReasoningTokens,
	}
}

func (p *Provider) meta(field string, value json.RawMessage) []byte {
	data, err := json.Marshal(meta{Host: p.host, Field: field, Value: value})
	if err != nil {
		return nil // value is not JSON: no meta
	}
	return data
}
