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
	ItemID       llm.Label   `json:"item_id"`
	OutputIndex  *llm.Number `json:"output_index"`
	SummaryIndex llm.Number  `json:"summary_index"`
	Delta        json.RawMessage
	Item         *item
	Response     *response
}

// item is an item of a reply.
type item struct {
	Type      llm.Label
	ID        llm.Label
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
	Usage      json.RawMessage
	Error      json.RawMessage
	Incomplete struct {
		Reason llm.Label
	} `json:"incomplete_details"`
}

// decodeResponse reads an event of a Responses stream. An event without a type has its name.
func decodeResponse(e llm.ServerEvent) (u llm.Update, err error) {
	var ev responseEvent
	malformed := llm.Decode(e.Data, &ev)
	switch name := cmp.Or(string(ev.Type), e.Name); name {
	case "error":
		return failed(e.Data), nil
	case "response.output_item.added", "response.output_item.done":
		if malformed == nil {
			u, err = ev.item(name == "response.output_item.done")
		}
	case "response.created", "response.completed", "response.incomplete", "response.failed":
		if malformed == nil {
			u, err = ev.Response.update(name)
		}
	default:
		var p llm.Piece
		p, err = ev.delta(name)
		if p.Kind != "" {
			u.Pieces, u.Refused = []llm.Piece{p}, name == "response.refusal.delta"
		} else if ev.Type != "" {
			return u, nil // starts and ends of parts, and future events, with any fields
		}
	}
	return u, cmp.Or(malformed, err)
}

// delta is the piece of a delta. Its kind is empty for other events.
func (ev responseEvent) delta(name string) (p llm.Piece, err error) {
	p.ID, p.Index = string(ev.ItemID), ev.OutputIndex
	switch name {
	case "response.output_text.delta", "response.refusal.delta":
		p.Kind = events.PartText
	case "response.function_call_arguments.delta":
		p.Kind = events.PartToolCall
	case "response.reasoning_text.delta":
		p.Kind = events.PartReasoning
	case "response.reasoning_summary_text.delta":
		p.Kind, p.Paragraph = events.PartReasoning, ev.SummaryIndex
	default:
		return llm.Piece{}, nil
	}
	p.Text, err = llm.TextOf(ev.Delta)
	if p.Text != "" && name == "response.reasoning_text.delta" {
		p.Fields = map[string]json.RawMessage{openField: json.RawMessage("true")}
	}
	return p, err
}

// item is what the first event of an item says, or the last one. Items of other kinds, as those of server tools, are left
// out.
func (ev responseEvent) item(done bool) (u llm.Update, err error) {
	i := ev.Item
	if i == nil {
		return u, llm.Malformed("an event without its item")
	}
	p := llm.Piece{ID: string(i.ID), Index: ev.OutputIndex, Begin: !done, Whole: done}
	switch i.Type {
	case "message":
		p.Kind = events.PartText
	case "reasoning":
		p.Kind = events.PartReasoning
	case "function_call":
		p.Kind, p.Call, p.Tool = events.PartToolCall, events.CallID(i.CallID), string(i.Name)
	}
	if done {
		p.Fields = i.fields()
		p.Text, u.Refused, err = i.whole()
	}
	u.Pieces = []llm.Piece{p}
	return u, err
}

// whole is the text of a complete item.
func (i *item) whole() (text string, refused bool, err error) {
	switch i.Type {
	case "message":
		return joined(i.Content, "")
	case "reasoning":
		text, _, err = joined(i.Summary, "\n\n")
	case "function_call":
		text, err = llm.ArgumentsOf(i.Arguments)
	}
	return text, false, err
}

// joined is the text of a list of pieces, and whether one of them is a refusal.
func joined(list json.RawMessage, separator string) (text string, refused bool, err error) {
	var pieces []struct{ Text, Refusal json.RawMessage }
	if llm.IsSet(list) {
		err = llm.Decode(list, &pieces)
	}
	var b strings.Builder // of very many pieces too
	for n, p := range pieces {
		if n > 0 {
			b.WriteString(separator)
		}
		text, err1 := llm.TextOf(p.Text)
		refusal, err2 := llm.TextOf(p.Refusal)
		b.WriteString(text)
		b.WriteString(refusal)
		refused = refused || refusal != ""
		err = cmp.Or(err, err1, err2)
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
	return out
}

// update is what an event says that has the response.
func (r *response) update(name string) (u llm.Update, err error) {
	if r == nil {
		return u, llm.Malformed("an event without its response")
	}
	u.Model, u.ID = string(r.Model), string(r.ID)
	if name == "response.created" {
		return u, nil
	}
	u.Usage, u.Done = responseCounts(r.Usage), true
	switch name {
	case "response.completed":
		u.End = &llm.End{Reason: "completed"}
	case "response.incomplete":
		reason := cmp.Or(string(r.Incomplete.Reason), "incomplete")
		u.End = &llm.End{Reason: reason, Detail: "incomplete: " + reason}
	default:
		f, ok := llm.ParseFailure(r.Error)
		if !ok {
			f.Message = "the endpoint says that it failed, and not why"
		}
		u.Failure = &f
	}
	return u, nil
}

// responseCounts separates Input, CacheRead and CacheWrite: the dialect counts the latter two in input_tokens. What is no
// usage counts nothing.
func responseCounts(raw json.RawMessage) llm.Counts {
	var u *struct {
		InputTokens  llm.Number   `json:"input_tokens"`
		InputDetails inputDetails `json:"input_tokens_details"`
		OutputTokens llm.Number   `json:"output_tokens"`
		OutDetails   struct {
			ReasoningTokens llm.Number `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	}
	if json.Unmarshal(raw, &u) != nil || u == nil {
		return llm.Counts{}
	}
	return u.InputDetails.counts(u.InputTokens, u.OutputTokens, u.OutDetails.ReasoningTokens)
}
