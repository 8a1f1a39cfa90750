package openai

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/lash-go/lash/events"
	"github.com/lash-go/lash/workers/llm"
)

// Fields of an item that its endpoint wants back.
const (
	encryptedField = "encrypted_content" // the reasoning, which only the endpoint can read
	openField      = "open"              // true: the part's text is the reasoning itself, not a summary
	phaseField     = "phase"             // of a message
)

// responseEvent has the fields of all events of a Responses stream.
type responseEvent struct {
	Type         llm.Label
	Object       llm.Label
	ItemID       llm.Label   `json:"item_id"`
	OutputIndex  *llm.Number `json:"output_index"`
	SummaryIndex llm.Number  `json:"summary_index"`
	Delta        json.RawMessage
	Arguments    json.RawMessage
	Item         *item
	Response     *response
	Error        json.RawMessage
}

// item is an item of a reply.
type item struct {
	Type      llm.Label
	ID        llm.Label
	Status    llm.Label
	CallID    llm.Label `json:"call_id"`
	Name      llm.Label
	Arguments json.RawMessage
	Phase     llm.Label
	Content   json.RawMessage
	Summary   json.RawMessage
	Encrypted llm.Label `json:"encrypted_content"`
}

type response struct {
	ID         llm.Label
	Model      llm.Label
	Status     llm.Label
	Output     []json.RawMessage
	Usage      json.RawMessage
	Error      json.RawMessage
	Incomplete struct {
		Reason llm.Label
	} `json:"incomplete_details"`
}

// decodeResponse reads an event of a Responses stream, or a whole response. An event without a type has its name.
func decodeResponse(e llm.ServerEvent) (u llm.Update, err error) {
	var ev responseEvent
	malformed := llm.Decode(e.Data, &ev)
	name := cmp.Or(string(ev.Type), e.Name)
	switch {
	case name == "" && ev.Object == "response":
		var r *response
		if malformed = llm.Decode(e.Data, &r); malformed == nil {
			return r.update("response." + string(r.Status))
		}
	case name == "", name == "error", name == "response.error", e.Name == "error", llm.IsSet(ev.Error):
		if f, ok := llm.FailureIn(llm.ServerEvent{Name: name, Data: e.Data}); ok {
			return llm.Update{Failure: &f}, nil
		}
	}
	switch name {
	case "response.output_item.added", "response.output_item.done":
		if malformed == nil {
			u, err = ev.Item.update(ev.OutputIndex, name == "response.output_item.done")
		}
	case "response.created", "response.completed", "response.incomplete", "response.failed", "response.done":
		if ev.Response != nil && !llm.IsSet(ev.Response.Usage) {
			ev.Response.Usage = llm.UsageIn(e.Data)
		}
		if malformed == nil {
			u, err = ev.Response.update(name)
		}
	default:
		u.Pieces, err = ev.delta(name)
		if len(u.Pieces) > 0 {
			u.Refused = name == "response.refusal.delta"
		} else if ev.Type != "" && err == nil {
			return llm.UnknownEvent(e), nil // starts and ends of parts, and future events, with any fields
		}
	}
	return u, cmp.Or(malformed, err)
}

// delta are the pieces of a delta. There are none in other events.
func (ev responseEvent) delta(name string) (list []llm.Piece, err error) {
	p := llm.Piece{ID: string(ev.ItemID), Item: true, Index: ev.OutputIndex}
	switch name {
	case "response.output_text.delta", "response.refusal.delta":
		p.Kind = events.PartText
	case "response.function_call_arguments.delta":
		p.Kind = events.PartToolCall
		p.Text, err = llm.ArgumentsOf(ev.Delta)
		return []llm.Piece{p}, err
	case "response.function_call_arguments.done":
		p.Kind = events.PartToolCall
		p.Text, err = llm.ArgumentsOf(ev.Arguments)
		p.Whole = p.Text != ""
		return []llm.Piece{p}, err
	case "response.reasoning_text.delta", "response.reasoning.delta":
		p.Kind = events.PartReasoning
	case "response.reasoning_summary_text.delta":
		p.Kind, p.Paragraph = events.PartReasoning, ev.SummaryIndex
	default:
		return nil, nil
	}
	pieces, _, err := llm.Fragments(p.Kind, ev.Delta)
	for _, one := range pieces {
		part := p
		if part.Text = one.Text; one.Kind != p.Kind {
			part.Kind, part.ID = one.Kind, ""
		}
		if one.Text != "" && name != "response.reasoning_summary_text.delta" && p.Kind == events.PartReasoning {
			part.Fields = map[string]json.RawMessage{openField: json.RawMessage("true")}
		}
		list = append(list, part)
	}
	return list, err
}

