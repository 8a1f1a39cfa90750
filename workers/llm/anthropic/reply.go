package anthropic

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/ssestream"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// reply is a streamed reply that is being received.
type reply struct {
	p      *Provider
	parts  *llm.Assembly
	blocks map[int64]*block
	stop   anthropic.StopReason // empty until message_delta
	detail string
	usage  events.Usage
	model  string
	id     string
	done   bool // message_stop was received
}

// block is a content block that is being received.
type block struct {
	slot  *llm.Slot // nil for blocks that are dropped: those of server tools
	meta  meta
	input string // first value of a tool_use block, for endpoints that do not stream it
	wrote bool
}

// meta is the data of a reasoning part for its replay. Meta of other providers has none of it.
type meta struct {
	Signature string `json:"anthropic_signature,omitempty"`
	Redacted  string `json:"anthropic_redacted,omitempty"` // in place of a text that the API withholds
}

func newReply(p *Provider, sink func(llm.Delta)) *reply {
	return &reply{p: p, parts: llm.NewAssembly(sink), blocks: map[int64]*block{}}
}

func (r *reply) event(e ssestream.Event) error {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return nil
	}
	if e.Type == "error" {
		return r.failure(data)
	}
	var ev anthropic.MessageStreamEventUnion
	if err := json.Unmarshal(data, &ev); err != nil {
		return malformed(err)
	}
	switch ev.Type {
	case "":
		return malformed(errors.New("an event without a type"))
	case "error":
		return r.failure(data)
	case "message_start":
		r.model, r.id = ev.Message.Model, ev.Message.ID
		r.usage = startUsage(ev.Message.Usage)
	case "content_block_start":
		return r.open(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		return r.delta(ev.Index, ev.Delta)
	case "message_delta":
		if ev.Delta.StopReason != "" {
			r.stop = ev.Delta.StopReason
			r.detail = ev.Delta.StopDetails.Explanation
		}
		addUsage(&r.usage, ev.Usage)
	case "message_stop":
		r.done = true
	}
	return nil // ping, content_block_stop and what the API may add
}

func (r *reply) failure(data []byte) error {
	f, ok := parseFailure(data)
	if !ok {
		f.Message = string(data)
	}
	return r.p.failed(0, f, data)
}

func malformed(err error) error {
	return &llm.Error{Kind: llm.KindMalformed, Message: "event is not what it should be: " + llm.Clip(err.Error()), Err: err}
}

func (r *reply) open(index int64, c anthropic.ContentBlockStartEventContentBlockUnion) error {
	b := &block{}
	r.blocks[index] = b
	switch c.Type {
	case "text":
		b.slot = r.parts.Open(events.PartText)
		return b.write(c.Text)
	case "thinking":
		b.slot = r.parts.Open(events.PartReasoning)
		b.meta.Signature = c.Signature
		return b.write(c.Thinking)
	case "redacted_thinking":
		b.slot = r.parts.Open(events.PartReasoning)
		b.meta.Redacted = c.Data
	case "tool_use":
		b.slot = r.parts.Open(events.PartToolCall)
		b.slot.Part.Call, b.slot.Part.Tool = events.CallID(c.ID), c.Name
		b.input = c.JSON.Input.Raw()
	}
	return nil
}

func (r *reply) delta(index int64, d anthropic.MessageStreamEventUnionDelta) error {
	b, ok := r.blocks[index]
	if !ok {
		return malformed(fmt.Errorf("delta for block %d, which has not begun", index))
	}
	switch d.Type {
	case "text_delta":
		return b.write(d.Text)
	case "thinking_delta":
		return b.write(d.Thinking)
	case "input_json_delta":
		return b.write(d.PartialJSON)
	case "signature_delta":
		b.meta.Signature += d.Signature
	}
	return nil // citations and what the API may add
}

func (b *block) write(text string) error {
	if b.slot == nil || text == "" {
		return nil
	}
	b.wrote = true
	return b.slot.Write(text)
}

// end returns the response. A reply is complete after its stop reason.
func (r *reply) end(err error) (llm.Response, error) {
	if r.stop == "" {
		if err == nil {
			err = errors.New("the stream ended before the reply did")
		}
		return llm.Response{Usage: r.usage, Model: r.model, ID: r.id}, err
	}
	for _, b := range r.blocks {
		if err := b.close(); err != nil {
			return llm.Response{Usage: r.usage, Model: r.model, ID: r.id}, err
		}
	}
	res := llm.Response{Parts: r.parts.Parts(), Usage: r.usage, Model: r.model, ID: r.id, Stop: r.reason()}
	if res.Stop == events.StopUnknown || res.Stop == events.StopContentFilter {
		res.Detail = llm.Redact(fmt.Sprintf("stop_reason: %s %s", r.stop, r.detail), r.p.key)
	}
	return res, nil
}

func (b *block) close() error {
	if b.slot == nil {
		return nil
	}
	if b.slot.Part.Kind == events.PartToolCall && !b.wrote {
		return b.write(b.input)
	}
	if b.meta != (meta{}) {
		data, err := json.Marshal(b.meta)
		if err != nil {
			return err
		}
		b.slot.Part.Meta = data
	}
	return nil
}

func (r *reply) reason() events.StopReason {
	switch r.stop {
	case anthropic.StopReasonEndTurn, anthropic.StopReasonStopSequence:
		return events.StopEnd
	case anthropic.StopReasonToolUse:
		return events.StopToolUse
	case anthropic.StopReasonMaxTokens:
		return events.StopOutputLimit
	case anthropic.StopReasonRefusal:
		return events.StopContentFilter
	case anthropic.StopReasonModelContextWindowExceeded:
		return events.StopContextOverflow
	case anthropic.StopReasonPauseTurn: // only server tools pause, and none are declared
	}
	return events.StopUnknown
}

func startUsage(u anthropic.Usage) events.Usage {
	return events.Usage{
		Input:      u.InputTokens,
		Output:     u.OutputTokens,
		CacheRead:  u.CacheReadInputTokens,
		CacheWrite: u.CacheCreationInputTokens,
		Reasoning:  u.OutputTokensDetails.ThinkingTokens,
	}
}

// addUsage stores the counts of message_delta, which are totals, if it has any.
func addUsage(total *events.Usage, u anthropic.MessageDeltaUsage) {
	if u.JSON.InputTokens.Valid() {
		total.Input = u.InputTokens
	}
	if u.JSON.OutputTokens.Valid() {
		total.Output = u.OutputTokens
	}
	if u.JSON.CacheReadInputTokens.Valid() {
		total.CacheRead = u.CacheReadInputTokens
	}
	if u.JSON.CacheCreationInputTokens.Valid() {
		total.CacheWrite = u.CacheCreationInputTokens
	}
	if u.OutputTokensDetails.JSON.ThinkingTokens.Valid() {
		total.Reasoning = u.OutputTokensDetails.ThinkingTokens
	}
}
