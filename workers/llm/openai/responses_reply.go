package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/openai/openai-go/v3/packages/ssestream"
	"github.com/openai/openai-go/v3/responses"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// output is a streamed reply that is being received.
type output struct {
	p       *Responses
	parts   *llm.Assembly
	items   map[int64]*item // by output_index
	calls   int
	refused bool
	reason  string // why the reply is incomplete, as reported by the endpoint
	usage   events.Usage
	model   string
	done    bool // no event follows
}

// item is an item of a reply that is being received. An item of an unknown kind has no slot.
type item struct {
	slot    *llm.Slot
	summary int64 // index of the current part of the summary
	wrote   bool
	open    bool // the text is the reasoning itself
}

// envelope distinguishes the events. The SDK decodes them: it keeps both halves of a character that was split between
// events.
type envelope struct {
	Type         string          `json:"type"`
	OutputIndex  int64           `json:"output_index"`
	SummaryIndex int64           `json:"summary_index"`
	Item         json.RawMessage `json:"item"`
	Response     json.RawMessage `json:"response"`
}

func (r *output) event(e ssestream.Event) error {
	data := bytes.TrimSpace(e.Data)
	if len(data) == 0 {
		return nil
	}
	var ev envelope
	if err := json.Unmarshal(data, &ev); err != nil {
		return malformed(err)
	}
	switch ev.Type = cmp.Or(ev.Type, e.Type); ev.Type {
	case "error":
		f, _ := parseFailure(data)
		return r.p.failed(0, f, data)
	case "response.created":
		var res struct{ Model string }
		if err := json.Unmarshal(ev.Response, &res); err != nil {
			return malformed(err)
		}
		r.model = res.Model
	case "response.output_item.added", "response.output_item.done":
		var it responses.ResponseOutputItemUnion
		if err := json.Unmarshal(ev.Item, &it); err != nil {
			return malformed(err)
		}
		if ev.Type == "response.output_item.done" {
			return r.close(ev.OutputIndex, it)
		}
		r.open(ev.OutputIndex, it)
	case "response.output_text.delta", "response.refusal.delta", "response.function_call_arguments.delta",
		"response.reasoning_text.delta", "response.reasoning_summary_text.delta":
		var delta responses.ResponseTextDeltaEvent // all have their text in the same field
		if err := json.Unmarshal(data, &delta); err != nil {
			return malformed(err)
		}
		return r.delta(ev, delta.Delta)
	case "response.completed", "response.incomplete", "response.failed":
		var res responses.Response
		if err := json.Unmarshal(ev.Response, &res); err != nil {
			return malformed(err)
		}
		return r.last(ev.Type, res)
	}
	return nil // starts and ends of parts, and future events
}

func (r *output) open(index int64, it responses.ResponseOutputItemUnion) *item {
	i := &item{}
	r.items[index] = i
	switch it.Type {
	case "message":
		i.slot = r.parts.Open(events.PartText)
	case "reasoning":
		i.slot = r.parts.Open(events.PartReasoning)
	case "function_call":
		i.slot = r.parts.Open(events.PartToolCall)
		i.slot.Part.Call, i.slot.Part.Tool = events.CallID(it.CallID), it.Name
		r.calls++
	}
	return i
}

func (r *output) delta(ev envelope, text string) error {
	i, ok := r.items[ev.OutputIndex]
	if !ok {
		return malformed(fmt.Errorf("delta for item %d, which has not begun", ev.OutputIndex))
	}
	switch ev.Type {
	case "response.refusal.delta":
		r.refused = true
	case "response.reasoning_text.delta":
		i.open = true
	case "response.reasoning_summary_text.delta":
		if i.wrote && ev.SummaryIndex != i.summary {
			if err := i.write("\n\n"); err != nil {
				return err
			}
		}
		i.summary = ev.SummaryIndex
	}
	return i.write(text)
}