// update is what the first event of an item says, or the last one. Items of other kinds, as those of server tools, are left
// out.
func (i *item) update(index *llm.Number, done bool) (u llm.Update, err error) {
	if i == nil {
		return u, llm.Malformed("an event without its item")
	}
	p := llm.Piece{ID: string(i.ID), Item: true, Index: index, Begin: !done, Done: done, Whole: done, Cut: done && i.Status == "incomplete"}
	switch i.Type {
	case "message":
		p.Kind = events.PartText
	case "reasoning":
		p.Kind = events.PartReasoning
	case "function_call":
		p.Kind, p.Call, p.Tool = events.PartToolCall, events.CallID(i.CallID), string(i.Name)
	}
	if done || i.Type == "function_call" {
		p.Whole, p.Fields = true, i.fields()
		p.Text, u.Refused, err = i.whole()
	}
	u.Pieces = []llm.Piece{p}
	return u, err
}

// whole is the text of a complete item.
func (i *item) whole() (text string, refused bool, err error) {
	switch i.Type {
	case "message":
		return joined(events.PartText, i.Content, "")
	case "reasoning":
		if text, _, err = joined(events.PartReasoning, i.Summary, "\n\n"); text == "" && err == nil {
			text, _, err = joined(events.PartReasoning, i.Content, "")
		}
	case "function_call":
		text, err = llm.ArgumentsOf(i.Arguments)
	}
	return text, false, err
}

// joined is the text of a list of pieces, and whether one of them is a refusal.
func joined(kind events.PartKind, list json.RawMessage, separator string) (text string, refused bool, err error) {
	pieces, refused, err := llm.Fragments(kind, list)
	var b strings.Builder // of very many pieces too
	for n, p := range pieces {
		if n > 0 {
			b.WriteString(separator)
		}
		if p.Kind == kind {
			b.WriteString(p.Text)
		}
	}
	return b.String(), refused, err
}

// fields are what the endpoint wants back of a complete item.
func (i *item) fields() map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if i.Type == "message" && i.Phase != "" {
		out[phaseField] = llm.Quote(string(i.Phase))
	}
	if i.Type == "reasoning" && i.Encrypted != "" {
		out[encryptedField] = llm.Quote(string(i.Encrypted))
	}
	if said, _, _ := joined(events.PartReasoning, i.Summary, ""); i.Type == "reasoning" && said == "" && llm.IsSet(i.Content) && string(i.Content) != "[]" {
		out[openField] = json.RawMessage("true")
	}
	return out
}

// update is what an event says that has the response.
func (r *response) update(name string) (u llm.Update, err error) {
	if r == nil {
		return u, llm.Malformed("an event without its response")
	}
	u.Model, u.ID = string(r.Model), string(r.ID)
	switch name {
	case "response.created":
		return u, nil
	case "response.done":
		name = "response." + string(r.Status)
	}
	u.Usage, u.Done, u.Whole = llm.CountsOf(r.Usage, true), true, true
	reason := cmp.Or(string(r.Incomplete.Reason), strings.TrimPrefix(name, "response."))
	if name == "response.failed" || llm.IsSet(r.Error) {
		f, ok := llm.ParseFailure(r.Error)
		if !ok {
			f.Message = "the endpoint says that it failed, and not why"
		}
		u.Failure = &f
		return u, nil
	}
	u.End = &llm.End{Reason: reason, Detail: "incomplete: " + reason}
	for n, raw := range r.Output {
		var i *item
		if err := llm.Decode(raw, &i); err != nil {
			return u, err
		}
		at := llm.Number(n)
		one, err := i.update(&at, true)
		if err != nil {
			return u, err
		}
		u.Pieces, u.Refused = append(u.Pieces, one.Pieces...), u.Refused || one.Refused
	}
	return u, nil
}