func (i *item) write(text string) error {
	if i.slot == nil || text == "" {
		return nil
	}
	i.wrote = true
	return i.slot.Write(text)
}

// close reads from the complete item the text that was not streamed, and the data for its replay.
func (r *output) close(index int64, it responses.ResponseOutputItemUnion) error {
	i, ok := r.items[index]
	if !ok {
		i = r.open(index, it)
	}
	meta := itemMeta{Host: r.p.host}
	switch it.Type {
	case "message":
		for _, c := range it.Content {
			r.refused = r.refused || c.Refusal != ""
		}
		meta.Phase = string(it.Phase)
	case "reasoning":
		meta.ID, meta.Encrypted, meta.Open = it.ID, it.EncryptedContent, i.open
	}
	if !i.wrote {
		if err := i.whole(it); err != nil {
			return err
		}
	}
	if replays := meta.Encrypted != "" || i.wrote && (meta.Open || meta.Phase != ""); i.slot == nil || !replays {
		return nil
	}
	data, err := json.Marshal(meta)
	i.slot.Part.Meta = data
	return err
}

// whole writes an item that was not streamed.
func (i *item) whole(it responses.ResponseOutputItemUnion) error {
	var text strings.Builder // of very many pieces too
	switch it.Type {
	case "message":
		for _, c := range it.Content {
			text.WriteString(c.Text)
			text.WriteString(c.Refusal)
		}
	case "reasoning":
		for n, s := range it.Summary {
			if n > 0 {
				text.WriteString("\n\n")
			}
			text.WriteString(s.Text)
		}
	case "function_call":
		text.WriteString(it.Arguments.OfString)
	}
	return i.write(text.String())
}

// last handles the last event.
func (r *output) last(kind string, res responses.Response) error {
	r.done = true
	r.model = cmp.Or(res.Model, r.model)
	r.usage = responseUsage(res.Usage)
	switch kind {
	case "response.failed":
		raw := []byte(res.Error.RawJSON())
		f := parseInner(raw)
		f.message = cmp.Or(f.message, "the endpoint says that it failed, and not why")
		return r.p.failed(0, f, raw)
	case "response.incomplete":
		r.reason = cmp.Or(res.IncompleteDetails.Reason, "incomplete")
	}
	return nil
}

func (r *output) isDone() bool { return r.done }

func (r *output) counted() llm.Response { return llm.Response{Usage: r.usage, Model: r.model} }

// end returns the response. A reply is complete after its last event.
func (r *output) end(err error) (llm.Response, error) {
	if !r.done {
		if err == nil {
			err = errors.New("the stream ended before the reply did")
		}
		return llm.Response{Usage: r.usage, Model: r.model}, err
	}
	res := llm.Response{Parts: r.parts.Parts(), Usage: r.usage, Model: r.model}
	switch {
	case r.reason == "max_output_tokens":
		res.Stop = events.StopOutputLimit
	case r.reason == "content_filter":
		res.Stop, res.Detail = events.StopContentFilter, "incomplete: content_filter"
	case r.reason != "":
		res.Stop, res.Detail = events.StopUnknown, llm.Redact("incomplete: "+r.reason, r.p.key)
	case r.calls > 0:
		res.Stop = events.StopToolUse
	case r.refused:
		res.Stop, res.Detail = events.StopContentFilter, "the model refused"
	default:
		res.Stop = events.StopEnd
	}
	return res, nil
}

// responseUsage separates Input, CacheRead and CacheWrite: the dialect counts the latter two in input_tokens.
func responseUsage(u responses.ResponseUsage) events.Usage {
	in := u.InputTokensDetails
	return events.Usage{
		Input:      max(u.InputTokens-in.CachedTokens-in.CacheWriteTokens, 0),
		Output:     u.OutputTokens,
		CacheRead:  in.CachedTokens,
		CacheWrite: in.CacheWriteTokens,
		Reasoning:  u.OutputTokensDetails.ReasoningTokens,
	}
}
